"""The disk port, and the only code that opens files.

`Disk` and `File` are shaped like system calls, so that a simulated disk can replace the real one below unchanged
code. `append` and `write_at` promise the page cache; only `sync` promises the disk, and a name is durable only after
its directory was synced, too.

New files and directories are accessible to their owner only, whatever the umask: 0600 and 0700. Existing ones keep
their mode.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from sordini.system import files

Buffer = files.Buffer
T = TypeVar("T")

FILE_MODE, DIRECTORY_MODE = 0o600, 0o700
SYNCS_AT_ONCE = 16
"""On ext4 sixteen concurrent syncs took a thirtieth of the sequential time; more gained nothing."""
NEWEST_BYTES_MAX = 8 * 1024
"""The last appends are cached up to this size: the largest slice that the network copies instead of using sendfile."""
NEWEST_FILES_MAX = 64
"""How many files cache their last appends."""
_SMALL_BYTES = 64 * 1024


class File(Protocol):
    """One open file. Not safe to use after `close`; every method raises OSError as the system call would."""

    @property
    def path(self) -> str:
        """The path it was opened by; a later rename does not change it."""

    def fileno(self) -> int:
        """The descriptor, for `broker/network` alone (sendfile)."""

    def size(self) -> int: ...

    def append(self, buffers: Sequence[Buffer]) -> int:
        """Write after the end in one call; the bytes written, which may be fewer than given."""

    def read_at(self, position: int, size: int) -> bytes:
        """At most `size` bytes from `position`; fewer only at the end of the file."""

    def newest(self, position: int, size: int) -> bytes | None:
        """These bytes, when they are cached; None when a system call is needed."""

    def write_at(self, position: int, data: Buffer) -> int: ...

    def truncate(self, size: int) -> None:
        """Truncate, or enlarge by a sparse tail of zeros."""

    def reserve(self, size: int) -> None:
        """Allocate the blocks of a file of `size` bytes without changing its size, where the file system can."""

    def give_back(self) -> None:
        """Free the blocks reserved beyond the end."""

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
        """Create a directory and its missing parents; no error when it exists."""

    def rename(self, old: str, new: str) -> None: ...

    def remove(self, path: str) -> None: ...

    def remove_directory(self, path: str) -> None: ...

    def sync_directory(self, path: str) -> None: ...

    def modified_ms(self, path: str) -> int: ...

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Set a compacted file's time to that of the files it replaces, so that its age for retention stays."""

    def space(self, path: str) -> tuple[int, int]:
        """Bytes of the volume that holds a path: total, and available to this process."""

    def lock(self, path: str) -> File:
        """Take an exclusive POSIX record lock, held until the file is closed; raises BlockingIOError when taken."""

    def offload(self, function: Callable[[], T]) -> Awaitable[T]:
        """Run a blocking call in a thread, so that it does not block the loop."""

    def together(self, syncs: Sequence[Callable[[], None]]) -> None:
        """Run many sync calls concurrently, so that they share the file system's journal commits.

        Returns when all have ended; raises the OSError of the first that failed. Slow: call it through `offload`.
        """


class NewestAppends:
    """The files whose last small appends are cached, because consumers and followers at the log end read them next.

    A file keeps its own bytes, so that a thread which changes another file cannot disturb them; this is the bound on
    how many files do.
    """

    __slots__ = ("_files",)

    def __init__(self) -> None:
        self._files: deque[SystemFile] = deque()

    def add(self, file: SystemFile) -> None:
        """A file has begun to cache; the one that began the longest ago stops."""
        self._files.append(file)
        if len(self._files) > NEWEST_FILES_MAX:
            self._files.popleft().forget_newest()


class SystemFile:
    """A file descriptor. Its end is tracked here: this process is the only writer."""

    __slots__ = ("_descriptor", "_end", "_newest", "_newest_bytes", "_path")

    def __init__(self, path: str, descriptor: int, newest: NewestAppends) -> None:
        self._path = path
        self._descriptor = descriptor
        self._newest = newest
        self._newest_bytes = b""
        """The last bytes before the end, of small appends; empty when none are cached."""
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
            written = files.write_many(self._descriptor, buffers, self._end)
        else:
            data = buffers[0]
            written = os.pwrite(self._descriptor, data, self._end)
            # Without a system call for what was appended last, and an object for each known partition of a session, one
            # request at a time to three replicas was 8 % faster.
            if written <= NEWEST_BYTES_MAX and written == len(data):
                self._end += written
                before = self._newest_bytes
                if not before:
                    self._newest.add(self)
                self._newest_bytes = bytes(data) if len(before) + written > NEWEST_BYTES_MAX else before + data
                return written
        self.forget_newest()
        self._end += written
        return written

    def read_at(self, position: int, size: int) -> bytes:
        return os.pread(self._descriptor, size, position)

    def newest(self, position: int, size: int) -> bytes | None:
        data = self._newest_bytes
        start = position - self._end + len(data)
        if start < 0 or start + size > len(data):
            return None
        return data[start : start + size]

    def forget_newest(self) -> None:
        """Cache nothing: the file was changed other than by a small append, or was closed, or others cache."""
        self._newest_bytes = b""

    def write_at(self, position: int, data: Buffer) -> int:
        self.forget_newest()
        written = os.pwrite(self._descriptor, data, position)
        self._end = max(self._end, position + written)
        return written

    def truncate(self, size: int) -> None:
        self.forget_newest()
        if size != self._end:
            os.ftruncate(self._descriptor, size)
            self._end = size

    def reserve(self, size: int) -> None:
        files.reserve(self._descriptor, size)

    def give_back(self) -> None:
        os.ftruncate(self._descriptor, self._end)

    def sync(self) -> None:
        files.sync(self._descriptor)

    def close(self) -> None:
        self.forget_newest()
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def make_private_file(path: str) -> None:
    """Create an empty file, for a library that would open it with another mode. No error when it exists.

    An existing file is not opened: closing it again would release this process's locks on it (POSIX).
    """
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_CREAT | os.O_EXCL, FILE_MODE))


def publish_private_file(fresh: str, path: str) -> None:
    """Give a file that a library has written and closed its name: it is there whole and synced, or not at all.

    Raises FileExistsError when the name is taken. `fresh` is gone in any case. The name is durable with the next sync
    of the directory.
    """
    try:
        descriptor = os.open(fresh, os.O_RDWR | os.O_CLOEXEC)
        try:
            files.sync(descriptor)
        finally:
            os.close(descriptor)
        os.link(fresh, path)  # A rename would replace the file of another process.
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(fresh)  # noqa: PTH108 - as above.


class SystemDisk:
    """The machine's file systems; `offload` waits in a small pool of threads that only make system calls."""

    def __init__(self, threads: int = 4) -> None:
        self._threads = threads
        self._pool: ThreadPoolExecutor | None = None
        self._newest = NewestAppends()

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
        with os.scandir(path) as entries:  # No stat call per entry.
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
            # Once only: below /proc, or in a removed working directory, this error is permanent.
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
            files.sync(descriptor)
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
        # A symbolic link is not followed (ELOOP): the locked file is written to.
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_CREAT | os.O_NOFOLLOW
        file = SystemFile(path, os.open(path, flags, FILE_MODE), self._newest)
        try:
            # Java locks files with fcntl; `flock` locks and fcntl locks do not see each other.
            fcntl.lockf(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.close()
            raise BlockingIOError(error.errno, f"{path} is locked by another process") from error
        return file

    def offload(self, function: Callable[[], T]) -> Awaitable[T]:
        # For system calls only, which release the interpreter: a thread that computes beside the loop cut it from
        # 60,000 to 200 requests/s (docs/evidence/performance-notes.md).
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
        """Wait for the running calls and end the threads."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
