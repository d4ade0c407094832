"""Why a group rebalances: the cause and its member, as it is in the history (`rebalance_history.py`)."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from sordini.broker.groups.machine.state import Member, Protocol
from sordini.protocol.consumer_subscription import CONSUMER_PROTOCOL, read_subscribed_topics
from sordini.system.named_tuple import NamedTuple

METADATA_BYTES_MAX: Final = 16 * 1024
"""Longer metadata is not compared by its topics: a join must not cost what its sender likes."""
TOPICS_NAMED_MAX: Final = 5


class RebalanceCause(IntEnum):
    """The numbers are those of DescribeGroupHistory: they stay as they are."""

    UNKNOWN = 0
    MEMBER_JOINED = 1
    MEMBER_LEFT = 2
    SESSION_TIMEOUT = 3
    """No heartbeat within `session.timeout.ms`."""
    REBALANCE_TIMEOUT = 4
    """A member did not join again in time: its application did not poll for `max.poll.interval.ms`."""
    SYNC_TIMEOUT = 5
    """A member joined and did not fetch its assignment in time."""
    SUBSCRIPTION_CHANGED = 6
    METADATA_CHANGED = 7
    """Other metadata for the same topics: of a cooperative assignor the partitions that a member gave up."""
    LEADER_REJOINED = 8
    """The leader requested it, as it does when topics have changed."""
    STATIC_MEMBER_REPLACED = 9
    REMOVED_BY_ADMIN = 10
    PARTITIONS_ADDED = 11
    """The leader requested it, and assigned partitions that the group did not have before."""
    ASSIGNMENT_NOT_WRITTEN = 12
    """The coordinator could not write the leader's assignment to its log."""
    GROUP_TOO_LARGE = 13
    """The group has more members than `group.max.size`."""
    TOPICS_CHANGED = 14
    """Topics to which a consumer or share group subscribes were created, deleted, or got partitions."""
    REGEX_RESOLVED = 15
    """A regular expression of a consumer group matches other topics than before."""
    ASSIGNOR_CHANGED = 16
    """A member of a consumer group names another assignor."""
    PROTOCOL_CHANGED = 17
    """A classic group has become a consumer group, or the other way round."""
    REVOCATION_TIMEOUT = 18
    """A member of a consumer group did not release partitions within its rebalance timeout."""
    GROUP_LOADED = 19
    """A consumer or share group was loaded by a new coordinator while its members were on their way to a target."""
    STATES_INITIALIZED = 20
    """The states of partitions of a share group are initialized: they can be assigned."""


class RebalanceCaused(NamedTuple):
    """For the history: a rebalance starts, or this is added to the one in progress."""

    cause: RebalanceCause
    member: Member | None
    detail: str


def rejoin_cause(
    member: Member, protocols: tuple[Protocol, ...], protocol_type: str | None, *, is_leader: bool
) -> tuple[RebalanceCause, str]:
    """Why the join of a member of the group starts a rebalance, and the topics that changed; `member` is as before."""
    if member.protocols != protocols:
        changed = _changed_topics(member.protocols, protocols) if protocol_type == CONSUMER_PROTOCOL else ""
        if changed:
            return RebalanceCause.SUBSCRIPTION_CHANGED, changed
    if is_leader:
        return RebalanceCause.LEADER_REJOINED, ""
    return RebalanceCause.METADATA_CHANGED, ""


def _changed_topics(before: tuple[Protocol, ...], after: tuple[Protocol, ...]) -> str:
    """`+orders -bills`; empty if the topics are the same, or are not known."""
    # A consumer subscribes to the same topics with each of its protocols.
    old, new = _topics(before), _topics(after)
    if old is None or new is None:
        return ""
    return named_changes(old, new)


def named_changes(old: frozenset[str], new: frozenset[str]) -> str:
    """`+orders -bills`; empty if the topics are the same."""
    changes = [f"+{topic}" for topic in sorted(new - old)] + [f"-{topic}" for topic in sorted(old - new)]
    named = " ".join(changes[:TOPICS_NAMED_MAX])
    return named if len(changes) <= TOPICS_NAMED_MAX else f"{named} and {len(changes) - TOPICS_NAMED_MAX} more"


def _topics(protocols: tuple[Protocol, ...]) -> frozenset[str] | None:
    if not protocols or len(protocols[0].metadata) > METADATA_BYTES_MAX:
        return None
    topics = read_subscribed_topics(protocols[0].metadata)
    return None if topics is None else frozenset(topics)
