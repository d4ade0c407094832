"""The committed offsets of one group, and the commits of them that are not decided yet.

Which of them have expired is decided in `offset_expiry.py`. An offset with a pending commit does not expire: its
tombstone would follow the new value in the log. Neither does one that an open transaction commits, too.
"""

from __future__ import annotations

from collections.abc import Container, ItemsView, Iterable, Mapping

from sordini.broker.coordinators.open_transactions import OpenTransactions
from sordini.broker.groups.machine.offset_expiry import expired_offsets, unkept_offsets
from sordini.broker.groups.machine.state import CommittedOffset, Group
from sordini.protocol.types import TopicPartition

OFFSET_BYTES = 400
"""One committed offset in memory, without its topic's name and its metadata."""


class OffsetTable:
    """One group's offsets. A commit is pending from `begin_write` to `end_write`; `commit` makes it visible.

    `open` has the offsets of transactions without a marker, which no reader sees.
    """

    __slots__ = ("_offsets", "_pending_commits", "held_bytes", "open")

    def __init__(self) -> None:
        self.held_bytes = 0
        """The size of the offsets in memory, rounded up."""
        self._offsets: dict[TopicPartition, CommittedOffset] = {}
        self._pending_commits: dict[TopicPartition, int] = {}
        self.open: OpenTransactions[TopicPartition, CommittedOffset] = OpenTransactions(open_cost)

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def is_idle(self) -> bool:
        """Whether there are no offsets, no pending commits and no open transactions."""
        return not self._offsets and not self._pending_commits and not self.open

    def get(self, topic_partition: TopicPartition) -> CommittedOffset | None:
        return self._offsets.get(topic_partition)

    def items(self) -> ItemsView[TopicPartition, CommittedOffset]:
        return self._offsets.items()

    def partitions(self) -> list[TopicPartition]:
        """Those with a committed offset, a pending commit or an offset of an open transaction."""
        return list(dict.fromkeys([*self._offsets, *self._pending_commits, *self.open.keys()]))

    def is_unstable(self, topic_partition: TopicPartition) -> bool:
        """Whether an open transaction commits an offset of the partition (KIP-447)."""
        return topic_partition in self.open

    def begin_write(self, partitions: Iterable[TopicPartition]) -> None:
        counts = self._pending_commits
        for topic_partition in partitions:
            counts[topic_partition] = counts.get(topic_partition, 0) + 1

    def end_write(self, partitions: Iterable[TopicPartition]) -> None:
        """A commit was written, or the write failed."""
        counts = self._pending_commits
        for topic_partition in partitions:
            left = counts.pop(topic_partition) - 1
            if left:
                counts[topic_partition] = left

    def added_bytes(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> int:
        """Bytes by which a commit would add to the table."""
        known = self._offsets
        return sum(
            _cost(partition, committed) - (0 if (before := known.get(partition)) is None else _cost(partition, before))
            for partition, committed in offsets.items()
        )

    def adds_partitions(self, offsets: Iterable[TopicPartition]) -> bool:
        """Whether one of these partitions has no committed offset yet."""
        return not self._offsets.keys() >= set(offsets)

    def commit(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        self.held_bytes += self.added_bytes(offsets)
        self._offsets.update(offsets)

    def delete(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Delete offsets; the partitions that had one."""
        gone = []
        for topic_partition in partitions:
            committed = self._offsets.pop(topic_partition, None)
            if committed is not None:
                self.held_bytes -= _cost(topic_partition, committed)
                gone.append(topic_partition)
        return gone

    def expired(self, group: Group, now_wall_ms: int, retention_ms: int) -> list[TopicPartition]:
        """The partitions whose offsets have expired."""
        return self._without_open(expired_offsets(self._offsets.items(), group, now_wall_ms, retention_ms))

    def expired_besides(self, topics: Container[str], now_wall_ms: int, retention_ms: int) -> list[TopicPartition]:
        """The partitions of other topics whose offsets have expired, counted from the commit."""
        return self._without_open(unkept_offsets(self._offsets.items(), topics, now_wall_ms, retention_ms))

    def _without_open(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Those of the partitions without a pending commit or an open transaction."""
        return [
            topic_partition
            for topic_partition in partitions
            if topic_partition not in self._pending_commits and topic_partition not in self.open
        ]


def open_cost(topic_partition: TopicPartition, committed: CommittedOffset | None) -> int:
    """Bytes of one offset of a transaction, rounded up; None is a superseded one."""
    cost = OFFSET_BYTES + topic_partition.topic.__sizeof__()
    return cost if committed is None else cost + committed.metadata.__sizeof__()


def _cost(topic_partition: TopicPartition, committed: CommittedOffset) -> int:
    return OFFSET_BYTES + topic_partition.topic.__sizeof__() + committed.metadata.__sizeof__()
