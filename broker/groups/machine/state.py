"""The values of a consumer group: its members, its state, and what of it is written down.

Frozen and comparable; nothing here decides (see `machine`). A group has two halves. What survives a restart is a
`GroupValue`, the record in __consumer_offsets; everything else (who waits for an answer, when a session ends, ids given
out and not used yet) lives and dies with the coordinator.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple, NewType

Caller = NewType("Caller", int)
"""A request that waits for its answer; the shell numbers them, from 1."""

NOBODY = Caller(0)
"""Stands where the shell has not numbered a request yet."""


class GroupState(Enum):
    """Where a group stands; the value is the name that DescribeGroups tells."""

    EMPTY = "Empty"
    """No members. Offsets may be there still, and expire."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """Members are asked to join again; those who do not in time are left behind."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """The generation has begun; everybody waits for the leader's assignment."""
    STABLE = "Stable"
    """Every member has its assignment."""
    DEAD = "Dead"
    """Gone: whoever still has it in hand must look for it anew."""


class Protocol(NamedTuple):
    """One assignment strategy that a member can take part in, with what it says of itself there."""

    name: str
    metadata: bytes


class Member(NamedTuple):
    """One member. `joining` and `syncing` are its requests that wait."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[Protocol, ...]
    assignment: bytes = b""
    joining: Caller | None = None
    syncing: Caller | None = None
    session_ends_ms: int = 0
    """On the monotonic clock; does not count while a request of the member's waits here, unless it `is_new`."""
    is_new: bool = False
    """Has not been in a generation yet: while its first join waits, it has `NEW_MEMBER_TIMEOUT_MS` instead."""
    owes_sync: bool = False
    """Was told of the generation and has not asked for its assignment yet."""

    @property
    def is_static(self) -> bool:
        return self.group_instance_id is not None

    @property
    def waits(self) -> bool:
        return self.joining is not None or self.syncing is not None

    @property
    def expires_ms(self) -> int | None:
        """When the member is expelled if nothing is heard of it; None while it is not the one to speak."""
        return None if self.waits and not self.is_new else self.session_ends_ms

    def with_session(self, ends_ms: int) -> Member:
        """`_replace(session_ends_ms=...)`, at a third of its cost: a heartbeat consists of little else."""
        return Member(
            self.member_id,
            self.group_instance_id,
            self.client_id,
            self.client_host,
            self.rebalance_timeout_ms,
            self.session_timeout_ms,
            self.protocols,
            self.assignment,
            self.joining,
            self.syncing,
            ends_ms,
            self.is_new,
            self.owes_sync,
        )

    def metadata(self, protocol_name: str | None) -> bytes:
        """What it says of itself for a protocol; the first entry counts, as everywhere."""
        return next((protocol.metadata for protocol in self.protocols if protocol.name == protocol_name), b"")


class InitialDelay(NamedTuple):
    """An empty group gathers members: whether another came since the wait began, and how long it may yet be drawn."""

    remaining_ms: int
    newcomer_came: bool = False


class Grace(NamedTuple):
    """After a stall: what had ended by `covers_ms` is looked at again at `ends_ms`, and not before."""

    covers_ms: int
    ends_ms: int


class Assigning(NamedTuple):
    """The leader's assignment is being written; when it is, everybody gets theirs."""

    assignments: Mapping[str, bytes]


class Replacing(NamedTuple):
    """A static member that came back under another id is being written; `before` comes back if that fails."""

    before: Member
    member_id: str
    leader_id: str | None
    """Who led before; told to members that cannot be told to skip the assignment."""
    may_skip_assignment: bool


class Deleting(NamedTuple):
    """The group's tombstone is being written."""

    caller: Caller | None


class Emptying(NamedTuple):
    """The group without members is being written; nobody waits for it."""


class Writing(NamedTuple):
    """A `Write` that has not been answered by `Written` yet, and what follows when it is."""

    number: int
    generation_id: int
    purpose: Assigning | Replacing | Deleting | Emptying


NOTHING: MappingProxyType[str, int] = MappingProxyType({})
NO_MEMBERS: MappingProxyType[str, Member] = MappingProxyType({})
NO_IDS: MappingProxyType[str, str] = MappingProxyType({})


class Group(NamedTuple):
    """One group. Times ending in `_ms` are of the monotonic clock, but for `state_since_ms`, which is written down."""

    group_id: str
    state: GroupState = GroupState.EMPTY
    generation_id: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str | None = None
    members: MappingProxyType[str, Member] = NO_MEMBERS
    """By member id, in the order in which they came."""
    pending: MappingProxyType[str, int] = NOTHING
    """Ids given out (KIP-394) that have not joined yet, and when they lapse."""
    rebalance_ends_ms: int | None = None
    """While preparing: when those who have not joined are left behind."""
    state_since_ms: int = -1
    """Wall-clock time of the last change of state; what the expiry of an empty group's offsets counts from."""
    static_ids: MappingProxyType[str, str] = NO_IDS
    """Instance id -> member id, for every static member."""
    support: MappingProxyType[str, int] = NOTHING
    """How many members know each protocol."""
    initial: InitialDelay | None = None
    """While preparing, if it was empty before: it waits its delay out even when all have joined."""
    sync_ends_ms: int | None = None
    """While members owe a sync: when those who still do are removed."""
    writing: tuple[Writing, ...] = ()
    """What is being written, oldest first."""
    writes: int = 0
    """How many writes there were; the number of the last."""
    due_ms: int | None = None
    """Nothing is due before this; that there is something due then is not promised (see `sessions`)."""
    grace: Grace | None = None

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
            self.pending,
            self.rebalance_ends_ms,
            self.state_since_ms,
            self.static_ids,
            self.support,
            self.initial,
            self.sync_ends_ms,
            self.writing,
            self.writes,
            due_ms,
            self.grace,
        )


class MemberValue(NamedTuple):
    """A member as it is written down."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class GroupValue(NamedTuple):
    """A group as it is written down: one record under the group's key, replaced as a whole."""

    protocol_type: str
    generation_id: int
    protocol_name: str | None
    leader_id: str | None
    state_since_ms: int
    members: tuple[MemberValue, ...]


class CommittedOffset(NamedTuple):
    """A group's position in one partition. `expires_ms` is set only by old clients that asked for a retention."""

    offset: int
    leader_epoch: int
    metadata: str
    committed_ms: int
    expires_ms: int | None = None
