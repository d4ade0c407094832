"""A stream whose processes are killed with -9: the driver, its JVM, a Python worker of Spark's, or all of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Final

from tests.outside.needs import ROOT

VICTIMS: Final = ("all", "driver", "jvm", "worker")


class Stream:
    """`sordini pipeline ...` in a process group of its own, to which Spark's JVM and workers belong."""

    def __init__(self, log: Path, *arguments: str) -> None:
        self._log = log
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "sordini.cli", "pipeline", *arguments],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT / ".import")},
                stdout=file,
                stderr=file,
                start_new_session=True,
            )

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def kill(self, victim: str, random: Random) -> str:
        """Kill one of VICTIMS, then whatever is left of the group; what was killed first."""
        pids = dict(self._members())
        chosen = {
            "driver": [self.process.pid],
            "jvm": [pid for pid, line in pids.items() if "java" in line.split("\0")[0]],
            "worker": [pid for pid, line in pids.items() if "pyspark.daemon" in line],
        }.get(victim, [])
        if chosen:
            with suppress(ProcessLookupError):
                os.kill(random.choice(chosen), signal.SIGKILL)
            # Of a worker the stream may survive: it is given the time to fail, or to write another batch.
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(random.uniform(0.0, 3.0))
        self.end()
        return victim if chosen else "all"

    def end(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(30)

    def wait(self, seconds: float) -> int:
        """The exit code of a command that ends by itself. Raises AssertionError with its output."""
        try:
            code = self.process.wait(seconds)
        finally:
            self.end()
        assert code == 0, self._log.read_text(errors="replace")[-3000:]
        return code

    def _members(self) -> Iterator[tuple[int, str]]:
        group = self.process.pid
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                with suppress(OSError):
                    if os.getpgid(int(entry.name)) == group:
                        yield int(entry.name), (entry / "cmdline").read_bytes().decode(errors="replace")
