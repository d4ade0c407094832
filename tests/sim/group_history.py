"""What happened to the groups of a run, as their members and administrators saw it; part of the `History`.

Every commit carries a note that is given once, "<who>-<number>@<offset>": so an offset that is read names its commit.
"""

from __future__ import annotations

import dataclasses
from typing import Literal, NamedTuple

from sordini.protocol.java_hash import partition_of, text_hash
from sordini.protocol.types import TopicPartition
from sordini.testing.simulation.simulated_network import Address
from tests.sim.static_members import StaticHistory

Outcome = Literal["ok", "info", "no", "later"]
"""Answered, not known, refused for a reason that excludes that it was carried out, or promised to happen in time."""
Key = tuple[str, TopicPartition]
"""A group and a partition: what has a committed offset."""
FOREVER = float("inf")


class Commit(NamedTuple):
    """One partition's offset commit. `generation_id` is -1 for a simple consumer."""

    group_id: str
    partition: TopicPartition
    note: str
    began: float
    ended: float
    outcome: Outcome
    member_id: str = ""
    generation_id: int = -1


class Forgetting(NamedTuple):
    """Offsets are deleted, all of a group where `partitions` is None, and with the last one the group may go."""

    group_id: str | None
    """None: of every group."""
    partitions: frozenset[TopicPartition] | None
    began: float
    ended: float
    outcome: Outcome
    latest: float = FOREVER
    """Until when it may take effect if `outcome` is not "ok"; until when it must if it is "later"."""

    def concerns(self, group_id: str) -> bool:
        return self.group_id is None or self.group_id == group_id


class ReportedState(NamedTuple):
    """An OffsetFetch's answer; None where nothing is committed."""

    group_id: str
    partition: TopicPartition
    note: str | None
    offset: int
    began: float
    ended: float
    member_id: str = ""
    """The member that goes on from there."""
    coordinator: Address = ("", 0)
    """The broker that answered."""
    is_checked: bool = False
    """The member's epoch was in the request."""


class Joined(NamedTuple):
    """A JoinGroup was answered. `identity` is the instance id of a static member, else the member id."""

    group_id: str
    generation_id: int
    identity: str
    leads: bool
    began: float
    ended: float
    led: int = -1
    """The generation that it had led until then, by the same member id."""


class Synced(NamedTuple):
    """A SyncGroup was answered; None for an assignment of no bytes, which no leader here gives."""

    group_id: str
    generation_id: int
    identity: str
    partitions: frozenset[TopicPartition] | None
    began: float
    ended: float


class Left(NamedTuple):
    """A member's LeaveGroup was answered."""

    group_id: str
    member_id: str
    ended: float


class Listed(NamedTuple):
    """The members, as the leader or an administrator sees them."""

    group_id: str
    member_ids: frozenset[str]
    began: float
    ended: float


class Expelled(NamedTuple):
    """A member got UNKNOWN_MEMBER_ID."""

    group_id: str
    member_id: str
    last_contact: float
    """The last time at which a request of it certainly arrived."""
    spoke: float
    """By when the request that was refused was in the broker's socket."""
    ended: float
    written: float
    """Since when a generation with this member is committed."""
    longest_silence_s: float = 0.0
    """The longest time between two attempts (requests or connections) since the last contact."""


class Unanswered(NamedTuple):
    """A member waited longer for an answer than any broker needs, on a connection that nothing was done to."""

    group_id: str
    what: str
    began: float
    ended: float


class Tenure(NamedTuple):
    """A member of a consumer group was given a partition."""

    group_id: str
    partition: TopicPartition
    member_id: str
    epoch: int
    began: float


class Missing(NamedTuple):
    """A member was answered GROUP_ID_NOT_FOUND."""

    group_id: str
    who: str
    ended: float


class Pause(NamedTuple):
    """A time in which the broker's process did not run, or could not do all of its work."""

    began: float
    ended: float


@dataclasses.dataclass(slots=True)
class GroupHistory:
    """Everything of one run that concerns groups, each list in the order of time."""

    commits: list[Commit] = dataclasses.field(default_factory=list)
    forgettings: list[Forgetting] = dataclasses.field(default_factory=list)
    reported: list[ReportedState] = dataclasses.field(default_factory=list)
    stale: list[ReportedState] = dataclasses.field(default_factory=list)
    """Those of coordinators that could not know that another one coordinates the groups."""
    joined: list[Joined] = dataclasses.field(default_factory=list)
    synced: list[Synced] = dataclasses.field(default_factory=list)
    left: list[Left] = dataclasses.field(default_factory=list)
    listed: list[Listed] = dataclasses.field(default_factory=list)
    expelled: list[Expelled] = dataclasses.field(default_factory=list)
    unanswered: list[Unanswered] = dataclasses.field(default_factory=list)
    pauses: list[Pause] = dataclasses.field(default_factory=list)
    disk_failures: list[Pause] = dataclasses.field(default_factory=list)
    """When commits could not be written, or not in every log directory."""
    consumer_groups: set[str] = dataclasses.field(default_factory=set)
    """Groups with members of the consumer protocol (KIP-848), also where others speak the classic one."""
    reading_groups: set[str] = dataclasses.field(default_factory=set)
    """Those groups whose members all read, and commit the offsets of what they have read."""
    unmixed_groups: set[str] = dataclasses.field(default_factory=set)
    """Those of the consumer groups in which no member speaks the classic protocol."""
    tenures: list[Tenure] = dataclasses.field(default_factory=list)
    consumed: dict[Key, set[int]] = dataclasses.field(default_factory=dict)
    """The offsets of the records that some member of a group was given."""
    session_s: float = 10.0
    static: StaticHistory = dataclasses.field(default_factory=StaticHistory)
    """What happened to static members of the consumer protocol."""
    fenced_members: int = 0
    """How often a member of the consumer protocol had to join again."""
    missing: list[Missing] = dataclasses.field(default_factory=list)
    empty_for_s: float = FOREVER
    """How long a group is certainly kept that has neither members nor offsets."""
    strange: list[str] = dataclasses.field(default_factory=list)
    """Answers with codes that no member can get here."""
    refused: int = 0
    """Commits of the past that were refused, as they must be."""
    is_durable: bool = False
    """Every message of __consumer_offsets is flushed: what is answered survives a power loss."""
    offsets_partitions: int = 1
    """How many partitions __consumer_offsets has."""
    to_load: frozenset[int] = frozenset()
    """The partitions of __consumer_offsets in which the running process found records when it started."""
    loaded: dict[int, float] = dataclasses.field(default_factory=dict)
    """Those that it has loaded, and when."""

    def may_be_loading(self, group_id: str, at: float) -> bool:
        """Whether the running process may still have been loading the group at that time."""
        index = partition_of(text_hash(group_id), self.offsets_partitions)
        return index in self.to_load and self.loaded.get(index, FOREVER) > at
