"""A log as it grows, is cleaned and read again, beside the truth of what was ever written to it."""

from __future__ import annotations

from typing import Any, NamedTuple

from sordini.protocol.records.batch import BatchHeader, Record, build_batch, read_header
from sordini.protocol.records.control import ABORT, COMMIT, Marker, build_marker
from sordini.protocol.records.legacy import message_header, read_any
from sordini.protocol.records.legacy_writing import write_messages
from sordini.storage import names
from sordini.storage.compaction.cleaning import clean
from sordini.storage.compaction.task import CleaningResult, CleaningTask, SegmentSpan
from sordini.storage.open_files import Handle, OpenFiles
from sordini.storage.producer_state import AbortedTransaction
from sordini.storage.txn_index import TransactionIndex
from sordini.testing.simulation.forgetful_disk import ForgetfulDisk

DIRECTORY = "/data/topic-0"
RETENTION_MS = 1_000
INTERVAL_BYTES = 100


class StillClock:
    """Time that passes only in sleeps."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.seconds += seconds


class Written(NamedTuple):
    """One record that a client wrote, with its format, producer and time."""

    record: Record
    magic: int
    producer_id: int
    written_ms: int
    is_transactional: bool


class Found(NamedTuple):
    """One batch that stands in the log."""

    header: BatchHeader
    records: list[Record]
    data: bytes


class LoggedSegment:
    """One segment's log and transaction index."""

    def __init__(self, base: int, modified_ms: int) -> None:
        self.base = base
        self.data = b""
        self.modified_ms = modified_ms
        self.aborted: list[AbortedTransaction] = []

    def batches(self) -> list[Found]:
        found = []
        position = 0
        while position < len(self.data):
            message = message_header(self.data, position, len(self.data) - position)
            header = message or read_header(self.data, position)
            data = self.data[position : position + header.size]
            found.append(Found(header, read_any(data, header), data))
            position += header.size
        return found


class History:
    """A partition whose last segment is the active one. Offsets, sequences and transactions are kept right here."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000
        self.end_offset = 0
        self.cleaned_to = 0
        self.segments = [LoggedSegment(0, self.now_ms)]
        self.written: dict[int, Written] = {}
        self.batches: dict[int, BatchHeader] = {}
        """Every version 2 batch as it was first written, by its last offset."""
        self.ended: dict[int, bool] = {}
        """By the offset of a transaction's record: whether it was committed."""
        self.producers: dict[int, tuple[int, int]] = {}
        """By producer: the last offset of its last data batch and its next sequence."""
        self.open: dict[int, int] = {}
        self.disk = ForgetfulDisk(lambda: self.now_ms)
        self.disk.make_directory(DIRECTORY)

    # -- writing

    def data(
        self,
        pairs: list[tuple[bytes | None, bytes | None]],
        *,
        producer_id: int = -1,
        transactional: bool = False,
        codec: int = 0,
        times: list[int] | None = None,
        **fields: bool,
    ) -> None:
        """Append one batch; `times` are added to the present time, record by record."""
        late = times or [0] * len(pairs)
        records = [
            Record(
                self.end_offset + index, self.now_ms + late[index], key, value, (("h", b"%d" % index),) * (index % 2)
            )
            for index, (key, value) in enumerate(pairs)
        ]
        sequence = -1
        if producer_id >= 0:
            sequence = self.producers.get(producer_id, (-1, 0))[1]
            self.producers[producer_id] = (records[-1].offset, sequence + len(records))
            if transactional:
                self.open.setdefault(producer_id, self.end_offset)
        batch = build_batch(
            records,
            base_offset=self.end_offset,
            leader_epoch=3,
            codec=codec,
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=sequence,
            transactional=transactional,
            **fields,
        )
        header = read_header(batch)
        if header.is_log_append_time:
            records = [record._replace(timestamp=header.max_timestamp) for record in records]
        for record in records:
            self.written[record.offset] = Written(record, 2, producer_id, self.now_ms, transactional)
        self._append(batch, header)

    def old(self, pairs: list[tuple[bytes | None, bytes | None]], *, magic: int, codec: int = 0) -> None:
        """Append messages of format 0 or 1, in one wrapper when there is a codec."""
        time = self.now_ms if magic else -1
        records = [Record(self.end_offset + index, time, key, value) for index, (key, value) in enumerate(pairs)]
        for record in records:
            self.written[record.offset] = Written(record, magic, -1, self.now_ms, is_transactional=False)
        segment = self.segments[-1]
        segment.data += write_messages(records, magic, codec=codec)
        segment.modified_ms = self.now_ms
        self.end_offset += len(records)

    def end(self, producer_id: int, *, commit: bool) -> None:
        """Append the marker that ends a producer's transaction, if it has one open."""
        first = self.open.pop(producer_id, None)
        marker = build_marker(
            Marker(COMMIT if commit else ABORT, 1),
            producer_id=producer_id,
            producer_epoch=0,
            timestamp_ms=self.now_ms,
            base_offset=self.end_offset,
            leader_epoch=3,
        )
        if first is not None:
            for offset in range(first, self.end_offset):
                one = self.written.get(offset)
                if one is not None and one.producer_id == producer_id:
                    self.ended[offset] = commit
            if not commit:
                stable = min(self.open.values(), default=self.end_offset + 1)
                aborted = AbortedTransaction(producer_id, first, self.end_offset, stable)
                self.segments[-1].aborted.append(aborted)
        self._append(marker, read_header(marker))

    def _append(self, batch: bytes, header: BatchHeader) -> None:
        self.batches[header.last_offset] = header
        segment = self.segments[-1]
        segment.data += batch
        segment.modified_ms = self.now_ms
        self.end_offset = header.next_offset

    def roll(self) -> None:
        """Begin a new segment, unless the active one is empty."""
        if self.segments[-1].data:
            self.segments.append(LoggedSegment(self.end_offset, self.now_ms))

    # -- cleaning

    def task(self, **changes: Any) -> CleaningTask:
        """What may be cleaned now."""
        ends = [segment.base for segment in self.segments[1:]]
        uncleanable = min([self.segments[-1].base, *self.open.values()])
        spans = [
            SegmentSpan(segment.base, len(segment.data), end, segment.modified_ms, -1)
            for segment, end in zip(self.segments, ends, strict=False)
            if segment.base < uncleanable
        ]
        task = CleaningTask(
            directory=DIRECTORY,
            segments=tuple(spans),
            first_dirty_offset=self.cleaned_to,
            uncleanable_offset=uncleanable,
            log_start_offset=0,
            now_ms=self.now_ms,
            delete_retention_ms=RETENTION_MS,
            segment_bytes=1_000,
            segment_index_bytes=1_000,
            index_interval_bytes=INTERVAL_BYTES,
            map_bytes=1_000_000,
            map_load_factor=0.9,
            io_buffer_bytes=300,
            io_bytes_per_second=float("inf"),
            producers=tuple((who, 0, last) for who, (last, _) in sorted(self.producers.items())),
        )
        return task._replace(**changes)

    def write_files(self) -> None:
        """Put the segments on the disk, synced, as the broker would have left them."""
        for name in self.disk.list_directory(DIRECTORY):
            self.disk.remove(f"{DIRECTORY}/{name}")
        for segment in self.segments:
            self.disk.replace(self.path(segment.base, names.LOG), segment.data)
            if segment.aborted:
                index = self._transaction_index(self.path(segment.base, names.TRANSACTION_INDEX))
                for aborted in segment.aborted:
                    index.append(aborted)
                index.handle.reopen().sync()
                index.handle.close()
        for directory in ("/", "/data", DIRECTORY):
            self.disk.sync_directory(directory)

    def clean(self, **changes: Any) -> CleaningResult:
        """One round, and its segments in place of the old ones."""
        self.write_files()
        result = clean(self.disk, self.task(**changes), StillClock())
        for made in result.replacements:
            segment = LoggedSegment(made.base, self.disk.modified_ms(self.cleaned_path(made.base, names.LOG)))
            segment.data = self.disk.contents(self.cleaned_path(made.base, names.LOG))
            assert len(segment.data) == made.size
            path = self.cleaned_path(made.base, names.TRANSACTION_INDEX)
            if self.disk.exists(path):
                index = self._transaction_index(path)
                segment.aborted = index.entries()
                index.handle.close()
            at = [one.base for one in self.segments].index(made.base)
            assert tuple(one.base for one in self.segments[at : at + len(made.replaces)]) == made.replaces
            self.segments[at : at + len(made.replaces)] = [segment]
        self.cleaned_to = result.cleaned_to
        return result

    def path(self, base: int, suffix: str) -> str:
        return f"{DIRECTORY}/{names.file_name(base, suffix)}"

    def cleaned_path(self, base: int, suffix: str) -> str:
        return self.path(base, suffix) + names.CLEANED

    def _transaction_index(self, path: str) -> TransactionIndex:
        return TransactionIndex(Handle(OpenFiles(self.disk, 1), path), exists=True)

    # -- reading

    def found(self) -> list[Found]:
        """All batches of the log as it stands."""
        return [batch for segment in self.segments for batch in segment.batches()]

    def committed(self) -> list[Record]:
        """What a consumer with read_committed gets: by the headers, the markers' place and the transaction index."""
        aborted = [one for segment in self.segments for one in segment.aborted]
        stable = min(self.open.values(), default=self.end_offset)
        return [
            record
            for batch in self.found()
            if not batch.header.is_control and batch.header.base_offset < stable
            for record in batch.records
            if not (
                batch.header.is_transactional
                and any(
                    one.producer_id == batch.header.producer_id and one.first_offset <= record.offset <= one.last_offset
                    for one in aborted
                )
            )
        ]

    def truly_committed(self) -> list[Record]:
        """What a consumer with read_committed would get of the log had it never been cleaned."""
        stable = min(self.open.values(), default=self.end_offset)
        return [
            one.record
            for offset, one in sorted(self.written.items())
            if offset < stable and self.ended.get(offset, True)
        ]
