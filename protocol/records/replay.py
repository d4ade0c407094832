"""A partition that is read from its beginning into a state: fetched bytes become records, each applied once, in order.

    position ──► the next offset to fetch; compaction leaves gaps, so it follows batches, not records
    epoch    ──► the leader epoch of the last batch, by which a leader finds that our log is not its own (KIP-320)

Records of aborted transactions, control records and records without a key are skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records.aborted_transactions import AbortedRow, AbortedTransactions
from sordini.protocol.records.batch import CURRENT_MAGIC, BatchHeader, crc_is_right, read_header
from sordini.protocol.records.legacy import entries, message_header, read_any
from sordini.system.named_tuple import NamedTuple

RECORDS_PER_SLICE: Final = 200
"""After so many records the caller gets a chance to let others run."""

Apply = Callable[[bytes, bytes | None, int], None]
"""Takes the key, the value and the offset of each record."""


class Stamp(NamedTuple):
    """By which a batch of a producer is recognised in the log."""

    producer_id: int
    producer_epoch: int
    sequence: int


class Replay:
    """How far the partition was read."""

    def __init__(self, apply: Apply, batch_read: Callable[[Stamp, int], None] | None = None) -> None:
        """`batch_read` is called after the records of a producer's batch were applied, with their first offset."""
        self.position = 0
        self.epoch = -1
        self._apply = apply
        self._batch_read = batch_read

    def take(self, records: memoryview, aborted: Iterable[AbortedRow]) -> Iterator[None]:
        """Apply what was fetched at `position`, in slices of records; an incomplete batch at the end is left out.

        Raises BrokerError for bytes that are no records.
        """
        transactions = AbortedTransactions(aborted)
        count = 0
        for entry in entries(records):
            data = records[entry.position : entry.position + entry.size]
            header = read_header(data) if entry.magic == CURRENT_MAGIC else message_header(data, 0, len(data))
            if header is None or not crc_is_right(data, 0, header):
                raise BrokerError(ErrorCode.CORRUPT_MESSAGE, f"a damaged batch at offset {self.position}")
            count += self._take_batch(data, header, transactions)
            if count >= RECORDS_PER_SLICE:
                count = 0
                yield

    def _take_batch(self, data: memoryview, header: BatchHeader, transactions: AbortedTransactions) -> int:
        is_aborted = transactions.is_aborted(header)
        applied = []
        if header.is_control:
            transactions.pass_control(data, header)
        elif not is_aborted:
            # A fetch begins with the batch that has its offset, which may begin before it.
            applied = [record for record in read_any(data, header) if record.offset >= self.position]
            for record in applied:
                if record.key is not None:
                    self._apply(record.key, record.value, record.offset)
        last = applied[-1].offset if applied else self.position - 1
        next_offset = header.next_offset if header.magic == CURRENT_MAGIC else last + 1
        if next_offset <= self.position:
            return 0
        self.position = next_offset
        if header.magic == CURRENT_MAGIC:
            self.epoch = header.partition_leader_epoch
            if header.producer_id >= 0 and self._batch_read is not None:
                stamp = Stamp(header.producer_id, header.producer_epoch, header.base_sequence)
                self._batch_read(stamp, header.base_offset)
        return len(applied)
