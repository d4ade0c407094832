"""The records of a Fetch response, batch by batch: batches and messages of all formats.

What a consumer returns are `returned_batches`: without control records, records of aborted transactions, records below
the offset that was asked for, and an incomplete batch at the end. `seen_batches` have what is left out, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records.aborted_transactions import AbortedRow, AbortedTransactions
from sordini.protocol.records.batch import CURRENT_MAGIC, HEADER_SIZE, BatchHeader, Record, crc_is_right, read_header
from sordini.protocol.records.control import Marker, read_marker
from sordini.protocol.records.legacy import entries, message_header, read_any
from sordini.system.named_tuple import NamedTuple


class ReturnedBatch(NamedTuple):
    """One batch, or one message of format 0 or 1 with what is inside of it."""

    records: list[Record]
    next_offset: int
    """The offset to fetch after it."""
    is_log_append_time: bool


class SeenBatch(NamedTuple):
    """One batch with what a consumer does not return; a control batch has its marker and no records."""

    records: list[Record]
    next_offset: int
    is_log_append_time: bool
    is_aborted: bool
    header: BatchHeader
    marker: Marker | None


def returned_batches(data: bytes | memoryview, start: int, aborted: Iterable[AbortedRow]) -> Iterator[ReturnedBatch]:
    """The batches of a response to a Fetch from `start`, also those of which nothing is returned.

    `aborted` are the transactions that the response lists. Raises BrokerError for damaged bytes.
    """
    for batch in _batches(data, start, aborted, has_aborted=False):
        yield ReturnedBatch(batch.records, batch.next_offset, batch.is_log_append_time)


def seen_batches(data: bytes | memoryview, start: int, aborted: Iterable[AbortedRow]) -> Iterator[SeenBatch]:
    """As `returned_batches`, and all that is there."""
    return _batches(data, start, aborted, has_aborted=True)


def _batches(
    data: bytes | memoryview, start: int, aborted: Iterable[AbortedRow], *, has_aborted: bool
) -> Iterator[SeenBatch]:
    view, transactions = memoryview(data), AbortedTransactions(aborted)
    for entry in entries(view):
        batch = view[entry.position : entry.position + entry.size]
        header = _header(batch, entry.magic)
        records: list[Record] = []
        marker = None
        is_aborted = transactions.is_aborted(header)
        if header.is_control:
            transactions.pass_control(batch, header)
            marker = next((read_marker(record) for record in read_any(batch, header)), None) if has_aborted else None
        elif has_aborted or not is_aborted:
            records = [record for record in read_any(batch, header) if record.offset >= start]
        yield SeenBatch(records, header.next_offset, header.is_log_append_time, is_aborted, header, marker)


def _header(batch: memoryview, magic: int) -> BatchHeader:
    if magic != CURRENT_MAGIC:
        message = message_header(batch, 0, len(batch))
        if message is None:
            raise _corrupt("neither a batch nor a message")
        return message  # Whose CRC `read_any` checks.
    if len(batch) < HEADER_SIZE:
        raise _corrupt(f"a batch of {len(batch)} bytes")
    header = read_header(batch)
    if not crc_is_right(batch, 0, header):
        raise _corrupt(f"the CRC of the batch at offset {header.base_offset} is wrong")
    return header


def _corrupt(why: str) -> BrokerError:
    return BrokerError(ErrorCode.CORRUPT_MESSAGE, why)
