"""Files on the machine's disk for one of several brokers in a process, which ends as a killed process does.

    Directory            a broker's directory, and its faults; outlives the broker's processes
      └── ProcessDisk    the disk as one process of the broker uses it
            └── OpenFile

When the process has ended, nothing of it writes any more: a call in a thread fails at its next use of a file, its
threads are waited for beside the loop, and then its files are closed, which releases their locks. `released` returns
only afterwards, so that the next process finds the files as they stay.
"""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar, cast

from sordini.broker.network.page_cache import SystemPageCache
from sordini.broker.network.ports import PageCache
from sordini.replication.ports import Clock
from sordini.storage.disk import Buffer, File, SystemDisk
from sordini.testing.brokers.loop_processes import Died, LoopProcess

T = TypeVar("T")


class Directory:
    """A broker's files; implements `BrokerFiles`."""

    def __init__(self, path: str, clock: Clock) -> None:
        self.path = path
        self.is_full = False
        self.delay_s = 0.0
        self._clock = clock

    def opened_by(self, process: LoopProcess) -> ProcessDisk:
        """As `BrokerFiles.opened_by`."""
        return ProcessDisk(self, process)

    def page_cache(self, disk: ProcessDisk) -> PageCache:
        """As `BrokerFiles.page_cache`."""
        return SystemPageCache(self._clock, disk.offload)


class OpenFile:
    """An open file of a process; see `File` for what the methods promise."""

    __slots__ = ("_disk", "_file")

    def __init__(self, disk: ProcessDisk, file: File) -> None:
        self._disk = disk
        self._file = file

    @property
    def path(self) -> str:
        return self._file.path

    def fileno(self) -> int:
        return self._file.fileno()

    def size(self) -> int:
        return self._file.size()

    def append(self, buffers: Sequence[Buffer]) -> int:
        self._disk.check(self.path, needs_room=True)
        return self._file.append(buffers)

    def read_at(self, position: int, size: int) -> bytes:
        self._disk.check(self.path)
        return self._file.read_at(position, size)

    def newest(self, position: int, size: int) -> bytes | None:
        return self._file.newest(position, size)

    def write_at(self, position: int, data: Buffer) -> int:
        self._disk.check(self.path, needs_room=position + len(data) > self.size())
        return self._file.write_at(position, data)

    def truncate(self, size: int) -> None:
        self._disk.check(self.path, needs_room=size > self.size())
        self._file.truncate(size)

    def reserve(self, size: int) -> None:
        self._disk.check(self.path, needs_room=True)
        self._file.reserve(size)

    def give_back(self) -> None:
        self._disk.check(self.path)
        self._file.give_back()

    def sync(self) -> None:
        self._disk.check(self.path)
        self._file.sync()

    def close(self) -> None:
        self._disk.closed(self)
        self._file.close()


class ProcessDisk(SystemDisk):
    """The machine's disk as one process uses it."""

    def __init__(self, directory: Directory, process: LoopProcess) -> None:
        super().__init__()
        self._directory = directory
        self._process = process
        self._open: set[OpenFile] = set()
        self._ended = threading.Event()
        self._releasing = threading.Thread(target=self._release, name="sordini-ended", daemon=True)
        process.on_death(self._begin_release)

    def check(self, path: str, *, needs_room: bool = False) -> None:
        """Raises ProcessKilled, and OSError ENOSPC for what needs room on a full disk."""
        self._process.check_alive()
        if needs_room and self._directory.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    def closed(self, file: OpenFile) -> None:
        """A file was closed."""
        self._open.discard(file)

    async def released(self) -> None:
        """Return when nothing of the process, which has ended, uses a file any more."""
        await asyncio.to_thread(self._releasing.join)

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> File:
        self.check(path, needs_room=create and self._directory.is_full and not self.exists(path))
        return self._noted(super().open(path, create=create, writable=writable))

    def lock(self, path: str) -> File:
        self.check(path)
        return self._noted(super().lock(path))

    def make_directory(self, path: str) -> None:
        self.check(path, needs_room=self._directory.is_full and not self.exists(path))
        super().make_directory(path)

    def rename(self, old: str, new: str) -> None:
        self.check(old)
        super().rename(old, new)

    def remove(self, path: str) -> None:
        self.check(path)
        super().remove(path)

    def remove_directory(self, path: str) -> None:
        self.check(path)
        super().remove_directory(path)

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        self.check(path)
        super().set_modified_ms(path, modified_ms)

    def space(self, path: str) -> tuple[int, int]:
        total, available = super().space(path)
        return total, 0 if self._directory.is_full else available

    def offload(self, function: Callable[[], T]) -> Awaitable[T]:
        self._process.check_alive()

        def called() -> T:
            try:
                if self._directory.delay_s:
                    self._ended.wait(self._directory.delay_s)
                self._process.check_alive()
                return function()
            except Died:
                return cast("T", None)  # Nothing of the process is left that would read it.

        return super().offload(called)

    def _noted(self, file: File) -> File:
        noted = OpenFile(self, file)
        self._open.add(noted)
        return noted

    def _begin_release(self) -> None:
        self._ended.set()
        self._releasing.start()

    def _release(self) -> None:
        self.close()  # Its threads may be inside of a system call on a file.
        for file in list(self._open):
            file.close()
