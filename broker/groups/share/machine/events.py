"""Events, answers and context of the steps of a share group's machine; heartbeats are answered as consumers' are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from sordini.broker.groups.consumer.machine.events import (
    HeartbeatAnswer,
    MemberFenced,
    Now,
    Refusal,
    TargetAssigned,
    TargetComputed,
    Tick,
    Topics,
)
from sordini.broker.groups.machine.rebalance_cause import RebalanceCause
from sordini.broker.groups.share.machine.changes import Change
from sordini.broker.groups.share.machine.simple_assignor import AssignableGroup
from sordini.broker.groups.share.machine.state import Partitions, ShareGroup, ShareMember
from sordini.protocol.types import Offset, TopicId
from sordini.system.named_tuple import NamedTuple


class ShareGroupTimings(NamedTuple):
    """The configuration of one group, as far as its membership needs it."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000
    members_max: int = 200
    initialize_retry_ms: int = 30_000


class Assign(Protocol):
    """Computes a target, if that takes no long time.

    None: it is computed beside the loop's other work, and a `TargetComputed` follows.
    """

    def __call__(self, group_id: str, epoch: int, group: AssignableGroup) -> Mapping[str, Partitions] | None: ...


class StepContext(NamedTuple):
    """What a step sees besides the group and the event."""

    now: Now
    settings: ShareGroupTimings
    topics: Topics
    assign: Assign


# Events.


class ShareHeartbeat(NamedTuple):
    """ShareGroupHeartbeat of a member that joins, stays or leaves. None: not changed since the last one."""

    member_id: str
    member_epoch: int
    rack_id: str | None
    subscribed_topics: frozenset[str] | None
    client_id: str
    client_host: str


class StatesInitialized(NamedTuple):
    """The share coordinator has the states of these partitions."""

    partitions: Partitions


class StatesNotInitialized(NamedTuple):
    """It has not: a later heartbeat tries again."""

    partitions: Partitions


class SetOffsets(NamedTuple):
    """An administrator sets start offsets, of a group without members. The topics exist."""

    offsets: Mapping[TopicId, Mapping[int, Offset]]


class DeleteOffsets(NamedTuple):
    """An administrator deletes the states of topics, of a group without members. The topics exist."""

    topic_ids: tuple[TopicId, ...]


class OffsetsDeleted(NamedTuple):
    """The share coordinator has no states of these topics any more."""

    topic_ids: frozenset[TopicId]


class TopicsDeleted(NamedTuple):
    """Topics were deleted from the cluster; their states are deleted by the share coordinator itself."""

    topic_ids: frozenset[TopicId]


class BeginRemoval(NamedTuple):
    """An administrator deletes the group, which has no members: first all of its states are deleted."""


Event = (
    ShareHeartbeat
    | StatesInitialized
    | StatesNotInitialized
    | SetOffsets
    | DeleteOffsets
    | OffsetsDeleted
    | TopicsDeleted
    | BeginRemoval
    | TargetComputed
    | Tick
)


# Answers and actions.


class StatesAnswer(NamedTuple):
    """What is to be requested of the share coordinator, when the step is committed."""

    state_epoch: int
    partitions: Partitions


Answer = HeartbeatAnswer | Refusal | StatesAnswer


class EpochCause(NamedTuple):
    """Why the group epoch is raised."""

    cause: RebalanceCause
    reason: str
    """For the log."""
    member: ShareMember | None = None
    """Whose doing it is."""
    detail: str = ""
    """What changed."""


class EpochRaised(NamedTuple):
    """For the log and the history: a new group epoch, and why."""

    epoch: int
    cause: EpochCause


class InitializeStates(NamedTuple):
    """Initialize states, when the step is committed; `StatesInitialized` or `StatesNotInitialized` follows.

    Partitions that a known topic has got since begin at its first record, others where the group's setting says.
    """

    state_epoch: int
    starts: Mapping[TopicId, Offset | None]
    partitions: Partitions


Action = MemberFenced | EpochRaised | TargetAssigned | InitializeStates


class Step(NamedTuple):
    """The group after an event. The answer is sent, and states are initialized, when the changes are committed."""

    group: ShareGroup
    changes: tuple[Change, ...] = ()
    answer: Answer | None = None
    actions: tuple[Action, ...] = ()
