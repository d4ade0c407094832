"""Which batches belong to aborted transactions: a consumer with isolation level read_committed skips them.

A Fetch response lists the aborted transactions that its records may touch, by producer and first offset. From that
offset on the producer's transactional batches are aborted ones, up to its abort marker.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from sordini.protocol.records.batch import BatchHeader, read_records
from sordini.protocol.records.control import ABORT, read_marker
from sordini.system.named_tuple import NamedTuple


class Aborted(NamedTuple):
    """One aborted transaction, as a Fetch response of isolation level read_committed lists it."""

    producer_id: int
    first_offset: int


class AbortedRow(Protocol):
    """An `Aborted`, or a row of a Fetch response."""

    @property
    def producer_id(self) -> int: ...

    @property
    def first_offset(self) -> int: ...


class AbortedTransactions:
    """The aborted transactions of one response, followed through its batches in their order."""

    def __init__(self, aborted: Iterable[AbortedRow]) -> None:
        self._to_come = sorted(aborted, key=lambda transaction: transaction.first_offset, reverse=True)
        self._under_way: set[int] = set()

    def is_aborted(self, batch: BatchHeader) -> bool:
        """Whether this batch, the next in the log, holds records of an aborted transaction."""
        while self._to_come and self._to_come[-1].first_offset <= batch.last_offset:
            self._under_way.add(self._to_come.pop().producer_id)
        return batch.is_transactional and not batch.is_control and batch.producer_id in self._under_way

    def pass_control(self, data: memoryview, batch: BatchHeader) -> None:
        """Process a control batch, which begins `data`; raises BrokerError when it is damaged."""
        if batch.producer_id in self._under_way:
            for record in read_records(data, batch):
                if read_marker(record).kind == ABORT:
                    self._under_way.discard(batch.producer_id)
