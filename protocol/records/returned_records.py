"""What a consumer returns of the records of a Fetch response, batch by batch: batches and messages of all formats.

Left out are control records, records of aborted transactions, records below the offset that was asked for, and an
incomplete batch at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records.aborted_transactions import AbortedRow, AbortedTransactions
from sordini.protocol.records.batch import CURRENT_MAGIC, HEADER_SIZE, BatchHeader, Record, crc_is_right, read_header
from sordini.protocol.records.legacy import entries, message_header, read_any


class ReturnedBatch(NamedTuple):
    """One batch, or one message of format 0 or 1 with what is inside of it."""

    records: list[Record]
    next_offset: int
    """The offset to fetch after it."""
    is_log_append_time: bool


def returned_batches(data: bytes | memoryview, start: int, aborted: Iterable[AbortedRow]) -> Iterator[ReturnedBatch]:
    """The batches of a response to a Fetch from `start`, also those of which nothing is returned.

    `aborted` are the transactions that the response lists. Raises BrokerError for damaged bytes.
    """
    view, transactions = memoryview(data), AbortedTransactions(aborted)
    for entry in entries(view):
        batch = view[entry.position : entry.position + entry.size]
        header = _header(batch, entry.magic)
        records: list[Record] = []
        is_aborted = transactions.is_aborted(header)
        if header.is_control:
            transactions.pass_control(batch, header)
        elif not is_aborted:
            records = [record for record in read_any(batch, header) if record.offset >= start]
        yield ReturnedBatch(records, header.next_offset, header.is_log_append_time)


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
