"""The disk port, and the only code that opens files.

`Disk` and `File` are shaped like system calls, so that a simulated disk can stand in for the real one with every
line above it unchanged. `append` and `write_at` promise the page cache; only `sync` promises the disk.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

Buffer = bytes | bytearray | memoryview
T = TypeVar("T")


class File(Protocol):
    """One open file. Not safe to use after `close`; every method raises OSError as the system call would."""

    @property
    def path(self) -> str: ...

    def fileno(self) -> int:
        """The descriptor, for `broker/network` alone (sendfile)."""

    def size(self) -> int: ...

    def append(self, buffers: Sequence[Buffer]) -> int:
        """Write after the end in one call; the bytes written, which may be fewer than given."""

    def read_at(self, position: int, size: int) -> bytes:
        """At most `size` bytes from `position`; fewer only at the end of the file."""

    def write_at(self, position: int, data: Buffer) -> int: ...

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None:
        """Force the file's bytes and size to the disk. Slow: call it through `Disk.offload`."""

    def close(self) -> None: ...


class Disk(Protocol):
    """A directory tree of files."""

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> File: ...

    def exists(self, path: str) -> bool: ...

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

    def lock(self, path: str) -> File:
        """Take an exclusive POSIX record lock, held until the file is closed; raises BlockingIOError when taken."""

    def offload(self, function: Callable[[], T]) -> Awaitable[T]:
        """Run a call that waits for the disk without holding the loop."""
