"""Which committed offsets of a group have expired (KIP-211), and when their retention starts:

    empty group that had members   all offsets, from when the last member left
    stable consumers               of topics that no member subscribes to any more, each from its commit
    never any members (simple)     all offsets, each from its commit
    anything else                  none
    consumer group (KIP-848)       of topics that no member subscribes to, each from its commit

An offset with an expiry time of its own, from an old client, expires at that time.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator

from sordini.broker.groups.machine.state import CommittedOffset, Group, GroupState
from sordini.broker.groups.machine.subscriptions import subscribed_topics
from sordini.protocol.types import TopicPartition


def expired_offsets(
    offsets: Iterable[tuple[TopicPartition, CommittedOffset]], group: Group, now_wall_ms: int, retention_ms: int
) -> Iterator[TopicPartition]:
    """The partitions whose offsets have expired."""
    rule = _expiry_rule(group)
    if rule is not None:
        kept_topics, begins_ms = rule
        yield from unkept_offsets(offsets, kept_topics, now_wall_ms, retention_ms, begins_ms)


def unkept_offsets(
    offsets: Iterable[tuple[TopicPartition, CommittedOffset]],
    kept_topics: Container[str],
    now_wall_ms: int,
    retention_ms: int,
    begins_ms: Callable[[CommittedOffset], int] | None = None,
) -> Iterator[TopicPartition]:
    """The partitions of other topics whose offsets have expired; their retention begins with the commit by default."""
    begins_ms = begins_ms or _commit_time_ms
    for topic_partition, committed in offsets:
        if topic_partition.topic in kept_topics:
            continue
        if _expires_ms(committed, begins_ms, retention_ms) <= now_wall_ms:
            yield topic_partition


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
