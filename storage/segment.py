"""One segment of a log: the records from its base offset up to the next segment's, in a file with its indexes.

The last segment of a log is the active one: only it is appended to, and its index files are preallocated. A closed
segment's indexes are read at their first use, so that a log with many segments opens by listing names.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Iterator

from sordini.protocol.records.batch import NO_TIMESTAMP, BatchHeader, crc_is_right
from sordini.protocol.records.legacy import ENTRY_BYTES_MIN
from sordini.storage import batch_scan, names, offset_index, time_index
from sordini.storage.disk import Disk, File
from sordini.storage.index_entries import DamagedIndex
from sordini.storage.offset_index import OffsetIndex
from sordini.storage.open_files import Handle, OpenFiles
from sordini.storage.segment_roll import age_from
from sordini.storage.time_index import TimeIndex
from sordini.storage.txn_index import TransactionIndex

SHORT_INDEX_BYTES = 8 * 1024 * 1024
"""More than one append: an index with this much of its log between two entries was truncated or damaged."""


class Segment:
    """The files of one segment. `size` is where its records end: bytes beyond it are of a failed write."""

    __slots__ = (
        "_loaded",
        "_rebuilt",
        "base",
        "created_ms",
        "first_timestamp",
        "handle",
        "index",
        "is_full",
        "is_reserved",
        "max_timestamp",
        "max_timestamp_offset",
        "size",
        "times",
        "transactions",
        "unindexed_bytes",
    )

    def __init__(self, files: OpenFiles, directory: str, base: int, size: int, *, aborts: bool = False) -> None:
        path = f"{directory}/{base:020d}"
        self.base = base
        self.size = size
        self.handle = Handle(files, path + names.LOG)
        self.index = OffsetIndex(Handle(files, path + names.OFFSET_INDEX), base)
        self.times = TimeIndex(Handle(files, path + names.TIME_INDEX), base)
        self.transactions = TransactionIndex(Handle(files, path + names.TRANSACTION_INDEX), exists=aborts)
        self.unindexed_bytes = 0
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = base
        self.first_timestamp: int | None = None
        self.created_ms = 0
        self.is_full = False
        self.is_reserved = False
        self._loaded = size == 0
        self._rebuilt = False

    @classmethod
    def create(cls, files: OpenFiles, directory: str, base: int, now_ms: int) -> Segment:
        """Create the files of a new, empty segment, over any leftover ones; raises OSError, leaving none."""
        segment = cls(files, directory, base, 0)
        segment.created_ms = now_ms
        segment.transactions.is_checked = True
        made: list[Handle] = []
        try:
            for handle in segment.handles():
                made.append(handle)
                handle.reopen(create=True).truncate(0)
        except OSError:
            for handle in made:
                handle.close()
                if files.disk.exists(handle.path):
                    _remove(files.disk, handle.path)
            raise
        return segment

    def handles(self) -> list[Handle]:
        """The files that every segment has; the transaction index is created with the first aborted transaction."""
        return [self.handle, self.index.handle, self.times.handle]

    def file(self) -> File:
        """The log file, opened if it was closed."""
        return self.handle.file or self.handle.reopen()

    def load(self, interval_bytes: int) -> None:
        """Read the ends of the indexes, once; indexes that are not this log's are rebuilt from it. Raises OSError."""
        if self._loaded:
            return
        self._loaded = True
        try:
            self.index.load(self.size)
            self.times.load()
            self._check_ends(interval_bytes)
        except (DamagedIndex, FileNotFoundError):
            self.rebuild(interval_bytes)
        else:
            self.max_timestamp, self.max_timestamp_offset = self.times.last_timestamp, self.times.last_offset
            self.unindexed_bytes = self.size - self.index.last_position

    def may_be_padded(self, index_bytes: int) -> bool:
        """Whether an index that is not loaded has the size of one that was never trimmed. Raises OSError.

        Costs two stats. A trimmed index has at most one entry per batch, so only a full one can be mistaken.
        """
        if self._loaded:
            return False
        for handle, entry in ((self.index.handle, offset_index.ENTRY_SIZE), (self.times.handle, time_index.ENTRY_SIZE)):
            try:
                size = self.handle.files.disk.file_size(handle.path)
            except FileNotFoundError:
                continue
            if size == index_bytes - index_bytes % entry or size // entry > self.size // ENTRY_BYTES_MIN + 1:
                return True
        return False

    def _check_ends(self, interval_bytes: int) -> None:
        """Compare the indexes' last entries with the batches from the last one on; raises DamagedIndex."""
        start = self.index.last_position
        uncovered = self.size - start
        # Not the same as "more than the interval": Apache Kafka makes one entry for all batches of one append.
        is_short = uncovered > interval_bytes + SHORT_INDEX_BYTES or 4 * uncovered > self.size
        first_base, last_offset, largest = -1, self.base - 1, NO_TIMESTAMP
        for position, header in batch_scan.headers(self.handle, start, self.size):
            if is_short and position - start > interval_bytes:
                raise DamagedIndex(f"{self.index.handle.path} ends long before the log")
            first_base = header.base_offset if first_base < 0 else first_base
            last_offset, largest = header.last_offset, max(largest, header.max_timestamp)
            is_dated = header.base_offset <= self.times.last_offset <= last_offset
            if is_dated and self.times.count and header.max_timestamp != self.times.last_timestamp:
                raise DamagedIndex(f"{self.times.handle.path} ends with a time that no batch has")
        if start and not self.base <= first_base <= self.index.last_offset <= last_offset:
            raise DamagedIndex(f"{self.index.handle.path} ends with an entry that leads to no batch")
        if largest > self.times.last_timestamp or (self.times.count and self.times.last_offset > last_offset):
            raise DamagedIndex(f"{self.times.handle.path} does not end with the log's largest time")

    def start_rebuild(self) -> None:
        """Empty the indexes; `index_batch` fills them again."""
        self._loaded = True
        self.index.clear()
        self.times.clear()
        self.unindexed_bytes = 0
        self.max_timestamp, self.max_timestamp_offset = NO_TIMESTAMP, self.base

    def rebuild(self, interval_bytes: int) -> None:
        """Rebuild the indexes from the log's headers: trimmed and synced."""
        self._rebuilt = True
        self.start_rebuild()
        for position, header in batch_scan.headers(self.handle, 0, self.size):
            last_offset, timestamp = header.last_offset, header.max_timestamp
            self.index_batch(position, header.size, last_offset, timestamp, interval_bytes)
        self.add_last_time()
        self.trim_indexes()
        # No flush syncs the indexes of a segment below the recovery point.
        self.index.handle.reopen().sync()
        self.times.handle.reopen().sync()

    def index_batch(
        self, position: int, size: int, last_offset: int, timestamp: int, interval_bytes: int, index_bytes: int = 0
    ) -> None:
        """Note one batch that was written: its time, and an index entry when enough bytes followed the last entry.

        `index_bytes` is the size to preallocate, 0 for none. Raises OSError; the entry is then not added.
        """
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
            self.max_timestamp_offset = last_offset
        if self.unindexed_bytes > interval_bytes:
            self.index.append(
                last_offset, position, entries_max=max(index_bytes // offset_index.ENTRY_SIZE, self.index.count + 1)
            )
            self.times.append(
                self.max_timestamp,
                self.max_timestamp_offset,
                entries_max=max(index_bytes // time_index.ENTRY_SIZE, self.times.count + 1),
            )
            self.unindexed_bytes = 0
            # One entry of the time index is kept for the end of the segment.
            self.is_full = index_bytes > 0 and (
                self.index.count >= index_bytes // offset_index.ENTRY_SIZE
                or self.times.count >= index_bytes // time_index.ENTRY_SIZE - 1
            )
        self.unindexed_bytes += size

    def add_last_time(self) -> None:
        """Add the last entry of the time index, which is the largest timestamp; raises OSError."""
        self.times.append(self.max_timestamp, self.max_timestamp_offset, entries_max=self.times.count + 1)

    @property
    def needs_trim(self) -> bool:
        """Whether an index lacks entries, or zeros follow them."""
        return self.index.needs_trim or self.times.needs_trim

    def trim_indexes(self) -> None:
        """Trim the preallocated zeros, before the segment is closed; raises OSError."""
        self.index.trim()
        self.times.trim()

    def reserve(self, size: int) -> None:
        """Reserve disk space for a log of `size` bytes, if possible; appends work without it.

        Unlike Apache Kafka, which makes the file longer: a crash would leave zeros behind the records.
        """
        with contextlib.suppress(OSError):
            self.file().reserve(size)
            self.is_reserved = True

    def give_back(self) -> None:
        """Free the reserved space that was not used, before the segment is closed; raises OSError."""
        if self.is_reserved:
            self.file().give_back()
            self.is_reserved = False

    def give_back_unknown(self) -> None:
        """Free the space that an earlier process may have reserved; raises OSError."""
        self.file().give_back()

    def find(self, offset: int, interval_bytes: int) -> tuple[int, int, int] | None:
        """(position, base offset, size) of the batch that holds `offset`, or of the first one after it.

        A wrong index is rebuilt, once. The batch at the position that it gave reveals it; a result that holds `offset`
        needs no further check, so the usual lookup costs nothing more. Raises OSError.
        """
        self.load(interval_bytes)
        # The lookup first: opening the index may close this file.
        position = self.index.lookup(offset)
        found = batch_scan.find_batch(self.file(), position, self.size, offset)
        if found is None or found[1] > offset:
            is_wrong = position > 0 and not self._leads_to(position, offset)
        else:
            is_wrong = found[0] - position > interval_bytes + SHORT_INDEX_BYTES or found[1] < self.base
        if is_wrong and not self._rebuilt:
            self.rebuild(interval_bytes)
            return self.find(offset, interval_bytes)
        return found

    def offset_bound(self, position: int, interval_bytes: int) -> int | None:
        """An offset that no record before `position` reaches, as near as the index says. Raises OSError.

        None where the index has no entry that far. An entry is trusted when a batch of this segment is there.
        """
        self.load(interval_bytes)
        found = self.index.first_from(position)
        first = None if found is None else next(batch_scan.headers(self.handle, found, self.size), None)
        if first is None or not self.base <= first[1].base_offset:
            return None
        return first[1].base_offset

    def _leads_to(self, position: int, offset: int) -> bool:
        """Whether the batch at `position` begins at or before `offset`: then no batch before it holds `offset`.

        Its CRC is checked: bytes in the middle of a batch may look like a message of an old format.
        """
        first = next(batch_scan.headers(self.handle, position, self.size), None)
        if first is None or not self.base <= first[1].base_offset <= offset:
            return False
        return crc_is_right(self.file().read_at(position, first[1].size), 0, first[1])

    def headers_from_time(self, timestamp: int, interval_bytes: int) -> Iterator[tuple[int, BatchHeader]]:
        """(position, header) of batches in order, from one before which no record has `timestamp` (ms) or a later one.

        An index entry is trusted when its batch has its timestamp, and the offset index leads near it; else the indexes
        are rebuilt, once, at the first step of the iterator. Raises OSError.
        """
        self.load(interval_bytes)
        entry = self.times.lookup(timestamp)
        is_trusted = entry is None
        time, offset = entry or (NO_TIMESTAMP, self.base)
        start = self.index.lookup(offset) if entry else 0
        for position, header in batch_scan.headers(self.handle, start, self.size):
            if not is_trusted:
                if header.last_offset < offset:
                    continue
                # The batch that an index entry leads to ends at or before the offset that was looked up.
                leads_past = position == start > 0 and header.last_offset > offset
                leads_far = position - start > interval_bytes + SHORT_INDEX_BYTES
                if leads_past or leads_far or header.max_timestamp != time:
                    break
                is_trusted = True
            yield position, header
        if is_trusted:
            return
        if self._rebuilt:
            yield from batch_scan.headers(self.handle, 0, self.size)
        else:
            self.rebuild(interval_bytes)
            yield from self.headers_from_time(timestamp, interval_bytes)

    def first_batch_timestamp(self) -> int:
        """The largest timestamp of the first batch, from which the age for rolling counts; -1 without a batch."""
        if self.first_timestamp is None:
            first = next(batch_scan.headers(self.handle, 0, self.size), None)
            if first is None:
                return NO_TIMESTAMP
            self.first_timestamp = age_from(first[1].max_timestamp)
        return self.first_timestamp

    def creation_ms(self, disk: Disk) -> int:
        """When the file was created, as far as known: for a reopened file, its last change."""
        if self.created_ms == 0:
            self.created_ms = disk.modified_ms(self.handle.path)
        return self.created_ms

    def largest_timestamp(self, interval_bytes: int, disk: Disk) -> int:
        """The timestamp for the segment's age: its largest one, or the file's modification time when it has none."""
        self.load(interval_bytes)
        return self.max_timestamp if self.max_timestamp >= 0 else disk.modified_ms(self.handle.path)

    def truncate_to(self, offset: int, interval_bytes: int) -> int:
        """Truncate before the batch that holds `offset`; the new end offset of the segment. Raises OSError."""
        found = self.find(offset, interval_bytes)
        if found is None:
            position, end_offset = self.size, offset
        else:
            position, end_offset = found[0], min(found[1], offset)
        self.file().truncate(position)
        self.size = position
        self.index.truncate_to(end_offset, position)
        self.times.truncate_to(end_offset)
        self.transactions.truncate_to(end_offset)
        self._recount()
        return end_offset

    def mark_deleted(self, *, on_renamed: Callable[[str], None]) -> None:
        """Rename every file to `.deleted`, calling `on_renamed` with each new path; pinned files stay readable."""
        disk = self.handle.files.disk
        for handle in [*self.handles(), self.transactions.handle]:
            if disk.exists(handle.path):
                disk.rename(handle.path, handle.path + names.DELETED)
                on_renamed(handle.path + names.DELETED)
            handle.retire()

    def close(self) -> None:
        """Close every file, pinned ones at their last unpin."""
        for handle in [*self.handles(), self.transactions.handle]:
            handle.retire()

    def _recount(self) -> None:
        """After a truncation: find the largest timestamp and the bytes since the last index entry."""
        self.max_timestamp, self.max_timestamp_offset = self.times.last_timestamp, self.times.last_offset
        start = self.index.last_position
        for _, header in batch_scan.headers(self.handle, start, self.size):
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp, self.max_timestamp_offset = header.max_timestamp, header.last_offset
        self.unindexed_bytes = self.size - start
        if self.size == 0:
            self.first_timestamp = None


def _remove(disk: Disk, path: str) -> None:
    """Remove a file of a failed creation. When a log cannot be removed, whatever the reason, no more may be written:
    the next start would take the previous segment to end there, and truncate later appends to it.
    """
    try:
        disk.remove(path)
    except OSError as error:
        if path.endswith(names.LOG):
            raise OSError(errno.EIO, f"{error.strerror}: an incomplete new segment is left", path) from error
