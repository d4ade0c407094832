"""One system call on one file of a running broker made to fail, as a failing disk would. Skips where strace may not."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.outside.processes import BrokerProcess, OutsideProcess


class Injector(OutsideProcess):
    """strace, making one system call on one file of a running process fail."""

    name = "strace"

    def __init__(self, directory: Path, pid: int, call: str, path: Path) -> None:
        super().__init__(directory)
        self._arguments = [
            "-f",
            "-p",
            str(pid),
            "-P",
            str(path),
            "-e",
            f"trace={call}",
            "-e",
            f"inject={call}:error=EIO",
        ]

    def command(self) -> list[str]:
        return ["strace", *self._arguments]

    def is_ready(self) -> bool:
        return "attached" in self.output()


@contextlib.contextmanager
def failing(broker: BrokerProcess, call: str, path: Path) -> Iterator[None]:
    """A disk that fails: a system call (`pwrite64`, or several with commas) on one file says EIO meanwhile."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not here to make a disk fail: `apt-get install strace`")
    injector = Injector(broker.directory, broker.pid, call, path)
    injector.launch()
    try:
        injector.wait_until(injector.is_ready, 10, "attach")
    except AssertionError:
        pytest.skip(f"strace may not attach to a process here: {injector.output().strip()}")
    try:
        yield
    finally:
        injector.stop()
