"""The committed offsets of the groups in one partition of __consumer_offsets, and their records.

Readers see an offset once its record is committed, not before, and one of a transaction once its commit marker is. Each
value has a number, in the order of the records: see `OpenTransactions`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count

from sordini.broker.coordinators.journal import Journal, KeyValue, OnDone, TransactionalProducer
from sordini.broker.groups.machine import records
from sordini.broker.groups.machine.memory_limit import ShardMemoryUsage
from sordini.broker.groups.machine.offset_table import OffsetTable, open_cost
from sordini.broker.groups.machine.state import CommittedOffset
from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import TopicPartition

COMMIT_KEYS_LENGTH_MAX = 16 * 1024 * 1024
"""Characters of the group id in all keys of one commit, one key for each offset: no topic takes so large a batch."""

NO_OFFSETS = OffsetTable()
"""Of a group without offsets; never changed."""


class ShardOffsets:
    """The offset tables of one shard, by group."""

    def __init__(self, journal: Journal, memory: ShardMemoryUsage) -> None:
        self._journal = journal
        self._memory = memory
        self._tables: dict[str, OffsetTable] = {}
        self._numbers = count(1)
        self._transactions: dict[int, dict[str, None]] = {}
        """The groups to which the open transaction of each producer commits."""

    def of(self, group_id: str) -> OffsetTable:
        """A group's offsets, not to be changed."""
        return self._tables.get(group_id, NO_OFFSETS)

    def group_ids(self) -> Iterable[str]:
        """The groups with committed offsets, pending commits or open transactions."""
        return self._tables.keys()

    def restore(self, group_id: str, partition: TopicPartition, committed: CommittedOffset) -> None:
        """Load an offset from the log."""
        self._memory.commit_offsets(self._table(group_id), {partition: committed})

    def restore_open(
        self, producer_id: int, group_id: str, partition: TopicPartition, committed: CommittedOffset | None
    ) -> None:
        """Load an offset of an open transaction; None is one that a later commit has superseded."""
        self._add_open(producer_id, group_id, {partition: committed})

    def commit(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, CommittedOffset],
        on_committed: Callable[[], None],
        on_done: OnDone,
    ) -> None:
        """Write offsets as one batch; `on_committed` is called before `on_done`, which has the journal's code.

        INVALID_COMMIT_OFFSET_SIZE: the keys are too long, or the memory limit does not allow new partitions.
        """
        if not _has_short_keys(group_id, offsets):
            on_done(ErrorCode.INVALID_COMMIT_OFFSET_SIZE)
            return
        table = self._table(group_id)
        added_bytes = table.added_bytes(offsets) + self._memory.missing_group_bytes(group_id)
        if table.adds_partitions(offsets) and not self._memory.has_room(added_bytes):
            self._drop_idle(group_id)
            on_done(ErrorCode.INVALID_COMMIT_OFFSET_SIZE)
            return
        number = next(self._numbers)

        def apply() -> None:
            table.end_write(offsets)
            if table.open:
                self._supersede_open(table, offsets, number)
            self._memory.change(-added_bytes)  # Reserved when the batch was appended.
            self._memory.commit_offsets(self._table(group_id), offsets)
            on_committed()
            self._drop_idle(group_id)

        self._memory.change(added_bytes)
        table.begin_write(offsets)
        if not self._journal.append(_lines(group_id, offsets), apply, on_done):
            table.end_write(offsets)
            self._drop_idle(group_id)
            self._memory.change(-added_bytes)

    def commit_in_transaction(
        self,
        producer: TransactionalProducer,
        group_id: str,
        offsets: Mapping[TopicPartition, CommittedOffset],
        on_done: OnDone,
    ) -> bool:
        """Write offsets as one batch of a transaction; whether it is in the log. As `commit`, but no reader sees them.

        The partitions are unstable from now on, before the batch is committed: the marker may be on its way already.
        """
        added_bytes = sum(open_cost(*item) for item in offsets.items()) + self._memory.missing_group_bytes(group_id)
        if not _has_short_keys(group_id, offsets) or not self._memory.has_room(added_bytes):
            on_done(ErrorCode.INVALID_COMMIT_OFFSET_SIZE)
            return False
        if not self._journal.append(_lines(group_id, offsets), _nothing, on_done, producer):
            return False
        self._add_open(producer.producer_id, group_id, offsets)
        return True

    def end_transaction(self, producer_id: int, *, commit: bool) -> list[str]:
        """A marker is committed: apply or discard the offsets of a producer's transaction; the groups concerned."""
        group_ids = list(self._transactions.pop(producer_id, ()))
        for group_id in group_ids:
            table = self._table(group_id)
            before = table.open.held_bytes
            committed = table.open.end(producer_id, commit=commit)
            self._memory.change(table.open.held_bytes - before)
            self._memory.commit_offsets(table, committed)
            self._drop_idle(group_id)
        return group_ids

    def delete(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition],
        on_done: OnDone,
        group_tombstones: Sequence[KeyValue] = (),
    ) -> bool:
        """Write tombstones for offsets, and behind them those of the group; `on_done` has the journal's code.

        Returns whether they are in the log.
        """
        deleted = list(partitions)
        tombstones: list[KeyValue] = [(records.offset_key(group_id, *partition), None) for partition in deleted]
        tombstones += group_tombstones
        table, number = self._table(group_id), next(self._numbers)

        def apply() -> None:
            table.end_write(deleted)
            self._memory.delete_offsets(self._table(group_id), deleted)
            self._delete_open(group_id, deleted, number)
            self._drop_idle(group_id)

        table.begin_write(deleted)
        if self._journal.append_batches(tombstones, apply, on_done):
            return True
        table.end_write(deleted)
        self._drop_idle(group_id)
        return False

    def _add_open(
        self, producer_id: int, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset | None]
    ) -> None:
        opened, number = self._table(group_id).open, next(self._numbers)
        before = opened.held_bytes
        for partition, offset in offsets.items():
            opened.add(producer_id, partition, offset, number)
        self._memory.change(opened.held_bytes - before)
        self._transactions.setdefault(producer_id, {})[group_id] = None

    def _supersede_open(self, table: OffsetTable, partitions: Iterable[TopicPartition], number: int) -> None:
        before = table.open.held_bytes
        for partition in partitions:
            table.open.supersede(partition, number)
        self._memory.change(table.open.held_bytes - before)

    def _delete_open(self, group_id: str, partitions: Iterable[TopicPartition], number: int) -> None:
        """Tombstones end offsets of open transactions, too, as in Apache Kafka."""
        opened = self._table(group_id).open
        if not opened:
            return
        before, producers = opened.held_bytes, opened.producers()
        for partition in partitions:
            opened.delete(partition, number)
        self._memory.change(opened.held_bytes - before)
        for producer_id in set(producers) - set(opened.producers()):
            groups = self._transactions[producer_id]
            del groups[group_id]
            if not groups:
                del self._transactions[producer_id]

    def _table(self, group_id: str) -> OffsetTable:
        table = self._tables.get(group_id)
        if table is None:
            table = self._tables[group_id] = OffsetTable()
        return table

    def _drop_idle(self, group_id: str) -> None:
        table = self._tables.get(group_id)
        if table is not None and table.is_idle:
            del self._tables[group_id]


def _has_short_keys(group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> bool:
    return len(group_id) * len(offsets) <= COMMIT_KEYS_LENGTH_MAX


def _lines(group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> list[KeyValue]:
    return [
        (records.offset_key(group_id, *partition), records.offset_value(offset))
        for partition, offset in offsets.items()
    ]


def _nothing() -> None:
    """Offsets of a transaction change nothing until its marker."""
