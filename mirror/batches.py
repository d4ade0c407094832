"""Fetched record sets to batches that the target takes. Pure.

A batch passes through as it is: `stamp` writes the mirror's producer id, epoch and sequence into its header and
computes its CRC again; the records, compressed or not, are not touched. Opened and built again are only batches that no
broker takes from a producer, or that consumers would read differently:

    formats 0 and 1            a producer sends format 2
    records are missing        compaction leaves gaps; a producer's records have consecutive offsets
    LogAppendTime              the time is in the source's header only; copies have it as their records' CreateTime
    the first of a fetch       where it begins before the requested offset
    many small ones            a request has one batch for each partition: small neighbours become one

Markers, and records of aborted transactions, are left out. The source's CRC is checked before anything else: it would
not be seen any more that a batch is damaged once its CRC is new.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records.aborted_transactions import AbortedRow, AbortedTransactions
from sordini.protocol.records.batch import (
    CURRENT_MAGIC,
    BatchHeader,
    Record,
    build_batch,
    crc_is_right,
    read_header,
    stamp_producer,
)
from sordini.protocol.records.legacy import entries, message_header, read_any
from sordini.system.named_tuple import NamedTuple

SMALL_BYTES: Final = 1024
"""A batch of at most this size is joined with its neighbours of this kind."""
BUILT_BYTES: Final = 256 * 1024
"""Records of at least this size are built into one batch, uncompressed."""
_RECORD_BYTES: Final = 32
"""Of a record beside its key, value and headers, at most."""


class Run(NamedTuple):
    """`record_count` records with consecutive offsets from `offset` on, in the source."""

    offset: int
    record_count: int


class Copy(NamedTuple):
    """One batch for the target."""

    data: memoryview
    """The whole batch, writable; `stamp` completes it."""
    record_count: int
    runs: tuple[Run, ...]
    """Which records of the source these are, in their order."""


class Extracted(NamedTuple):
    """What one fetch brought for one partition."""

    copies: list[Copy]
    next_offset: int
    """Past all that was read, copied or not."""
    opened: int
    """How many batches were opened."""


def extract(
    records: memoryview,
    start: int,
    aborted: Iterable[AbortedRow] = (),
    *,
    is_skipped: Callable[[int], bool] = lambda _: False,
) -> Extracted:
    """The batches to produce, of the records from offset `start` on; an incomplete one at the end is left out.

    `is_skipped` takes a producer id, and says whether its records are not to be copied. Raises BrokerError
    CORRUPT_MESSAGE and INVALID_RECORD for damaged batches.
    """
    transactions = AbortedTransactions(aborted)
    builder = _Builder()
    next_offset = start
    found = [*_headers(records)]
    for index, (data, header) in enumerate(found):
        if header.magic == CURRENT_MAGIC:
            next_offset = max(next_offset, header.next_offset)
            is_left_out = transactions.is_aborted(header)
            if header.is_control:
                transactions.pass_control(data, header)
                continue
            if is_left_out or not header.record_count or header.last_offset < start:
                continue
            if header.producer_id >= 0 and is_skipped(header.producer_id):
                continue
            if _passes(header, start) and not _joins(found, index, builder):
                builder.add_batch(data, header)
                continue
        kept = [record for record in read_any(data, header) if record.offset >= start]
        builder.add_records(kept, header.codec)
        if kept:
            next_offset = max(next_offset, kept[-1].offset + 1)
    builder.build()
    return Extracted(builder.copies, next_offset, builder.opened)


def stamp(copy: Copy, producer_id: int, producer_epoch: int, sequence: int, *, transactional: bool) -> None:
    """Make a batch the mirror's own. Without idempotence all three numbers are -1."""
    stamp_producer(copy.data, producer_id, producer_epoch, sequence, transactional=transactional)


def _headers(records: memoryview) -> Iterator[tuple[memoryview, BatchHeader]]:
    """Each whole batch or message with its header, its CRC checked."""
    for entry in entries(records):
        data = records[entry.position : entry.position + entry.size]
        if entry.magic == CURRENT_MAGIC:
            header: BatchHeader | None = read_header(data)
        else:
            header = message_header(data, 0, len(data))
        if header is None or not crc_is_right(data, 0, header):
            raise BrokerError(ErrorCode.CORRUPT_MESSAGE, "the source sent a batch that is damaged: its CRC is wrong")
        yield data, header


def _passes(header: BatchHeader, start: int) -> bool:
    """Whether the target takes the batch as it is."""
    is_dense = header.record_count == header.last_offset_delta + 1
    return is_dense and not header.is_log_append_time and header.base_offset >= start


def _joins(found: list[tuple[memoryview, BatchHeader]], index: int, builder: _Builder) -> bool:
    """Whether a batch is small, and so is a neighbour that it can be joined with."""
    header = found[index][1]
    if header.size > SMALL_BYTES:
        return False
    if builder.takes(header.codec):
        return True
    return index + 1 < len(found) and found[index + 1][1].size <= SMALL_BYTES


class _Builder:
    """Collects batches in order; opened ones are joined."""

    def __init__(self) -> None:
        self.copies: list[Copy] = []
        self.opened = 0
        self._records: list[Record] = []
        self._codec = 0
        self._size = 0

    def takes(self, codec: int) -> bool:
        """Whether there are records that others of this codec can be joined with."""
        return bool(self._records) and codec == self._codec

    def add_batch(self, data: memoryview, header: BatchHeader) -> None:
        self.build()
        own = memoryview(bytearray(data)) if data.readonly else data
        self.copies.append(Copy(own, header.record_count, (Run(header.base_offset, header.record_count),)))

    def add_records(self, records: list[Record], codec: int) -> None:
        self.opened += 1
        if codec != self._codec:
            self.build()
            self._codec = codec
        for record in records:
            self._records.append(record)
            self._size += _size_of(record)
            if self._size >= BUILT_BYTES:
                self.build()

    def build(self) -> None:
        """Build a batch of the records so far."""
        records, self._records, self._size = self._records, [], 0
        if not records:
            return
        numbered = [record._replace(offset=index) for index, record in enumerate(records)]
        data = memoryview(bytearray(build_batch(numbered, codec=self._codec)))
        self.copies.append(Copy(data, len(records), tuple(_runs(records))))


def _size_of(record: Record) -> int:
    headers = sum(len(name) + len(value or b"") for name, value in record.headers)
    return _RECORD_BYTES + len(record.key or b"") + len(record.value or b"") + headers


def _runs(records: list[Record]) -> Iterator[Run]:
    start = end = records[0].offset
    for record in records:
        if record.offset != end:
            yield Run(start, end - start)
            start = record.offset
        end = record.offset + 1
    yield Run(start, end - start)
