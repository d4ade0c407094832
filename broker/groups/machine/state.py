"""The values of a consumer group: its members, its state, and the part of it that is written to the log.

Frozen and comparable; the decisions are in `machine`. The persistent part is a `GroupValue`, the group's
record in __consumer_offsets. Everything else (pending requests, session deadlines, ids given out and not used yet) is
volatile: it is lost with the leadership of the partition.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import NewType

from sordini.system.named_tuple import NamedTuple

Caller = NewType("Caller", int)
"""The number of a pending request; the shell counts them from 1."""

NO_CALLER = Caller(0)
"""The caller of a request that the shell has not numbered yet."""


class GroupState(Enum):
    """The state of a group; the value is its name in DescribeGroups."""

    EMPTY = "Empty"
    """No members. The group may have offsets, which expire."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """Members have to join again; those that miss the deadline are removed."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """The generation has started, and waits for the leader's assignment."""
    STABLE = "Stable"
    """Every member has its assignment."""
    DEAD = "Dead"
    """Deleted, or unloaded from this broker."""


class Protocol(NamedTuple):
    """One assignment strategy that a member supports, with its metadata for it."""

    name: str
    metadata: bytes


class Member(NamedTuple):
    """One member. `awaiting_join` and `awaiting_sync` are its pending requests."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[Protocol, ...]
    assignment: bytes = b""
    awaiting_join: Caller | None = None
    awaiting_sync: Caller | None = None
    session_deadline_ms: int = 0
    """On the monotonic clock; not in force while a request of the member is pending, unless it `is_new`."""
    is_new: bool = False
    """Has not been in a generation yet: while its first join is pending, the limit is `NEW_MEMBER_TIMEOUT_MS`."""
    is_pending_sync: bool = False
    """Has the answer to its join, and has not sent SyncGroup yet."""

    @property
    def is_static(self) -> bool:
        return self.group_instance_id is not None

    @property
    def awaits_response(self) -> bool:
        return self.awaiting_join is not None or self.awaiting_sync is not None

    @property
    def expires_ms(self) -> int | None:
        """When the member is fenced unless it sends a request; None while the next message is the broker's."""
        return None if self.awaits_response and not self.is_new else self.session_deadline_ms

    def with_session_deadline(self, deadline_ms: int) -> Member:
        """`_replace(session_deadline_ms=...)`, at a third of its cost, which is most of a heartbeat's."""
        return Member(
            self.member_id,
            self.group_instance_id,
            self.client_id,
            self.client_host,
            self.rebalance_timeout_ms,
            self.session_timeout_ms,
            self.protocols,
            self.assignment,
            self.awaiting_join,
            self.awaiting_sync,
            deadline_ms,
            self.is_new,
            self.is_pending_sync,
        )

    def metadata(self, protocol_name: str | None) -> bytes:
        """Its metadata for a protocol; of repeated entries the first is used."""
        return next((protocol.metadata for protocol in self.protocols if protocol.name == protocol_name), b"")


class InitialDelay(NamedTuple):
    """The delay of a group's first generation: what is left of it, and whether a member joined since it started."""

    remaining_ms: int
    new_member_joined: bool = False


class GracePeriod(NamedTuple):
    """After a stall: what was due by `covers_ms` is checked again at `ends_ms`, and not before."""

    covers_ms: int
    ends_ms: int


class AssignmentWrite(NamedTuple):
    """The leader's assignment; once it is written, each member is sent its own."""

    assignments: Mapping[str, bytes]


class ReplacementWrite(NamedTuple):
    """A static member under its new id; if the write fails, `before` is restored."""

    before: Member
    member_id: str
    leader_id: str | None
    """The previous leader, named to members whose version cannot skip the assignment."""
    supports_skipping_assignment: bool


class TombstoneWrite(NamedTuple):
    """The group's tombstone."""

    caller: Caller | None


class EmptyGroupWrite(NamedTuple):
    """The group without members; no request waits for it."""


class PendingWrite(NamedTuple):
    """A `Write` without its `WriteCompleted` yet, and what it writes."""

    number: int
    generation_id: int
    purpose: AssignmentWrite | ReplacementWrite | TombstoneWrite | EmptyGroupWrite


EMPTY_INTS: MappingProxyType[str, int] = MappingProxyType({})
NO_MEMBERS: MappingProxyType[str, Member] = MappingProxyType({})
NO_IDS: MappingProxyType[str, str] = MappingProxyType({})


class Group(NamedTuple):
    """One group. Times ending in `_ms` are of the monotonic clock, but for `state_since_ms`, which is persistent."""

    group_id: str
    state: GroupState = GroupState.EMPTY
    generation_id: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str | None = None
    members: MappingProxyType[str, Member] = NO_MEMBERS
    """By member id, in the order in which they joined."""
    pending_joins: MappingProxyType[str, int] = EMPTY_INTS
    """Ids given out (KIP-394) that have not joined yet, and when they expire."""
    rebalance_deadline_ms: int | None = None
    """While preparing: when members that have not joined are removed."""
    state_since_ms: int = -1
    """Wall-clock time of the last change of state; the retention of an empty group's offsets starts here."""
    static_member_ids: MappingProxyType[str, str] = NO_IDS
    """Instance id -> member id, for every static member."""
    protocol_support: MappingProxyType[str, int] = EMPTY_INTS
    """How many members support each protocol."""
    initial_delay: InitialDelay | None = None
    """While preparing a group that was empty: it waits for the delay even when all members have joined."""
    sync_deadline_ms: int | None = None
    """While syncs are pending: when members that have not sent SyncGroup are removed."""
    pending_writes: tuple[PendingWrite, ...] = ()
    """Unfinished writes, oldest first."""
    write_count: int = 0
    """The number of the last write."""
    due_ms: int | None = None
    """A lower bound of all deadlines (see `member_sessions`)."""
    grace: GracePeriod | None = None

    def with_members(self, members: MappingProxyType[str, Member], due_ms: int | None) -> Group:
        """`_replace(members=..., due_ms=...)`, at a third of its cost."""
        return Group(
            self.group_id,
            self.state,
            self.generation_id,
            self.protocol_type,
            self.protocol_name,
            self.leader_id,
            members,
            self.pending_joins,
            self.rebalance_deadline_ms,
            self.state_since_ms,
            self.static_member_ids,
            self.protocol_support,
            self.initial_delay,
            self.sync_deadline_ms,
            self.pending_writes,
            self.write_count,
            due_ms,
            self.grace,
        )


class MemberValue(NamedTuple):
    """A member in the group's record."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class GroupValue(NamedTuple):
    """The value of a group's record, which is replaced as a whole."""

    protocol_type: str
    generation_id: int
    protocol_name: str | None
    leader_id: str | None
    state_since_ms: int
    members: tuple[MemberValue, ...]


class CommittedOffset(NamedTuple):
    """A group's position in one partition. `expires_ms` is set only by clients up to OffsetCommit v4."""

    offset: int
    leader_epoch: int
    metadata: str
    committed_ms: int
    expires_ms: int | None = None
