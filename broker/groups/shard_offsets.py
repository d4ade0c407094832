"""The committed offsets of the groups in one partition of __consumer_offsets, and their records.

Readers see an offset once its record is committed, not before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from sordini.broker.coordinators.journal import Journal, KeyValue, OnDone
from sordini.broker.groups.machine import records
from sordini.broker.groups.machine.memory_limit import ShardMemoryUsage
from sordini.broker.groups.machine.offset_table import OffsetTable
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

    def of(self, group_id: str) -> OffsetTable:
        """A group's offsets, not to be changed."""
        return self._tables.get(group_id, NO_OFFSETS)

    def group_ids(self) -> Iterable[str]:
        """The groups with committed offsets, or with pending commits."""
        return self._tables.keys()

    def restore(self, group_id: str, partition: TopicPartition, committed: CommittedOffset) -> None:
        """Load an offset from the log."""
        self._memory.commit_offsets(self._table(group_id), {partition: committed})

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
        if len(group_id) * len(offsets) > COMMIT_KEYS_LENGTH_MAX:
            on_done(ErrorCode.INVALID_COMMIT_OFFSET_SIZE)
            return
        table = self._table(group_id)
        added_bytes = table.added_bytes(offsets)
        if table.adds_partitions(offsets) and not self._memory.has_room(added_bytes):
            self._drop_idle(group_id)
            on_done(ErrorCode.INVALID_COMMIT_OFFSET_SIZE)
            return
        lines: list[KeyValue] = [
            (records.offset_key(group_id, *partition), records.offset_value(offset))
            for partition, offset in offsets.items()
        ]

        def apply() -> None:
            table.end_write(offsets)
            self._memory.change(-added_bytes)  # Reserved when the batch was appended.
            self._memory.commit_offsets(self._table(group_id), offsets)
            on_committed()
            self._drop_idle(group_id)

        self._memory.change(added_bytes)
        table.begin_write(offsets)
        if not self._journal.append(lines, apply, on_done):
            table.end_write(offsets)
            self._drop_idle(group_id)
            self._memory.change(-added_bytes)

    def delete(
        self, group_id: str, partitions: Iterable[TopicPartition], on_done: OnDone, *, with_group: bool = False
    ) -> None:
        """Write tombstones for offsets and, `with_group`, for the group; `on_done` has the journal's code."""
        deleted = list(partitions)
        tombstones: list[KeyValue] = [(records.offset_key(group_id, *partition), None) for partition in deleted]
        if with_group:
            tombstones.append((records.group_key(group_id), None))
        table = self._table(group_id)

        def apply() -> None:
            table.end_write(deleted)
            self._memory.delete_offsets(self._table(group_id), deleted)
            self._drop_idle(group_id)

        table.begin_write(deleted)
        if not self._journal.append_batches(tombstones, apply, on_done):
            table.end_write(deleted)
            self._drop_idle(group_id)

    def _table(self, group_id: str) -> OffsetTable:
        table = self._tables.get(group_id)
        if table is None:
            table = self._tables[group_id] = OffsetTable()
        return table

    def _drop_idle(self, group_id: str) -> None:
        table = self._tables.get(group_id)
        if table is not None and table.is_idle:
            del self._tables[group_id]
