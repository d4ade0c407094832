"""Calls on files that differ between systems.

what                        Linux                           elsewhere
force to the disk           fsync                           F_FULLFSYNC (macOS: its fsync stops at the drive's cache)
several buffers, one write  pwritev                         one buffer that is joined, pwrite
reserve blocks              fallocate, size unchanged       OSError: nothing is reserved
read unless that waits      preadv with RWF_NOWAIT          not possible: READ_NOWAIT is None
open a terminal again       /proc/self/fd                   OSError: /dev/fd shares the first one's flags
a file in memory            memfd_create                    a private file in the temporary directory
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import fcntl
import os
from collections.abc import Callable, Sequence
from typing import Final

from sordini.system.linux import USES_LINUX_CALLS

Buffer = bytes | bytearray | memoryview

_KEEP_SIZE: Final = 1  # FALLOC_FL_KEEP_SIZE, which the os module does not define.
_FULL_SYNC: Final[int | None] = getattr(fcntl, "F_FULLFSYNC", None)

READ_NOWAIT: Final[int | None] = getattr(os, "RWF_NOWAIT", None) if USES_LINUX_CALLS else None
"""The flag of `preadv` for a read that fails rather than wait for the disk; None where there is none."""


def _full_sync(descriptor: int) -> None:
    assert _FULL_SYNC is not None
    try:
        fcntl.fcntl(descriptor, _FULL_SYNC)
    except OSError as error:
        # Directories, and file systems of networks: fsync is all they have.
        if error.errno not in (errno.ENOTSUP, errno.EINVAL, errno.ENOTTY):
            raise
        os.fsync(descriptor)


sync: Callable[[int], None] = os.fsync if _FULL_SYNC is None else _full_sync
"""Force a file's or directory's bytes to the disk. Slow. Raises OSError."""


def _write_joined(descriptor: int, buffers: Sequence[Buffer], position: int) -> int:
    return os.pwrite(descriptor, b"".join(buffers), position)


write_many: Callable[[int, Sequence[Buffer], int], int] = os.pwritev if USES_LINUX_CALLS else _write_joined
"""Write buffers at a position in one call; the bytes written, which may be fewer than given."""


def reserve(descriptor: int, size: int) -> None:
    """Allocate the blocks of a file of `size` bytes without changing its size. Raises OSError, also where it cannot."""
    if not USES_LINUX_CALLS:
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))
    import ctypes  # Late import: only `preallocate` needs it.

    libc = ctypes.CDLL(None, use_errno=True)
    arguments = (ctypes.c_int(descriptor), ctypes.c_int(_KEEP_SIZE), ctypes.c_long(0), ctypes.c_long(size))
    if libc.fallocate(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def open_again_without_blocking(descriptor: int) -> int:
    """A second descriptor of a pipe or terminal, whose writes raise BlockingIOError instead of blocking.

    It is a separate open file: the first one, which other processes may share, is unchanged. Raises OSError where the
    system has no such paths, for a pipe without a reader, and for another user's file.
    """
    if not USES_LINUX_CALLS:
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))
    return os.open(f"/proc/self/fd/{descriptor}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)


class MemoryFile:
    """Bytes under a path that this process, and its user's other processes, can open until it is closed.

    Where there are no files in memory, it is a file that only its owner can read, removed by `close` or at exit.
    """

    def __init__(self, name: str, data: bytes) -> None:
        """Raises OSError."""
        if USES_LINUX_CALLS:
            self._descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
            self.path = f"/proc/{os.getpid()}/fd/{self._descriptor}"
        else:
            import tempfile  # Late: with shutil and what that compresses with, 5 ms of a start.

            self._descriptor, self.path = tempfile.mkstemp(suffix=f"-{name}")
            atexit.register(self._remove)
        try:
            left = memoryview(data)
            while left:
                left = left[os.write(self._descriptor, left) :]
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """Forget the bytes."""
        os.close(self._descriptor)
        if not USES_LINUX_CALLS:
            self._remove()
            atexit.unregister(self._remove)

    def _remove(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)  # noqa: PTH108 - as in storage/disk.py.
