"""The committed offsets of one group, and their expiry (KIP-211).

Which offsets expire, and when their retention starts:

    empty group that had members   all offsets, from when the last member left
    stable consumers               of topics that no member subscribes to any more, each from its commit
    never any members (simple)     all offsets, each from its commit
    anything else                  none

An offset with an expiry time of its own, from an old client, expires at that time. An offset with a pending commit does
not expire: its tombstone would follow the new value in the log. Neither does one that an open transaction commits, too.
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterable, Mapping

from sordini.broker.coordinators.open_transactions import OpenTransactions
from sordini.broker.groups.machine.state import CommittedOffset, Group, GroupState
from sordini.protocol.errors import WireError
from sordini.protocol.primitives import Array, NullableBytes, String
from sordini.protocol.schema import EMPTY, NEVER, decode, message
from sordini.protocol.types import TopicPartition

CONSUMER_PROTOCOL = "consumer"
"""The protocol type of consumers; only their metadata can be read here."""

OFFSET_BYTES = 400
"""One committed offset in memory, without its topic's name and its metadata."""

_VERSION_SIZE = 2


@message(versions=range(1), flexible=NEVER)
class _Subscription:
    """A consumer's metadata; later versions only add fields."""

    topics: Array[String] = EMPTY
    user_data: NullableBytes = None


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
        rule = _expiry_rule(group)
        if rule is None:
            return []
        kept_topics, begins_ms = rule
        return [
            topic_partition
            for topic_partition, committed in self._offsets.items()
            if topic_partition.topic not in kept_topics
            and topic_partition not in self._pending_commits
            and topic_partition not in self.open
            and _expires_ms(committed, begins_ms, retention_ms) <= now_wall_ms
        ]


def open_cost(topic_partition: TopicPartition, committed: CommittedOffset | None) -> int:
    """Bytes of one offset of a transaction, rounded up; None is a superseded one."""
    cost = OFFSET_BYTES + topic_partition.topic.__sizeof__()
    return cost if committed is None else cost + committed.metadata.__sizeof__()


def _cost(topic_partition: TopicPartition, committed: CommittedOffset) -> int:
    return OFFSET_BYTES + topic_partition.topic.__sizeof__() + committed.metadata.__sizeof__()


def _expires_ms(committed: CommittedOffset, begins_ms: Callable[[CommittedOffset], int], retention_ms: int) -> int:
    return begins_ms(committed) + retention_ms if committed.expires_ms is None else committed.expires_ms


def _expiry_rule(group: Group) -> tuple[frozenset[str], Callable[[CommittedOffset], int]] | None:
    """The topics whose offsets stay, and when the retention of the others starts; None if all stay."""
    nothing_kept = frozenset[str]()
    if group.protocol_type is None:
        return nothing_kept, _commit_time_ms
    if group.state is GroupState.EMPTY:
        since_ms = group.state_since_ms
        # Old record versions lack the time at which the group became empty.
        return nothing_kept, _commit_time_ms if since_ms < 0 else lambda _: since_ms
    if group.state is GroupState.STABLE:
        topics = subscribed_topics(group)
        return None if topics is None else (topics, _commit_time_ms)
    return None


def _commit_time_ms(committed: CommittedOffset) -> int:
    return committed.committed_ms


def subscribed_topics(group: Group) -> frozenset[str] | None:
    """The topics that the members subscribe to; None if unknown: no consumers, or invalid metadata."""
    if group.protocol_type != CONSUMER_PROTOCOL:
        return None
    if not group.members:
        return frozenset()
    if group.protocol_name is None:
        return None
    topics = set[str]()
    for member in group.members.values():
        subscription = subscription_topics(member.metadata(group.protocol_name))
        if subscription is None:
            return None
        topics.update(subscription)
    return frozenset(topics)


def is_subscribed(group: Group, topic: str) -> bool:
    """Whether a member subscribes to the topic; true if unknown."""
    topics = subscribed_topics(group)
    return topics is None or topic in topics


def subscription_topics(metadata: bytes) -> list[str] | None:
    """The topics in a consumer's metadata; None if it is not a consumer's."""
    if len(metadata) < _VERSION_SIZE or metadata[0] > 0x7F:  # A version below 0 is invalid.
        return None
    try:
        return decode(_Subscription, 0, memoryview(metadata), _VERSION_SIZE)[0].topics
    except WireError:
        return None
