"""Blocks of a documentation page, pasted one after the other into one bash, as a reader pastes them into a terminal.

The folder, variables, functions and background jobs of a block are there in the next one. bash runs with `-e` and
`pipefail`: it ends at the first command that fails, and the failure names the block and shows what it has printed. What
a block prints goes to a file of its own: a program that it leaves in the background holds no pipe that is read here.
"""

from __future__ import annotations

import os
import select
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

_DONE = b"done\n"
_POLL_S = 0.05
"""After which time the end of bash itself is noticed; that of a block is noticed at once."""


def reader_environment(**more: str) -> dict[str, str]:
    """A reader's environment in which our commands are found."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return {**os.environ, "PATH": path} | more


class ShellSession:
    """One bash. `diagnosis` is added to a failure, e.g. the logs of programs that blocks have started."""

    def __init__(self, bash: subprocess.Popen[bytes], files: Path, diagnosis: Callable[[], str]) -> None:
        self._bash = bash
        self._files = files
        self._diagnosis = diagnosis
        self._count = 0

    def paste(self, block: str, seconds_max: float) -> str:
        """What the block prints on both outputs. One that fails, or takes longer, is an AssertionError."""
        self._count += 1
        script, output = (self._files / f"{self._count}.{kind}" for kind in ("sh", "output"))
        script.write_text(block, encoding="utf-8")
        assert self._bash.stdin is not None
        with suppress(BrokenPipeError):  # A former block has ended the shell, which is reported below.
            # bash's own output is the pipe of the marks.
            line = f". {shlex.quote(str(script))} < /dev/null > {shlex.quote(str(output))} 2>&1; echo done\n"
            self._bash.stdin.write(line.encode())
        failure = self._failure(seconds_max)
        printed = output.read_text(encoding="utf-8", errors="replace") if output.exists() else ""
        assert failure is None, f"block {self._count} {failure}:\n{block}\nprinted:\n{printed}\n{self._diagnosis()}"
        return printed

    def _failure(self, seconds_max: float) -> str | None:
        """Why the block did not come to its end; None where it did."""
        deadline = time.monotonic() + seconds_max
        assert self._bash.stdout is not None
        while time.monotonic() < deadline:
            if select.select([self._bash.stdout], [], [], _POLL_S)[0] and self._bash.stdout.read(len(_DONE)) == _DONE:
                return None
            if (status := self._bash.poll()) is not None:
                return f"ended the shell with status {status}"
        return f"did not end in {seconds_max:g} s"


@contextmanager
def shell_session(
    directory: Path, environment: Mapping[str, str], diagnosis: Callable[[], str] = str
) -> Iterator[ShellSession]:
    """A bash that starts in `directory`. What blocks have left in its process group ends with it."""
    with tempfile.TemporaryDirectory(prefix="pasted-") as files:
        bash = subprocess.Popen(
            ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-s"],
            cwd=directory,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # Notes on jobs that have ended; what blocks print is in their files.
            bufsize=0,
            start_new_session=True,
        )
        try:
            yield ShellSession(bash, Path(files), diagnosis)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(bash.pid, signal.SIGKILL)
            bash.wait()
            for pipe in (bash.stdin, bash.stdout):
                assert pipe is not None
                pipe.close()


def paste(blocks: Sequence[str], directory: Path, environment: Mapping[str, str], seconds_max: float) -> list[str]:
    """What each block prints, all in one session; each may take `seconds_max`."""
    with shell_session(directory, environment) as session:
        return [session.paste(block, seconds_max) for block in blocks]
