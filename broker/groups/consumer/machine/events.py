"""The events, answers and the context of steps of a consumer group's machine."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Protocol

from sordini.broker.groups.consumer.machine.assignors.group import Group as AssignorInput
from sordini.broker.groups.consumer.machine.changes import Change
from sordini.broker.groups.consumer.machine.state import (
    NO_IDS,
    ClassicProtocol,
    ConsumerGroup,
    ConsumerMember,
    Partitions,
    ResolvedRegex,
)
from sordini.broker.groups.machine.rebalance_cause import RebalanceCause
from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import TopicId
from sordini.system.named_tuple import NamedTuple


class ConsumerLimits(NamedTuple):
    """The configuration of one group, and of all."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000
    members_max: int = 2**31 - 1
    regex_refresh_interval_ms: int = 600_000
    assignors: tuple[str, ...] = ("uniform", "range")
    """Those that members may name; the first is the default."""
    classic_session_ms_min: int = 6_000
    classic_session_ms_max: int = 1_800_000
    allows_upgrade: bool = True
    """Whether a classic group becomes a consumer group when a member of the new protocol joins."""
    allows_downgrade: bool = True
    """Whether a group becomes classic when its last member of the new protocol leaves."""


class Now(NamedTuple):
    """The time of an event on both clocks."""

    monotonic_ms: int
    wall_ms: int


class Topic(NamedTuple):
    """A topic that exists."""

    topic_id: TopicId
    partitions: int


class Topics(Protocol):
    """What the machine sees of the cluster's topics."""

    @property
    def version(self) -> int:
        """Another one after every change of topics; not negative."""

    def get(self, name: str) -> Topic | None:
        """A topic by its name."""

    def id_of(self, name: str) -> TopicId | None:
        """Its id, None if it does not exist."""

    def hash_of(self, name: str) -> int | None:
        """Its hash (`topic_hashes.topic_hash`), None if it does not exist."""

    def name_of(self, topic_id: TopicId) -> str | None:
        """A topic's name by its id."""


class Assign(Protocol):
    """Computes a target, if that takes no long time.

    None: it is computed beside the loop's other work, and a `TargetComputed` follows.
    """

    def __call__(
        self, group_id: str, epoch: int, assignor: str, group: AssignorInput
    ) -> Mapping[str, Partitions] | None: ...


class StepContext(NamedTuple):
    """What a step sees besides the group and the event."""

    now: Now
    settings: ConsumerLimits
    topics: Topics
    assign: Assign


# Events.


class ConsumerHeartbeat(NamedTuple):
    """ConsumerGroupHeartbeat of a member that joins, stays or leaves. None: not changed since the last one."""

    member_id: str
    member_epoch: int
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout_ms: int
    """-1: not changed."""
    subscribed_topics: frozenset[str] | None
    subscribed_regex: str | None
    """"" ends the subscription by a regular expression."""
    server_assignor: str | None
    owned: Partitions | None
    client_id: str
    client_host: str

    @property
    def is_full(self) -> bool:
        """Whether the member says everything, as after an error: then it is sent its whole assignment."""
        has_subscription = self.subscribed_topics is not None or self.subscribed_regex is not None
        return has_subscription and self.owned is not None and self.rebalance_timeout_ms != -1


class ClassicJoin(NamedTuple):
    """JoinGroup of a member of a consumer group."""

    member_id: str
    """"" for a new member."""
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: tuple[ClassicProtocol, ...]
    new_member_id: str
    requires_known_member_id: bool


class ClassicSync(NamedTuple):
    """SyncGroup of a member of a consumer group."""

    member_id: str
    instance_id: str | None
    generation_id: int
    protocol_type: str | None
    protocol_name: str | None


class ClassicHeartbeat(NamedTuple):
    """Heartbeat of a member of a consumer group that speaks the classic protocol."""

    member_id: str
    instance_id: str | None
    generation_id: int


class RemoveMembers(NamedTuple):
    """LeaveGroup of an administrator or of a member: ids, each with its instance id if there is one."""

    members: tuple[tuple[str, str | None], ...]
    client_id: str | None = None
    """Of the sender; None if it is not known."""


class TargetComputed(NamedTuple):
    """The result of an `Assign` that took long. The group may have a newer epoch by now."""

    epoch: int
    assignor: str
    targets: Mapping[str, Partitions]
    static_ids: Mapping[str, str] = NO_IDS
    """Instance id -> member id as it began: a static member may have another id by now."""


class RegexesResolved(NamedTuple):
    """What regular expressions match."""

    topics: Mapping[str, ResolvedRegex]


class Tick(NamedTuple):
    """A deadline has passed, `late_ms` ago: a stall of the broker fences no member."""

    late_ms: int


ClassicRequest = ClassicJoin | ClassicSync | ClassicHeartbeat
Event = ConsumerHeartbeat | ClassicRequest | RemoveMembers | TargetComputed | RegexesResolved | Tick


# Answers and actions.


class HeartbeatAnswer(NamedTuple):
    """The answer to a heartbeat. `assignment` is all that the member may own; None: as it was told before."""

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int
    assignment: Partitions | None


class ClassicAnswer(NamedTuple):
    """The answer to a JoinGroup: the generation is the member's epoch. No member of such a group leads it."""

    error: ErrorCode
    member_id: str
    generation_id: int = -1
    protocol_name: str | None = None


class SyncedAnswer(NamedTuple):
    """The answer to a SyncGroup that is not refused."""

    protocol_name: str
    assignment: bytes


class Refusal(NamedTuple):
    """The request changed nothing."""

    code: ErrorCode
    message: str


class RemovalAnswer(NamedTuple):
    """One code for each member."""

    errors: tuple[ErrorCode, ...]


Answer = HeartbeatAnswer | ClassicAnswer | SyncedAnswer | Refusal | RemovalAnswer


class MemberFenced(NamedTuple):
    """For the log: a member was removed that has not left."""

    member_id: str
    instance_id: str | None
    reason: str


class EpochCause(NamedTuple):
    """Why the group epoch is raised."""

    cause: RebalanceCause
    reason: str
    """For the log."""
    members: tuple[ConsumerMember, ...] = ()
    """Whose doing it is."""
    detail: str = ""
    """What changed."""


class EpochRaised(NamedTuple):
    """For the log and the history: a new group epoch, and why."""

    epoch: int
    cause: EpochCause


class TargetAssigned(NamedTuple):
    """For the log and the history: a new target."""

    epoch: int
    assignor: str
    members: int


class ResolveRegexes(NamedTuple):
    """Find the topics of these regular expressions; `RegexesResolved` follows."""

    regexes: frozenset[str]


Action = MemberFenced | EpochRaised | TargetAssigned | ResolveRegexes


class ClassicState(Enum):
    """The state of a classic group that begins with the members of a consumer group."""

    STABLE = "stable"
    REBALANCING = "rebalancing"
    """The members have to join again."""


class Step(NamedTuple):
    """The group after an event. The answer is sent when the changes are committed."""

    group: ConsumerGroup
    changes: tuple[Change, ...] = ()
    answer: Answer | None = None
    actions: tuple[Action, ...] = ()
    becomes_classic: ClassicState | None = None
    """The members of the group are those of a classic group from now on."""
