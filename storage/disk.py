"""The disk port, and the only code that opens files.

`Disk` and `File` are shaped like system calls, so that a simulated disk can stand in for the real one with every
line above it unchanged. `append` and `write_at` promise the page cache; only `sync` promises the disk, and a name
is only promised once its directory was synced too.

What is made here is its owner's alone, whatever the umask: files 0600, directories 0700. Files and directories that
exist keep the mode that an operator gave them.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

Buffer = bytes | bytearray | memoryview
T = TypeVar("T")

FILE_MODE, DIRECTORY_MODE = 0o600, 0o700
SYNCS_AT_ONCE = 16
"""Sixteen at once took a thirtieth of the time of one after the other on ext4; more gained nothing."""
NEWEST_BYTES_MAX = 8 * 1024
"""What was appended last is kept up to this size: as much as the network copies rather than sends by reference."""
_SMALL_BYTES = 64 * 1024
_KEEP_SIZE = 1  # FALLOC_FL_KEEP_SIZE, for which the os module has no word.


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

    def newest(self, position: int, size: int) -> bytes | None:
        """These bytes, when they are at hand without a system call; None says nothing about them."""

    def write_at(self, position: int, data: Buffer) -> int: ...

    def truncate(self, size: int) -> None:
        """Cut, or enlarge with zeros that take no room until they are written."""

    def reserve(self, size: int) -> None:
        """Take the disk's blocks for a file of `size` bytes without making it longer, where the file system can."""

    def give_back(self) -> None:
        """Free the blocks that were reserved past the end."""

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

    def directories(self, path: str) -> list[str]:
        """Names of the directories in a directory, sorted."""

    def is_directory(self, path: str) -> bool: ...

    def read(self, path: str) -> bytes:
        """A small file's bytes; raises FileNotFoundError."""

    def make_directory(self, path: str) -> None:
        """Create a directory and its missing parents; silent when it is there."""

    def rename(self, old: str, new: str) -> None: ...

    def remove(self, path: str) -> None: ...

    def remove_directory(self, path: str) -> None: ...

    def sync_directory(self, path: str) -> None: ...

    def modified_ms(self, path: str) -> int: ...

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Date a file back to the records that it took over: retention by age must not start anew."""

    def space(self, path: str) -> tuple[int, int]:
        """Bytes of the volume that holds a path: all there are, and those that are left for us."""

    def lock(self, path: str) -> File:
        """Take an exclusive POSIX record lock, held until the file is closed; raises BlockingIOError when taken."""

    def offload(self, function: Callable[[], T]) -> Awaitable[T]:
        """Run a call that waits for the disk without holding the loop."""

    def together(self, syncs: Sequence[Callable[[], None]]) -> None:
        """Make many calls that force something to the disk, several at once, so that they share the journal's commits.

        Returns when all have ended; raises the first one's OSError that failed. Slow: call it through `offload`.
        """


def open_again_without_blocking(descriptor: int) -> int:
    """A second descriptor of a pipe or terminal, whose writes answer BlockingIOError instead of waiting.

    It is an open file of its own: the first one, which other processes may share, stays as it is. Raises OSError where
    the system has no such names, for a pipe without a reader, and for what belongs to another user.
    """
    return os.open(f"/proc/self/fd/{descriptor}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)


class Newest:
    """What was appended last, to whichever file, if it was small: those who wait for it want it at once."""

    __slots__ = ("last",)

    def __init__(self) -> None:
        self.last: tuple[SystemFile | None, int, bytes] = (None, 0, b"")
        """The file, the position and the bytes; replaced as a whole, for threads change files, too."""

    def forget(self, file: SystemFile) -> None:
        """A file is changed otherwise than by appending, or is gone."""
        if self.last[0] is file:
            self.last = (None, 0, b"")


class SystemFile:
    """A descriptor of the operating system. The end is counted here: this process is the only writer."""

    __slots__ = ("_descriptor", "_end", "_newest", "_path")

    def __init__(self, path: str, descriptor: int, newest: Newest) -> None:
        self._path = path
        self._descriptor = descriptor
        self._newest = newest
        self._end = os.fstat(descriptor).st_size

    @property
    def path(self) -> str:
        return self._path

    def fileno(self) -> int:
        return self._descriptor

    def size(self) -> int:
        return self._end

    def append(self, buffers: Sequence[Buffer]) -> int:
        if len(buffers) > 1:
            written = os.pwritev(self._descriptor, buffers, self._end)
        else:
            data = buffers[0]
            written = os.pwrite(self._descriptor, data, self._end)
            if written <= NEWEST_BYTES_MAX and written == len(data):
                self._newest.last = (self, self._end, bytes(data))
        self._end += written
        return written

    def read_at(self, position: int, size: int) -> bytes:
        return os.pread(self._descriptor, size, position)

    def newest(self, position: int, size: int) -> bytes | None:
        file, begin, data = self._newest.last
        start = position - begin
        if file is not self or start < 0 or start + size > len(data):
            return None
        return data[start : start + size]

    def write_at(self, position: int, data: Buffer) -> int:
        self._newest.forget(self)
        written = os.pwrite(self._descriptor, data, position)
        self._end = max(self._end, position + written)
        return written

    def truncate(self, size: int) -> None:
        self._newest.forget(self)
        if size != self._end:
            os.ftruncate(self._descriptor, size)
            self._end = size

    def reserve(self, size: int) -> None:
        import ctypes  # Late: only those who preallocate need it.

        libc = ctypes.CDLL(None, use_errno=True)
        arguments = (ctypes.c_int(self._descriptor), ctypes.c_int(_KEEP_SIZE), ctypes.c_long(0), ctypes.c_long(size))
        if libc.fallocate(*arguments) != 0:
            errno = ctypes.get_errno()
            raise OSError(errno, os.strerror(errno), self._path)

    def give_back(self) -> None:
        os.ftruncate(self._descriptor, self._end)

    def sync(self) -> None:
        os.fsync(self._descriptor)

    def close(self) -> None:
        self._newest.forget(self)
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def make_private_file(path: str) -> None:
    """Make an empty file, for a library that would open it with another mode. Silent when it is there.

    A file that is there is not opened: to close it again would end the locks that this process holds on it (POSIX).
    """
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_CREAT | os.O_EXCL, FILE_MODE))


class SystemDisk:
    """The machine's file systems; `offload` waits in a small pool of threads that only make system calls."""

    def __init__(self, threads: int = 4) -> None:
        self._threads = threads
        self._pool: ThreadPoolExecutor | None = None
        self._newest = Newest()

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> File:
        flags = (os.O_RDWR if writable else os.O_RDONLY) | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return SystemFile(path, os.open(path, flags, FILE_MODE), self._newest)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)  # noqa: PTH110 - a Path object costs more than the call.

    def file_size(self, path: str) -> int:
        return os.stat(path).st_size  # noqa: PTH116 - as above.

    def list_directory(self, path: str) -> list[str]:
        return sorted(os.listdir(path))  # noqa: PTH208 - as above.

    def directories(self, path: str) -> list[str]:
        with os.scandir(path) as entries:  # It knows without asking for each.
            return sorted(entry.name for entry in entries if entry.is_dir())

    def read(self, path: str) -> bytes:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            data = os.read(descriptor, _SMALL_BYTES)
            if len(data) < _SMALL_BYTES:
                return data
            pieces = [data]
            while piece := os.read(descriptor, _SMALL_BYTES):
                pieces.append(piece)
            return b"".join(pieces)
        finally:
            os.close(descriptor)

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(path)  # noqa: PTH112 - as above.

    def make_directory(self, path: str) -> None:
        try:
            self._make_one_directory(path)
        except FileNotFoundError:
            parent = os.path.dirname(path.rstrip("/"))  # noqa: PTH120 - as above.
            if not parent:
                raise
            self.make_directory(parent)
            # Once, as there are parents that say so of every child: /proc, or a working directory that is removed.
            self._make_one_directory(path)

    def _make_one_directory(self, path: str) -> None:
        try:
            os.mkdir(path, DIRECTORY_MODE)  # noqa: PTH102 - as above.
        except FileExistsError:
            if not self.is_directory(path):
                raise

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

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def space(self, path: str) -> tuple[int, int]:
        found = os.statvfs(path)
        return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize

    def lock(self, path: str) -> File:
        # A link that somebody left in the file's place is not followed (ELOOP): what is locked is written to.
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_CREAT | os.O_NOFOLLOW
        file = SystemFile(path, os.open(path, flags, FILE_MODE), self._newest)
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

    def together(self, syncs: Sequence[Callable[[], None]]) -> None:
        if len(syncs) == 1:
            syncs[0]()
        elif syncs:
            with ThreadPoolExecutor(min(SYNCS_AT_ONCE, len(syncs)), thread_name_prefix="sync") as pool:
                running = [pool.submit(sync) for sync in syncs]
            for sync in running:
                sync.result()

    def close(self) -> None:
        """Wait for what was handed to the threads and end them."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
