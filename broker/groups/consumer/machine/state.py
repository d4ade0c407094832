"""The values of a consumer group (KIP-848).

Three epochs: the *group epoch* is raised when membership, a subscription or the subscribed topics change; the
*assignment epoch* is the group epoch at which the target assignment was computed; the *member epoch* is the assignment
epoch that a member has reached. Frozen and comparable; pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, IntEnum
from types import MappingProxyType
from typing import Final

from sordini.protocol.types import TopicId
from sordini.system.named_tuple import NamedTuple

JOIN_EPOCH: Final = 0
"""In a request: the member joins, or joins again."""
FIRST_EPOCH: Final = 1
"""Of a group before its first subscription, for which no record has it; members never have epoch 0."""
LEAVE_EPOCH: Final = -1
STATIC_LEAVE_EPOCH: Final = -2
"""A static member has left for a while; its partitions stay its own until its session ends."""
NO_TIMEOUT: Final = -1

Partitions = Mapping[TopicId, frozenset[int]]
"""Partitions by topic; no topic has an empty set."""
Owned = Mapping[TopicId, Mapping[int, int]]
"""Partitions by topic, each with the member epoch at which it was assigned to the member (KIP-1251)."""

NO_PARTITIONS: Final[Partitions] = MappingProxyType({})
NOTHING_OWNED: Final[Owned] = MappingProxyType({})


class MemberState(IntEnum):
    """Where a member is on its way to its target. The numbers are those of the records."""

    STABLE = 0
    """It has its target."""
    UNREVOKED_PARTITIONS = 1
    """It has to give partitions up first."""
    UNRELEASED_PARTITIONS = 2
    """It has reached its target's epoch, and waits for partitions that others have not given up yet."""
    UNKNOWN = 127
    """Of a newer release."""


class ConsumerGroupState(Enum):
    """The state of a group; the value is its name in ConsumerGroupDescribe."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    """A target of the group epoch is yet to be computed."""
    RECONCILING = "Reconciling"
    """Members are on their way to the target."""
    STABLE = "Stable"
    DEAD = "Dead"


class ClassicProtocol(NamedTuple):
    """An assignment strategy of a member that speaks the classic protocol, with its metadata."""

    name: str
    metadata: bytes


class ClassicMember(NamedTuple):
    """What is known of a member that speaks the classic protocol."""

    session_timeout_ms: int
    protocols: tuple[ClassicProtocol, ...]


class ConsumerMember(NamedTuple):
    """One member: what it said of itself, and what it owns."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topics: frozenset[str] = frozenset()
    subscribed_regex: str | None = None
    rebalance_timeout_ms: int = NO_TIMEOUT
    server_assignor: str | None = None
    epoch: int = JOIN_EPOCH
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Owned = NOTHING_OWNED
    pending_revocation: Owned = NOTHING_OWNED
    """What the member still owns and must give up."""
    classic: ClassicMember | None = None


class ResolvedRegex(NamedTuple):
    """The topics that a regular expression matched."""

    topics: frozenset[str] = frozenset()
    version: int = 0
    """Of the cluster's metadata, as its writer counts."""
    resolved_ms: int = 0
    """Wall clock."""


class GracePeriod(NamedTuple):
    """After a stall: what was due by `covers_ms` is checked again at `ends_ms`, and not before."""

    covers_ms: int
    ends_ms: int


NO_MEMBERS: Final[MappingProxyType[str, ConsumerMember]] = MappingProxyType({})
NO_TARGETS: Final[MappingProxyType[str, Partitions]] = MappingProxyType({})
NO_OWNERS: Final[MappingProxyType[TopicId, Mapping[int, str]]] = MappingProxyType({})
NO_IDS: Final[MappingProxyType[str, str]] = MappingProxyType({})
NO_DEADLINES: Final[MappingProxyType[str, int]] = MappingProxyType({})
NO_SESSIONS: Final[dict[str, int]] = {}
"""Never changed: without members there are no heartbeats."""
NO_REGEXES: Final[MappingProxyType[str, ResolvedRegex]] = MappingProxyType({})
NEVER_CHECKED: Final = -1


class ConsumerGroup(NamedTuple):
    """One group. Deadlines are of the monotonic clock; they are lost with the leadership of the partition."""

    group_id: str
    epoch: int = FIRST_EPOCH
    metadata_hash: int = 0
    """Of the subscribed topics that exist, when the group epoch was raised last."""
    assignment_epoch: int = FIRST_EPOCH
    assigned_ms: int = 0
    """When the target was computed (wall clock)."""
    members: MappingProxyType[str, ConsumerMember] = NO_MEMBERS
    targets: MappingProxyType[str, Partitions] = NO_TARGETS
    """The target assignment, by member id."""
    regexes: MappingProxyType[str, ResolvedRegex] = NO_REGEXES
    """Those of the members that are resolved."""
    owners: MappingProxyType[TopicId, Mapping[int, str]] = NO_OWNERS
    """Who has each partition, assigned or not revoked yet."""
    static_member_ids: MappingProxyType[str, str] = NO_IDS
    """Instance id -> member id."""
    session_deadlines_ms: dict[str, int] = NO_SESSIONS
    """The one thing that is changed in place: a heartbeat that says nothing new changes nothing else, and a copy costs
    100 us with 1,000 members."""
    rebalance_deadlines_ms: MappingProxyType[str, int] = NO_DEADLINES
    """By when members have to report that they gave up what is to be revoked."""
    due_ms: int | None = None
    """A lower bound of all deadlines."""
    topics_version: int = NEVER_CHECKED
    """The version of the cluster's topics that the metadata hash was compared with."""
    grace: GracePeriod | None = None
    is_target_under_way: bool = False
    """A target is being computed beside the loop's other work."""
    resolving: frozenset[str] = frozenset()
    """Regular expressions that are being resolved."""
    regexes_due_ms: int = 0
    """When they are to be resolved again (monotonic)."""

    @property
    def state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        is_stable = all(is_reconciled(member, self.assignment_epoch) for member in self.members.values())
        return ConsumerGroupState.STABLE if is_stable else ConsumerGroupState.RECONCILING


def is_reconciled(member: ConsumerMember, assignment_epoch: int) -> bool:
    return member.state is MemberState.STABLE and member.epoch == assignment_epoch


def held_partitions(member: ConsumerMember) -> Partitions:
    """What a member owns, with what it has yet to give up."""
    held = {topic: frozenset(epochs) for topic, epochs in member.assigned.items()}
    for topic, epochs in member.pending_revocation.items():
        held[topic] = held.get(topic, frozenset()) | frozenset(epochs)
    return held


def partitions_of(owned: Owned) -> Partitions:
    """Without the epochs."""
    return {topic: frozenset(epochs) for topic, epochs in owned.items()}
