"""The disk port, and the only code that opens files.

`Disk` and `File` are shaped like system calls, so that a simulated disk can stand in for the real one with every
line above it unchanged. `append` and `write_at` promise the page cache; only `sync` promises the disk, and a name
is only promised once its directory was synced too.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

Buffer = bytes | bytearray | memoryview
T = TypeVar("T")


class File(Protocol):
    """One open file. Not safe to use after `close`; every method raises OSError as the system call would."""

    @property
    def path(self) -> str:
        """The name it was opened by; a later rename does not change it."""

    def fileno(self) -> int:
        """The descriptor, for `broker/network` alone (sendfile)."""

    def size(self) -> int: ...

    def append(self, buffers: Sequence[Buffer]) -> int:
        """Write after the end in one call; the bytes written, which may be fewer than given."""

    def read_at(self, position: int, size: int) -> bytes:
        """At most `size` bytes from `position`; fewer only at the end of the file."""

    def write_at(self, position: int, data: Buffer) -> int: ...

    def truncate(self, size: int) -> None:
        """Cut, or enlarge with zeros that take no room until they are written."""

    def sync(self) -> None:
        """Force the file's bytes and size to the disk. Slow: call it through `Disk.offload`."""

    def close(self) -> None: ...


class Disk(Protocol):
    """A directory tree of files."""

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> File: ...

    def exists(self, path: str) -> bool: ...

    def file_size(self, path: str) -> int:
        """The size in bytes without opening the file; raises FileNotFoundError."""

    def list_directory(self, path: str) -> list[str]:
        """Names in a directory, sorted."""

    def is_directory(self, path: str) -> bool: ...

    def make_directory(self, path: str) -> None:
        """Create a directory and its missing parents; silent when it is there."""

    def rename(self, old: str, new: str) -> None: ...

    def remove(self, path: str) -> None: ...

    def remove_directory(self, path: str) -> None: ...

    def sync_directory(self, path: str) -> None: ...

    def modified_ms(self, path: str) -> int: ...

    def space(self, path: str) -> tuple[int, int]:
        """Bytes of the volume that holds a path: all there are, and those that are left for us."""

    def lock(self, path: str) -> File:
        """Take an exclusive POSIX record lock, held until the file is closed; raises BlockingIOError when taken."""

    def offload(self, function: Callable[[], T]) -> Awaitable[T]:
        """Run a call that waits for the disk without holding the loop."""


class SystemFile:
    """A descriptor of the operating system. The end is counted here: this process is the only writer."""

    __slots__ = ("_descriptor", "_end", "_path")

    def __init__(self, path: str, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor
        self._end = os.fstat(descriptor).st_size

    @property
    def path(self) -> str:
        return self._path

    def fileno(self) -> int:
        return self._descriptor

    def size(self) -> int:
        return self._end

    def append(self, buffers: Sequence[Buffer]) -> int:
        if len(buffers) == 1:
            written = os.pwrite(self._descriptor, buffers[0], self._end)
        else:
            written = os.pwritev(self._descriptor, buffers, self._end)
        self._end += written
        return written

    def read_at(self, position: int, size: int) -> bytes:
        return os.pread(self._descriptor, size, position)

    def write_at(self, position: int, data: Buffer) -> int:
        written = os.pwrite(self._descriptor, data, position)
        self._end = max(self._end, position + written)
        return written

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)
        self._end = size

    def sync(self) -> None:
        os.fsync(self._descriptor)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class SystemDisk:
    """The machine's file systems; `offload` waits in a small pool of threads that only make system calls."""

    def __init__(self, threads: int = 4) -> None:
        self._threads = threads
        self._pool: ThreadPoolExecutor | None = None

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> File:
        flags = (os.O_RDWR if writable else os.O_RDONLY) | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return SystemFile(path, os.open(path, flags, 0o644))

    def exists(self, path: str) -> bool:
        return os.path.exists(path)  # noqa: PTH110 - a Path object costs more than the call.

    def file_size(self, path: str) -> int:
        return os.stat(path).st_size  # noqa: PTH116 - as above.

    def list_directory(self, path: str) -> list[str]:
        return sorted(os.listdir(path))  # noqa: PTH208 - as above.

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(path)  # noqa: PTH112 - as above.

    def make_directory(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)  # noqa: PTH103 - as above.

    def rename(self, old: str, new: str) -> None:
        os.rename(old, new)  # noqa: PTH104 - as above.

    def remove(self, path: str) -> None:
        os.unlink(path)  # noqa: PTH108 - as above.

    def remove_directory(self, path: str) -> None:
        os.rmdir(path)  # noqa: PTH106 - as above.

    def sync_directory(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000  # noqa: PTH116 - as above.

    def space(self, path: str) -> tuple[int, int]:
        found = os.statvfs(path)
        return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize

    def lock(self, path: str) -> File:
        # A link that somebody left in the file's place is not followed (ELOOP): what is locked is written to.
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_CREAT | os.O_NOFOLLOW
        file = SystemFile(path, os.open(path, flags, 0o644))
        try:
            # Java locks files with fcntl; `flock` would not see it, nor it us.
            fcntl.lockf(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.close()
            raise BlockingIOError(error.errno, f"{path} is locked by another process") from error
        return file

    def offload(self, function: Callable[[], T]) -> Awaitable[T]:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="disk")
        return asyncio.get_running_loop().run_in_executor(self._pool, function)

    def close(self) -> None:
        """Wait for what was handed to the threads and end them."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
