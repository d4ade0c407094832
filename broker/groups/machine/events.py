"""What happens to a group's machine, and what it wants done.

`machine.step(group, event, now, limits)` returns the group as it is now and a list of actions, to be carried out in
order. Requests are answered by `Reply`, once each. What must be written down comes as `Write`; the shell appends it and
says with `Written` how that ended, before or after other events as it happens.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from sordini.broker.groups.machine.state import Caller, GroupValue, Protocol
from sordini.protocol.errors import ErrorCode


class GroupLimits(NamedTuple):
    """The coordinator's configuration, as far as groups are decided by it."""

    session_timeout_ms_min: int = 6_000
    session_timeout_ms_max: int = 1_800_000
    members_max: int = 2**31 - 1
    initial_rebalance_delay_ms: int = 3_000


class Now(NamedTuple):
    """The time of an event on both clocks."""

    monotonic_ms: int
    wall_ms: int


# Events.


class Join(NamedTuple):
    """A member wants to be part of the next generation."""

    caller: Caller
    member_id: str
    """"" for a newcomer."""
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: tuple[Protocol, ...]
    drawn_member_id: str
    """What a newcomer will be called; drawn by the shell, unique."""
    needs_known_id: bool
    """From v4 on a newcomer without an instance id is only told its id, and joins with that (KIP-394)."""
    may_skip_assignment: bool
    """From v9 on a static leader that comes back can be told to keep the assignment (KIP-814)."""


class Sync(NamedTuple):
    """A member asks for its assignment; the leader brings everybody's. Names are None below v5."""

    caller: Caller
    member_id: str
    group_instance_id: str | None
    generation_id: int
    protocol_type: str | None
    protocol_name: str | None
    assignments: Mapping[str, bytes]


class Heartbeat(NamedTuple):
    caller: Caller
    member_id: str
    group_instance_id: str | None
    generation_id: int


class Leaving(NamedTuple):
    """One member that leaves, or is removed by an administrator, by its id or its instance id."""

    member_id: str
    group_instance_id: str | None


class Leave(NamedTuple):
    caller: Caller
    members: tuple[Leaving, ...]


class Committing(NamedTuple):
    """A member is about to commit offsets: is it one of this generation? A simple consumer has generation -1."""

    caller: Caller
    member_id: str
    group_instance_id: str | None
    generation_id: int


class Delete(NamedTuple):
    """An administrator deletes the group; only an empty one may go.

    The group is dead at once. If it was ever written (its generation is not 0) a `Write` of None takes the record
    away and the answer follows `Written`; if that fails, the group is back and empty. Its offsets are the shell's.
    """

    caller: Caller


class OffsetsGone(NamedTuple):
    """The last offset has expired or was deleted: an empty group with none is forgotten, as if deleted."""


class Unload(NamedTuple):
    """Another broker looks after the group, or none: whoever waits is told so (NOT_COORDINATOR)."""


class Tick(NamedTuple):
    """Something was due (`machine.next_due_ms`).

    `late_ms`: how much later than asked this comes, 0 if the loop ran freely. The broker's own stall is no member's
    fault: what ended meanwhile is looked at again about as much later, when heartbeats that wait in the sockets have
    been heard.
    """

    late_ms: int


class Written(NamedTuple):
    """How a `Write` ended: None when it is committed, or the code that callers are told.

    `number` is the write's own; 0 stands for the oldest of that generation that is not answered yet.
    """

    generation_id: int
    error: ErrorCode | None
    number: int = 0


Event = Join | Sync | Heartbeat | Leave | Committing | Delete | OffsetsGone | Unload | Tick | Written


# Actions.


class JoinedMember(NamedTuple):
    """A member as its leader sees it."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


class JoinAnswer(NamedTuple):
    error: ErrorCode
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str = ""
    skip_assignment: bool = False
    member_id: str = ""
    members: tuple[JoinedMember, ...] = ()
    """Only for the leader."""


class SyncAnswer(NamedTuple):
    error: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


class LeaveAnswer(NamedTuple):
    """One code for each of those who leave, in their order."""

    errors: tuple[ErrorCode, ...]


class Answer(NamedTuple):
    """The answer to Heartbeat, Committing and Delete."""

    error: ErrorCode


class Reply(NamedTuple):
    caller: Caller
    answer: JoinAnswer | SyncAnswer | LeaveAnswer | Answer


class Write(NamedTuple):
    """Append this under the group's key (None: a tombstone), and say how it went.

    That is `Written(generation_id, error, number)`, also for a group that is dead by now. `machine.is_over` says when
    nothing more can come of a group, and the shell may forget it.
    """

    generation_id: int
    value: GroupValue | None
    number: int = 0


Action = Reply | Write
