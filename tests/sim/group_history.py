"""What happened to the groups of a run, as their members and administrators saw it; part of the `History`.

Every commit carries a note that is given once, "<who>-<number>@<offset>": so an offset that is read names its commit.
"""

from __future__ import annotations

import dataclasses
from typing import Literal, NamedTuple

from sordini.protocol.types import TopicPartition

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
    joined: list[Joined] = dataclasses.field(default_factory=list)
    synced: list[Synced] = dataclasses.field(default_factory=list)
    left: list[Left] = dataclasses.field(default_factory=list)
    listed: list[Listed] = dataclasses.field(default_factory=list)
    expelled: list[Expelled] = dataclasses.field(default_factory=list)
    unanswered: list[Unanswered] = dataclasses.field(default_factory=list)
    pauses: list[Pause] = dataclasses.field(default_factory=list)
    disk_failures: list[Pause] = dataclasses.field(default_factory=list)
    """When commits could not be written, or not in every log directory."""
    strange: list[str] = dataclasses.field(default_factory=list)
    """Answers with codes that no member can get here."""
    refused: int = 0
    """Commits of the past that were refused, as they must be."""
    is_durable: bool = False
    """Every message of __consumer_offsets is flushed: what is answered survives a power loss."""
