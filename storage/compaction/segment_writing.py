"""The files of a new segment, written under names that end in `.cleaned` and mean nothing until they are swapped in.

The indexes hold what `Segment.rebuild` would put into them, but are kept in memory and written once: one small write
for every four kilobytes of log would cost more than all the judging.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterable

from sordini.protocol.records.batch import NO_TIMESTAMP
from sordini.storage import names
from sordini.storage.compaction.task import CleaningTask
from sordini.storage.compaction.throttler import Pace
from sordini.storage.disk import Buffer, Disk, File
from sordini.storage.producer_state import AbortedTransaction

_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")
_ABORT_ENTRY = struct.Struct(">hqqqq")
_ABORT_VERSION = 0


class Workshop:
    """The `.cleaned` files that one cleaning makes, so that none is left when it fails."""

    def __init__(self, disk: Disk, task: CleaningTask, pace: Pace) -> None:
        self.disk = disk
        self.directory = task.directory
        self.buffer_bytes = task.io_buffer_bytes
        self.interval_bytes = task.index_interval_bytes
        self.pace = pace
        self._made: list[str] = []

    def clear_old(self) -> None:
        """Remove what a cleaning that was killed has left; raises OSError."""
        for name in self.disk.list_directory(self.directory):
            if name.endswith(names.CLEANED):
                self.disk.remove(f"{self.directory}/{name}")

    def create(self, base: int, suffix: str) -> File:
        path = f"{self.directory}/{names.file_name(base, suffix)}{names.CLEANED}"
        self._made.append(path)
        return self.disk.open(path, create=True)

    def discard(self, base: int | None = None) -> None:
        """Remove what was made, of one segment or of all; raises OSError."""
        prefix = f"{self.directory}/" if base is None else f"{self.directory}/{names.file_name(base, '.')}"
        for path in self._made:
            if path.startswith(prefix) and self.disk.exists(path):
                self.disk.remove(path)
        self._made = [path for path in self._made if not path.startswith(prefix)]


class NewSegment:
    """One segment in the making."""

    def __init__(self, workshop: Workshop, base: int) -> None:
        self.base = base
        self.size = 0
        self._workshop = workshop
        self._file = workshop.create(base, names.LOG)
        self._parts: list[Buffer] = []
        self._waiting_bytes = 0
        self._offsets = bytearray()
        self._times = bytearray()
        self._unindexed_bytes = 0
        self._max_timestamp = self._last_timestamp = NO_TIMESTAMP
        self._max_timestamp_offset = base

    def add(self, data: Buffer, last_offset: int, timestamp: int) -> None:
        """Put a batch at the end; `data` must stay as it is. Raises OSError."""
        if timestamp > self._max_timestamp:
            self._max_timestamp = timestamp
            self._max_timestamp_offset = last_offset
        if self._unindexed_bytes > self._workshop.interval_bytes:
            self._offsets += _OFFSET_ENTRY.pack(last_offset - self.base, self.size)
            self._add_time()
            self._unindexed_bytes = 0
        size = len(data)
        self._unindexed_bytes += size
        self.size += size
        self._parts.append(data)
        self._waiting_bytes += size
        if self._waiting_bytes >= self._workshop.buffer_bytes:
            self._flush()

    def finish(self, aborted: Iterable[AbortedTransaction], modified_ms: int) -> None:
        """Write what is still to be written, date the log file and sync all; raises OSError."""
        self._flush()
        self._add_time()
        self._write(names.OFFSET_INDEX, self._offsets)
        self._write(names.TIME_INDEX, self._times)
        entries = b"".join(_ABORT_ENTRY.pack(_ABORT_VERSION, *transaction) for transaction in aborted)
        if entries:
            self._write(names.TRANSACTION_INDEX, entries)
        self._workshop.disk.set_modified_ms(self._file.path, modified_ms)
        self._file.sync()

    def close(self) -> None:
        self._file.close()

    def _add_time(self) -> None:
        if self._max_timestamp > self._last_timestamp:
            self._times += _TIME_ENTRY.pack(self._max_timestamp, self._max_timestamp_offset - self.base)
            self._last_timestamp = self._max_timestamp

    def _flush(self) -> None:
        if self._parts:
            _write_whole(self._file, b"".join(self._parts))
            self._workshop.pace.note(self._waiting_bytes)
            self._parts.clear()
            self._waiting_bytes = 0

    def _write(self, suffix: str, data: Buffer) -> None:
        file = self._workshop.create(self.base, suffix)
        try:
            _write_whole(file, data)
            file.sync()
        finally:
            file.close()


def _write_whole(file: File, data: Buffer) -> None:
    """Append all of it; raises OSError, also when the disk takes a part only."""
    if data and file.append([data]) != len(data):
        raise OSError(errno.ENOSPC, "a short write", file.path)
