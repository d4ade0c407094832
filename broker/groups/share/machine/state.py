"""The values of a share group (KIP-932).

The epochs are those of a consumer group: *group epoch*, *assignment epoch*, *member epoch*. Partitions have no owner: a
member has the target of its epoch at once. A partition is assigned once its state is initialized. Frozen and
comparable; pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final

from sordini.broker.groups.consumer.machine.state import FIRST_EPOCH, NEVER_CHECKED, GracePeriod
from sordini.protocol.types import TopicId
from sordini.system.named_tuple import NamedTuple

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
NO_EPOCH: Final = -1
"""Of a member before it has a former epoch."""

Partitions = Mapping[TopicId, frozenset[int]]
"""Partitions by topic. A topic may have an empty set, as in Apache Kafka's records: all of it was taken away."""
NO_PARTITIONS: Final[Partitions] = MappingProxyType({})


class ShareGroupState(Enum):
    """The state of a group; the value is its name in ShareGroupDescribe."""

    EMPTY = "Empty"
    STABLE = "Stable"


class ShareMember(NamedTuple):
    """One member: what it said of itself, and what it has."""

    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topics: frozenset[str] = frozenset()
    epoch: int = JOIN_EPOCH
    previous_epoch: int = NO_EPOCH
    assigned: Partitions = NO_PARTITIONS


class StateTopic(NamedTuple):
    """Partitions of one topic whose states are initialized, or are being initialized."""

    name: str
    partitions: frozenset[int]


StateTopics = Mapping[TopicId, StateTopic]
NO_TOPICS: Final[StateTopics] = MappingProxyType({})


class PartitionStates(NamedTuple):
    """How far the share coordinator has states of the partitions that the group reads."""

    initializing: StateTopics = NO_TOPICS
    initialized: StateTopics = NO_TOPICS
    deleting: Mapping[TopicId, str] = MappingProxyType({})
    """Topics whose states are being deleted, with their names."""


NO_MEMBERS: Final[MappingProxyType[str, ShareMember]] = MappingProxyType({})
NO_TARGETS: Final[MappingProxyType[str, Partitions]] = MappingProxyType({})
NO_SESSIONS: Final[dict[str, int]] = {}
"""Never changed: without members there are no heartbeats."""


class ShareGroup(NamedTuple):
    """One group. Deadlines are of the monotonic clock; they are lost with the leadership of the partition."""

    group_id: str
    epoch: int = FIRST_EPOCH
    metadata_hash: int = 0
    """Of the subscribed topics that exist, when the group epoch was raised last."""
    assignment_epoch: int = FIRST_EPOCH
    assigned_ms: int = 0
    """When the target was computed (wall clock)."""
    members: MappingProxyType[str, ShareMember] = NO_MEMBERS
    targets: MappingProxyType[str, Partitions] = NO_TARGETS
    """The target assignment, by member id."""
    states: PartitionStates | None = None
    """None: no partition has ever been read."""
    session_deadlines_ms: dict[str, int] = NO_SESSIONS
    """The one thing that is changed in place, as in a consumer group."""
    due_ms: int | None = None
    """A lower bound of all deadlines."""
    topics_version: int = NEVER_CHECKED
    """The version of the cluster's topics that the metadata hash was compared with."""
    states_ms: int = 0
    """When `states` changed last (wall clock); what has been initializing for long is initialized again."""
    grace: GracePeriod | None = None
    is_target_under_way: bool = False
    """A target is being computed beside the loop's other work."""

    @property
    def state(self) -> ShareGroupState:
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY
