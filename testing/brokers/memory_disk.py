"""Files in memory: the disk of a broker that leaves nothing behind, however the test's process ends.

A broker that is killed leaves its files as they are, and the next one finds them: a tree of nodes outlives the disk
objects that use it. `is_full` and `delay_s` are the faults of a real disk that tests ask for.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from sordini.storage.disk import NEWEST_BYTES_MAX, Buffer, File
from sordini.testing.brokers.loop_processes import LoopProcess

T = TypeVar("T")
TOTAL_BYTES: Final = 1 << 40
"""What `space` reports as the size of the volume."""


class Node:
    """A file's bytes, or a directory's names."""

    __slots__ = ("data", "modified_ms", "names")

    def __init__(self, *, is_directory: bool) -> None:
        self.data = bytearray()
        self.names: dict[str, Node] | None = {} if is_directory else None
        self.modified_ms = 0


class Tree:
    """What is on a disk; implements `BrokerFiles`. It outlives the processes that use it."""

    path = "/log"

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.root = Node(is_directory=True)
        self.now_ms = now_ms
        self.is_full = False
        """Whether everything that needs room fails with ENOSPC."""
        self.delay_s = 0.0
        """How long each synchronisation and each read beside the loop takes."""
        self.used_bytes = 0

    def opened_by(self, process: LoopProcess) -> MemoryDisk:
        """As `BrokerFiles.opened_by`."""
        return MemoryDisk(self, process)

    def page_cache(self, disk: MemoryDisk) -> InMemory:
        """As `BrokerFiles.page_cache`."""
        del disk
        return InMemory()


class MemoryFile:
    """An open file. It keeps working after its name is gone, as real ones do."""

    __slots__ = ("_disk", "_is_open", "_newest_from", "_node", "_path")

    def __init__(self, disk: MemoryDisk, path: str, node: Node) -> None:
        self._disk = disk
        self._path = path
        self._node = node
        self._is_open = True
        self._newest_from = len(node.data)

    @property
    def path(self) -> str:
        return self._path

    def fileno(self) -> int:
        raise OSError(errno.ENOTSUP, "a file in memory has no descriptor", self._path)

    def size(self) -> int:
        return len(self._data())

    def append(self, buffers: Sequence[Buffer]) -> int:
        data = self._data()
        size, end = sum(map(len, buffers)), len(data)
        self._disk.take_room(size, self._path)
        for buffer in buffers:
            data += buffer
        self._node.modified_ms = self._disk.tree.now_ms()
        if size > NEWEST_BYTES_MAX:
            self._newest_from = len(data)
        elif len(data) - self._newest_from > NEWEST_BYTES_MAX:
            self._newest_from = end
        return size

    def read_at(self, position: int, size: int) -> bytes:
        return bytes(self._data()[position : position + size])

    def newest(self, position: int, size: int) -> bytes | None:
        data = self._data()
        if not self._newest_from <= position <= position + size <= len(data):
            return None
        return bytes(data[position : position + size])

    def write_at(self, position: int, data: Buffer) -> int:
        held = self._data()
        growth = position + len(data) - len(held)
        if growth > 0:
            self._disk.take_room(growth, self._path)
            held += bytes(growth)
        held[position : position + len(data)] = data
        self._node.modified_ms = self._disk.tree.now_ms()
        self._newest_from = len(held)
        return len(data)

    def truncate(self, size: int) -> None:
        held = self._data()
        growth = size - len(held)
        if growth > 0:
            self._disk.take_room(growth, self._path)
            held += bytes(growth)
        else:
            del held[size:]
            self._disk.tree.used_bytes += growth
        self._newest_from = len(held)

    def reserve(self, size: int) -> None:
        """Memory is not reserved."""

    def give_back(self) -> None:
        """Nothing was reserved."""

    def sync(self) -> None:
        self._data()

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._disk.closed(self._path)

    def _data(self) -> bytearray:
        self._disk.process.check_alive()
        if not self._is_open:
            raise OSError(errno.EBADF, "the file is closed", self._path)
        return self._node.data


class MemoryDisk:
    """A tree as one process uses it; implements `Disk`."""

    def __init__(self, tree: Tree, process: LoopProcess) -> None:
        self.tree = tree
        self.process = process
        self._locks: set[str] = set()

    def take_room(self, size: int, path: str) -> None:
        """Raises OSError ENOSPC on a full disk."""
        if self.tree.is_full:
            raise _error(errno.ENOSPC, path)
        self.tree.used_bytes += size

    def closed(self, path: str) -> None:
        """A file was closed: its lock is released."""
        self._locks.discard(path)

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> File:
        del writable
        self.process.check_alive()
        node = self._find(path)
        if node is None:
            if not create:
                raise _error(errno.ENOENT, path)
            self.take_room(0, path)
            node = self._names_above(path)[_last(path)] = Node(is_directory=False)
            node.modified_ms = self.tree.now_ms()
        if node.names is not None:
            raise _error(errno.EISDIR, path)
        return MemoryFile(self, path, node)

    def exists(self, path: str) -> bool:
        return self._find(path) is not None

    def file_size(self, path: str) -> int:
        return len(self._existing(path).data)

    def list_directory(self, path: str) -> list[str]:
        return sorted(self._names_in(path))

    def directories(self, path: str) -> list[str]:
        return sorted(name for name, node in self._names_in(path).items() if node.names is not None)

    def is_directory(self, path: str) -> bool:
        node = self._find(path)
        return node is not None and node.names is not None

    def read(self, path: str) -> bytes:
        node = self._existing(path)
        if node.names is not None:
            raise _error(errno.EISDIR, path)
        return bytes(node.data)

    def make_directory(self, path: str) -> None:
        self.process.check_alive()
        node = self.tree.root
        for name in _names(path):
            if node.names is None:
                raise _error(errno.ENOTDIR, path)
            if name not in node.names:
                self.take_room(0, path)
                node.names[name] = Node(is_directory=True)
            node = node.names[name]
        if node.names is None:
            raise _error(errno.EEXIST, path)

    def rename(self, old: str, new: str) -> None:
        node = self._existing(old)
        target = self._names_above(new)
        replaced = target.get(_last(new))
        if replaced is not None and replaced.names:
            raise _error(errno.ENOTEMPTY, new)
        del self._names_above(old)[_last(old)]
        target[_last(new)] = node

    def remove(self, path: str) -> None:
        node = self._existing(path)
        if node.names is not None:
            raise _error(errno.EISDIR, path)
        self.tree.used_bytes -= len(node.data)
        del self._names_above(path)[_last(path)]

    def remove_directory(self, path: str) -> None:
        if self._names_in(path):
            raise _error(errno.ENOTEMPTY, path)
        del self._names_above(path)[_last(path)]

    def sync_directory(self, path: str) -> None:
        self._names_in(path)

    def modified_ms(self, path: str) -> int:
        return self._existing(path).modified_ms

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        self._existing(path).modified_ms = modified_ms

    def space(self, path: str) -> tuple[int, int]:
        self._existing(path)
        return TOTAL_BYTES, 0 if self.tree.is_full else TOTAL_BYTES - self.tree.used_bytes

    def lock(self, path: str) -> File:
        file = self.open(path, create=True)
        if path in self._locks:
            raise BlockingIOError(errno.EAGAIN, f"{path} is locked by another process")
        self._locks.add(path)
        return file

    def offload(self, function: Callable[[], T]) -> Awaitable[T]:
        """Runs at once: nothing here waits for a disk, unless the disk is slow."""
        self.process.check_alive()
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        if self.tree.delay_s:
            loop.call_later(self.tree.delay_s, _run, function, done)
        else:
            _run(function, done)
        return done

    def together(self, syncs: Sequence[Callable[[], None]]) -> None:
        for sync in syncs:
            sync()

    def close(self) -> None:
        """There are no threads."""

    async def released(self) -> None:
        """As `ReleasedDisk.released`: there is nothing to wait for."""

    def _find(self, path: str) -> Node | None:
        self.process.check_alive()
        node = self.tree.root
        for name in _names(path):
            found = None if node.names is None else node.names.get(name)
            if found is None:
                return None
            node = found
        return node

    def _existing(self, path: str) -> Node:
        node = self._find(path)
        if node is None:
            raise _error(errno.ENOENT, path)
        return node

    def _names_in(self, path: str) -> dict[str, Node]:
        names = self._existing(path).names
        if names is None:
            raise _error(errno.ENOTDIR, path)
        return names

    def _names_above(self, path: str) -> dict[str, Node]:
        return self._names_in(path.rstrip("/").rpartition("/")[0])


class InMemory:
    """The page-cache port of files that are in memory."""

    def is_warm(self, file: File, position: int, size: int) -> bool:
        """Whether a range can be sent without waiting."""
        del file, position, size
        return True

    async def warm(self, file: File, position: int, size: int) -> None:
        """Nothing is cold."""


def _run(function: Callable[[], T], done: asyncio.Future[T]) -> None:
    try:
        value = function()
    except Exception as error:  # noqa: BLE001 - the waiting caller gets the error.
        if not done.done():
            done.set_exception(error)
    else:
        if not done.done():
            done.set_result(value)


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name not in ("", ".")]


def _last(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def _error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)
