"""The file that holds a broker's process id, and how other processes check that the broker still runs.

A broker writes its process id into the file and holds a POSIX record lock on it while it runs. The lock decides, the
number is for the reader: the kernel reports the process that holds a lock, and releases it when that process ends. So
a stale file is recognized, and a process id that was reused is not mistaken for a broker.
"""

from __future__ import annotations

import contextlib

from sordini.storage.disk import Disk, File
from sordini.system.processes import lock_holder

NAME = "sordini.pid"
"""In the first log directory, where Apache Kafka ignores regular files."""

_TEXT_BYTES_MAX = 64


class PidFileRefused(Exception):
    """A running process holds the file, or it is no pid file; the text says which."""


class PidFile:
    """A pid file of this process. Make it with `claim`."""

    def __init__(self, disk: Disk, file: File) -> None:
        self._disk = disk
        self._file = file

    @property
    def path(self) -> str:
        return self._file.path

    def remove(self) -> None:
        """Remove the file, then release its lock. A file that cannot be removed is recognized as stale."""
        with contextlib.suppress(OSError):
            self._disk.remove(self._file.path)
        self._file.close()


def claim(disk: Disk, path: str, process_id: int) -> PidFile:
    """Write this process's id, also over a stale one. Call it after the last fork.

    Raises PidFileRefused when a running process holds the file or it is no pid file, OSError when it cannot be written.
    """
    while True:
        try:
            file = disk.lock(path)
        except BlockingIOError as error:
            raise PidFileRefused(f"{path} is in use by another broker, {process_text(holder(disk, path))}") from error
        if disk.exists(path):
            break
        file.close()  # Its last owner removed it while it was being opened: the name is free now.
    found = file.read_at(0, _TEXT_BYTES_MAX)
    if found.strip() and not found.strip().isdigit():
        file.close()
        raise PidFileRefused(f"{path} is not a pid file and is left unchanged")
    file.truncate(0)
    file.append([b"%d\n" % process_id])
    return PidFile(disk, file)


def holder(disk: Disk, path: str) -> int | None:
    """The process that holds a pid file; None without a holder, 0 when it is in another container.

    Raises FileNotFoundError when there is no such file, and OSError.
    """
    file = disk.open(path, writable=False)
    try:
        return lock_holder(file.fileno())
    finally:
        file.close()


def process_text(process_id: int | None) -> str:
    """A holder for a message: without a number it is in another container, or has just ended."""
    return f"process {process_id}" if process_id else "a process in another container"
