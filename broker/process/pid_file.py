"""The file that says which process is a broker, and how others make sure that it still is.

A broker writes its process id into the file and holds a POSIX record lock on it as long as it lives. The lock is the
truth, the number is for people: the kernel names the process that holds a lock and lets it go when that process
ends, however it ends. So a file that was left over is known as such, and a number that the system has given to
somebody else since is never taken for a broker.
"""

from __future__ import annotations

import contextlib
import fcntl
import struct

from sordini.storage.disk import Disk, File

NAME = "sordini.pid"
"""In the first log directory, where Apache Kafka passes over regular files."""

_TEXT_BYTES_MAX = 64
_FLOCK = struct.Struct("@hhqqi0q")  # Linux's struct flock on 64 bits: type, whence, start, length, process.


class PidFileRefused(Exception):
    """A living process has the file, or it is something else altogether; the text says which."""


class PidFile:
    """A pid file of this process. Make it with `claim`."""

    def __init__(self, disk: Disk, file: File) -> None:
        self._disk = disk
        self._file = file

    @property
    def path(self) -> str:
        return self._file.path

    def remove(self) -> None:
        """Take the file away, then let go of its lock. A file that cannot be removed is known as left over."""
        with contextlib.suppress(OSError):
            self._disk.remove(self._file.path)
        self._file.close()


def claim(disk: Disk, path: str, process_id: int) -> PidFile:
    """Write this process's id, in place of one that was left over. To be called after the last fork.

    Raises PidFileRefused when a living process holds the file or it is no pid file, OSError when it cannot be written.
    """
    while True:
        try:
            file = disk.lock(path)
        except BlockingIOError as error:
            raise PidFileRefused(f"{path} is in use by process {holder(disk, path)}") from error
        if disk.exists(path):
            break
        file.close()  # Its last owner removed it while it was being opened: the name is free now.
    found = file.read_at(0, _TEXT_BYTES_MAX)
    if found.strip() and not found.strip().isdigit():
        file.close()
        raise PidFileRefused(f"{path} is not a pid file: it holds something else and is left alone")
    file.truncate(0)
    file.append([b"%d\n" % process_id])
    return PidFile(disk, file)


def holder(disk: Disk, path: str) -> int | None:
    """The process that holds a pid file; None when nobody does, 0 when it is out of sight (another container's).

    Raises FileNotFoundError when there is no such file, and OSError.
    """
    file = disk.open(path, writable=False)
    try:
        wanted = _FLOCK.pack(fcntl.F_WRLCK, 0, 0, 0, 0)
        kind, _, _, _, process_id = _FLOCK.unpack(fcntl.fcntl(file.fileno(), fcntl.F_GETLK, wanted))
    finally:
        file.close()
    return None if kind == fcntl.F_UNLCK else int(process_id)
