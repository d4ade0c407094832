"""Nothing that a run of the tests has started outlives it, however the run ends: SIGKILL of pytest, too.

A run has one guardian, a process in a session of its own, which Ctrl-C does not reach. It reads a pipe whose writing end
only the run holds; the system closes that end with the run. Then the guardian ends what is left of the run's processes:
workers of xdist, brokers, JVMs, and theirs. They are known by a variable of their environment, which each process
inherits from the one that starts it; never by a name. Where there is no /proc, a run has no guardian.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

VARIABLE = "SORDINI_TEST_RUN"
_PROCESSES = Path("/proc")
_GRACE_SECONDS = 2.0
"""What has been asked to end already has this time for it: a JVM takes some."""
_END_SECONDS_MAX = 10.0
_POLL_SECONDS = 0.02


class Guardian:
    """The guardian of this run. Processes that this one starts from now on are the run's."""

    def __init__(self) -> None:
        environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
        os.environ[VARIABLE] = mark = uuid4().hex
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, mark],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=True,
        )

    def end(self) -> list[str]:
        """End what is left and return the command line of each: it has neither ended by itself nor been stopped."""
        written, _ = self._process.communicate(timeout=2 * (_GRACE_SECONDS + _END_SECONDS_MAX))
        return written.splitlines()


def start_guardian() -> Guardian | None:
    return Guardian() if _PROCESSES.joinpath("self", "environ").exists() and hasattr(os, "pidfd_open") else None


def end_all(mark: str) -> None:
    """Wait for the processes of a run, then kill those that stay, and write their command lines to the standard output."""
    killed: set[int] = set()
    grace_end = time.monotonic() + _GRACE_SECONDS
    while time.monotonic() < grace_end + _END_SECONDS_MAX:
        left = list(_processes_of(mark))
        if not left:
            break
        for pid, descriptor in left:
            if time.monotonic() >= grace_end:
                words = _words(pid)
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                if pid not in killed:
                    killed.add(pid)
                    with suppress(BrokenPipeError):  # A run that was killed reads nothing.
                        os.write(sys.stdout.fileno(), f"{words}\n".encode())
            os.close(descriptor)
        time.sleep(_POLL_SECONDS)


def _processes_of(mark: str) -> Iterator[tuple[int, int]]:
    """Id and descriptor of each process that runs. With the descriptor a signal reaches no later process of that id."""
    wanted = f"{VARIABLE}={mark}".encode()
    for folder in _PROCESSES.iterdir():
        if not folder.name.isdecimal():
            continue
        pid = int(folder.name)
        try:
            descriptor = os.pidfd_open(pid)
        except OSError:
            continue  # It has ended.
        try:
            is_ours = wanted in (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            is_ours = False  # Ended meanwhile, or another user's.
        if is_ours:
            yield pid, descriptor
        else:
            os.close(descriptor)


def _words(pid: int) -> str:
    try:
        words = (_PROCESSES / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        words = ["?"]
    return f"{pid} {ascii(' '.join(words).strip())[1:-1][:300]}"


if __name__ == "__main__":
    sys.stdin.read()
    end_all(sys.argv[1])
