"""The committed offsets of one group, and when they are forgotten (KIP-211).

What counts from when depends on who uses the group:

    no members, but it had some    all offsets, from when the last member left
    stable consumers               of topics that no member subscribes to any more, each from its commit
    never any members (simple)     all offsets, each from its commit
    anything else                  none

An offset that an old client gave an expiry of its own keeps to that instead. One that is just being committed again is
left alone: its tombstone would come behind the new value in the log.
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterable, Mapping

from sordini.broker.groups.machine.state import CommittedOffset, Group, GroupState
from sordini.protocol.errors import WireError
from sordini.protocol.primitives import Array, NullableBytes, String
from sordini.protocol.schema import EMPTY, NEVER, decode, message
from sordini.protocol.types import TopicPartition

CONSUMER_PROTOCOL = "consumer"
"""The protocol type of consumers; only their metadata can be read here."""

OFFSET_BYTES = 400
"""One committed offset in memory, besides its topic's name and its note."""

_VERSION_SIZE = 2


@message(versions=range(1), flexible=NEVER)
class _Subscription:
    """What a consumer says of itself; later versions only add to this."""

    topics: Array[String] = EMPTY
    user_data: NullableBytes = None


class OffsetTable:
    """One group's offsets. `begin` and `end` frame the writing of a commit, `commit` says that it counts."""

    __slots__ = ("_being_written", "_offsets", "held_bytes")

    def __init__(self) -> None:
        self.held_bytes = 0
        """What the offsets cost in memory, rounded up."""
        self._offsets: dict[TopicPartition, CommittedOffset] = {}
        self._being_written: dict[TopicPartition, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing, and nothing on its way."""
        return not self._offsets and not self._being_written

    def get(self, topic_partition: TopicPartition) -> CommittedOffset | None:
        return self._offsets.get(topic_partition)

    def items(self) -> ItemsView[TopicPartition, CommittedOffset]:
        return self._offsets.items()

    def known(self) -> list[TopicPartition]:
        """Those that are here, and those on their way."""
        return list(dict.fromkeys([*self._offsets, *self._being_written]))

    def begin(self, partitions: Iterable[TopicPartition]) -> None:
        counts = self._being_written
        for topic_partition in partitions:
            counts[topic_partition] = counts.get(topic_partition, 0) + 1

    def end(self, partitions: Iterable[TopicPartition]) -> None:
        """A commit was written, or could not be."""
        counts = self._being_written
        for topic_partition in partitions:
            left = counts.pop(topic_partition) - 1
            if left:
                counts[topic_partition] = left

    def growth(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> int:
        """Bytes by which a commit would add to the table."""
        known = self._offsets
        return sum(
            _cost(partition, committed) - (0 if (before := known.get(partition)) is None else _cost(partition, before))
            for partition, committed in offsets.items()
        )

    def adds(self, offsets: Iterable[TopicPartition]) -> bool:
        """Whether any of them has not been committed before."""
        return not self._offsets.keys() >= set(offsets)

    def commit(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        self.held_bytes += self.growth(offsets)
        self._offsets.update(offsets)

    def delete(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Forget offsets; the ones that there were."""
        gone = []
        for topic_partition in partitions:
            committed = self._offsets.pop(topic_partition, None)
            if committed is not None:
                self.held_bytes -= _cost(topic_partition, committed)
                gone.append(topic_partition)
        return gone

    def expired(self, group: Group, now_wall_ms: int, retention_ms: int) -> list[TopicPartition]:
        """Whose time is up."""
        rule = _rule(group)
        if rule is None:
            return []
        kept_topics, begins_ms = rule
        return [
            topic_partition
            for topic_partition, committed in self._offsets.items()
            if topic_partition.topic not in kept_topics
            and topic_partition not in self._being_written
            and _ends_ms(committed, begins_ms, retention_ms) <= now_wall_ms
        ]


def _cost(topic_partition: TopicPartition, committed: CommittedOffset) -> int:
    return OFFSET_BYTES + topic_partition.topic.__sizeof__() + committed.metadata.__sizeof__()


def _ends_ms(committed: CommittedOffset, begins_ms: Callable[[CommittedOffset], int], retention_ms: int) -> int:
    return begins_ms(committed) + retention_ms if committed.expires_ms is None else committed.expires_ms


def _rule(group: Group) -> tuple[frozenset[str], Callable[[CommittedOffset], int]] | None:
    """The topics whose offsets stay, and when the time of the others begins; None if all stay."""
    nothing_kept = frozenset[str]()
    if group.protocol_type is None:
        return nothing_kept, _when_committed
    if group.state is GroupState.EMPTY:
        since_ms = group.state_since_ms
        # Records of old do not say since when the group is empty.
        return nothing_kept, _when_committed if since_ms < 0 else lambda _: since_ms
    if group.state is GroupState.STABLE:
        topics = subscribed_topics(group)
        return None if topics is None else (topics, _when_committed)
    return None


def _when_committed(committed: CommittedOffset) -> int:
    return committed.committed_ms


def subscribed_topics(group: Group) -> frozenset[str] | None:
    """What the members consume; None when that cannot be known: they are no consumers, or speak in riddles."""
    if group.protocol_type != CONSUMER_PROTOCOL:
        return None
    if not group.members:
        return frozenset()
    if group.protocol_name is None:
        return None
    topics = set[str]()
    for member in group.members.values():
        subscription = _topics(member.metadata(group.protocol_name))
        if subscription is None:
            return None
        topics.update(subscription)
    return frozenset(topics)


def is_subscribed(group: Group, topic: str) -> bool:
    """Whether a topic's offsets are in use; where that cannot be known, they are."""
    topics = subscribed_topics(group)
    return topics is None or topic in topics


def _topics(metadata: bytes) -> list[str] | None:
    if len(metadata) < _VERSION_SIZE or metadata[0] > 0x7F:  # A version below 0 is none.
        return None
    try:
        return decode(_Subscription, 0, memoryview(metadata), _VERSION_SIZE)[0].topics
    except WireError:
        return None
