"""The last rebalances of a group: their causes, how long they took, which partitions moved, how long members waited.

Pure: `GroupHistory.observe` is given what each step of the machine did (but heartbeats and commits), and keeps values.
A rebalance begins with the group's first cause while it is stable or empty, and ends when it is one of these again; a
cause in between, such as a member that does not join in time, is part of the same rebalance.

Invariants:
  - there is one entry for each `RebalanceCompleted`, until newer entries or the limit of memory displace it;
  - names, causes, members and moves of an entry are bounded, and what was omitted is counted;
  - `held_bytes` is the sum of the entries' sizes and that of the rebalance in progress.

The history is this coordinator's: it begins when the group is loaded, and is not written to the log.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

from sordini.broker.groups.machine.events import (
    Action,
    Event,
    GroupReply,
    Join,
    Now,
    RebalanceCompleted,
    Sync,
    SyncAnswer,
)
from sordini.broker.groups.machine.partition_moves import MOVES_MAX, Assignments, Move, added_partitions, moves_between
from sordini.broker.groups.machine.rebalance_cause import RebalanceCause, RebalanceCaused
from sordini.broker.groups.machine.state import Group, Member
from sordini.protocol.errors import ErrorCode
from sordini.system.named_tuple import NamedTuple

NAME_LENGTH_MAX: Final = 128
"""Characters that are kept of an id, a host or a reason."""
CAUSES_MAX: Final = 20
MEMBERS_MAX: Final = 100
ENTRY_BYTES: Final = 1000
ROW_BYTES: Final = 300
"""Of a cause, a member or a move, without its texts."""


class MemberName(NamedTuple):
    """Who a member is, cut to `NAME_LENGTH_MAX`."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str


NO_MEMBER: Final = MemberName("", None, "", "")


class CauseEntry(NamedTuple):
    """A cause, and when it was noticed (wall clock)."""

    cause: RebalanceCause
    at_ms: int
    member: MemberName
    detail: str


class MemberEntry(NamedTuple):
    """A member of the new generation. `partitions` and `waited_ms` are -1 while they are not known."""

    member: MemberName
    partitions: int
    waited_ms: int


class Rebalance(NamedTuple):
    """One rebalance; `ended_ms` and `duration_ms` are -1 while it is in progress."""

    began_ms: int
    ended_ms: int
    duration_ms: int
    generation_before: int
    generation_after: int
    protocol_name: str | None
    causes: tuple[CauseEntry, ...]
    causes_omitted: int
    members: tuple[MemberEntry, ...] = ()
    members_omitted: int = 0
    partitions_known: bool = False
    moves: tuple[Move, ...] = ()
    moves_omitted: int = 0
    is_consumer: bool = False
    """Of a consumer group (KIP-848): generations are assignment epochs, `waited_ms` is until the member reached it."""
    is_share: bool = False
    """Of a share group (KIP-932): as of a consumer group, but members share partitions."""
    is_overtaken: bool = False
    """The next target assignment was computed before all members had reached this one."""

    @property
    def first_cause(self) -> RebalanceCause:
        return self.causes[0].cause if self.causes else RebalanceCause.UNKNOWN


class _InProgress:
    """The rebalance that has begun and not ended."""

    __slots__ = ("before", "began", "causes", "causes_omitted", "generation_before", "joined_ms")

    def __init__(self, before: Group, now: Now) -> None:
        self.began = now
        self.generation_before = before.generation_id
        self.before = Assignments.of(before)
        self.causes: list[CauseEntry] = []
        self.causes_omitted = 0
        self.joined_ms: dict[str, int] = {}
        """By `_key`: when the member sent its first JoinGroup of this rebalance."""


class RebalanceEntries(ABC):
    """The rebalances of one group that have ended, oldest first, and what they and the current one occupy."""

    __slots__ = ("_entries_bytes", "entries", "held_bytes", "last_duration_ms")

    def __init__(self, entries_max: int) -> None:
        self.entries: deque[Rebalance] = deque(maxlen=entries_max)
        self.held_bytes = 0
        self._entries_bytes = 0
        self.last_duration_ms = -1

    def take_over(self, former: RebalanceEntries) -> None:
        """Begin with the entries of a history that has ended: the group has changed its protocol."""
        self.entries, self._entries_bytes = former.entries, former._entries_bytes
        self.last_duration_ms = former.last_duration_ms
        self._recount()

    def drop_oldest(self) -> None:
        """Give up the oldest entry; `entries` must not be empty."""
        self._entries_bytes -= _cost(self.entries.popleft())
        self._recount()

    @abstractmethod
    def abandon(self) -> None:
        """Give up the rebalance in progress: there is no room for it, and it will have no entry."""

    def _append(self, completed: Rebalance) -> None:
        if self.entries.maxlen == 0:
            return
        if len(self.entries) == self.entries.maxlen:
            self._entries_bytes -= _cost(self.entries[0])
        self.entries.append(completed)
        self._entries_bytes += _cost(completed)

    @abstractmethod
    def _recount(self) -> None:
        """Set `held_bytes`."""


class GroupHistory(RebalanceEntries):
    """The rebalances of one classic group."""

    __slots__ = ("_in_progress", "_joined_ms", "_partitions_seen")

    def __init__(self, entries_max: int) -> None:
        super().__init__(entries_max)
        self._in_progress: _InProgress | None = None
        self._joined_ms: dict[str, int] = {}
        """Members of the last generation that have not fetched their assignment yet."""
        self._partitions_seen: dict[str, int] = {}

    def observe(
        self, before: Group, after: Group, event: Event, actions: Sequence[Action], now: Now
    ) -> Rebalance | None:
        """Add what one step did; returns the rebalance that it completed, if any."""
        for action in actions:
            if isinstance(action, RebalanceCaused):
                self.begin(before, action, now)
        if self._in_progress is None:
            self._assigned_late(after, event, actions, now)
            return None
        if isinstance(event, Join):
            self._joined(self._in_progress, after, event, now)
        completed = None
        if any(isinstance(action, RebalanceCompleted) for action in actions):
            completed = self._complete(self._in_progress, before, after, now)
        self._recount()
        return completed

    def begin(self, before: Group, caused: RebalanceCaused, now: Now) -> None:
        """A rebalance of the group as it is in `before` begins, or has one more cause."""
        if self._in_progress is None:
            self._in_progress = _InProgress(before, now)
            self._joined_ms = {}
        current = self._in_progress
        if len(current.causes) >= CAUSES_MAX:
            current.causes_omitted += 1
            return
        member = NO_MEMBER if caused.member is None else _name(caused.member)
        current.causes.append(CauseEntry(caused.cause, now.wall_ms, member, caused.detail[:NAME_LENGTH_MAX]))
        self._recount()

    def in_progress(self, group: Group) -> Rebalance | None:
        """The rebalance that has not ended."""
        current = self._in_progress
        if current is None:
            return None
        causes, members = tuple(current.causes), list(group.members.values())
        rows = tuple(MemberEntry(_name(member), -1, -1) for member in members[:MEMBERS_MAX])
        return Rebalance(
            current.began.wall_ms,
            -1,
            -1,
            current.generation_before,
            group.generation_id,
            group.protocol_name,
            causes,
            current.causes_omitted,
            rows,
            len(members) - len(rows),
        )

    def abandon(self) -> None:
        self._in_progress = None
        self._recount()

    def _joined(self, current: _InProgress, after: Group, event: Join, now: Now) -> None:
        member = after.members.get(event.member_id or event.new_member_id)
        if member is None:
            return
        current.joined_ms.setdefault(_key(member), now.monotonic_ms)
        if len(current.joined_ms) > 2 * len(after.members) + MEMBERS_MAX:  # Most of them have gone again.
            present = set(map(_key, after.members.values()))
            current.joined_ms = {key: ms for key, ms in current.joined_ms.items() if key in present}

    def _complete(self, current: _InProgress, before: Group, after: Group, now: Now) -> Rebalance:
        self._in_progress = None
        present = set(map(_key, after.members.values()))
        self._joined_ms = {key: ms for key, ms in current.joined_ms.items() if key in present}
        assigned = {_key(member) for member in before.members.values() if member.awaiting_sync is not None}
        new = Assignments.of(after)
        moves = moves_between(current.before, new)
        rows = [
            MemberEntry(
                _name(member), new.count(member), self._waited_ms(_key(member), now) if _key(member) in assigned else -1
            )
            for member in list(after.members.values())[:MEMBERS_MAX]
        ]
        for key in assigned:
            self._joined_ms.pop(key, None)
        self.last_duration_ms = now.monotonic_ms - current.began.monotonic_ms
        completed = Rebalance(
            current.began.wall_ms,
            now.wall_ms,
            self.last_duration_ms,
            current.generation_before,
            after.generation_id,
            after.protocol_name,
            self._final_causes(current, new),
            current.causes_omitted,
            tuple(rows),
            len(after.members) - len(rows),
            moves is not None,
            tuple((moves or ())[:MOVES_MAX]),
            max(len(moves or ()) - MOVES_MAX, 0),
        )
        self._append(completed)
        return completed

    def _final_causes(self, current: _InProgress, new: Assignments) -> tuple[CauseEntry, ...]:
        """The causes; that of a leader that rejoined is replaced if its assignment has partitions new to the group."""
        known = bool(self._partitions_seen)
        if not known:
            added_partitions(self._partitions_seen, current.before)
            known = bool(self._partitions_seen)
        added = added_partitions(self._partitions_seen, new)
        if not added or not known:
            return tuple(current.causes)
        return tuple(
            entry._replace(cause=RebalanceCause.PARTITIONS_ADDED, detail=added[:NAME_LENGTH_MAX])
            if entry.cause is RebalanceCause.LEADER_REJOINED
            else entry
            for entry in current.causes
        )

    def _assigned_late(self, after: Group, event: Event, actions: Sequence[Action], now: Now) -> None:
        """A member fetched its assignment when the rebalance had ended."""
        if not isinstance(event, Sync) or not self._joined_ms or not self.entries or not _is_assigned(event, actions):
            return
        member = after.members.get(event.member_id)
        if member is None or _key(member) not in self._joined_ms:
            return
        waited_ms, name = self._waited_ms(_key(member), now), _name(member)
        self._joined_ms.pop(_key(member))
        last = self.entries[-1]
        rows = (row._replace(waited_ms=waited_ms) if row.member == name else row for row in last.members)
        self.entries[-1] = last._replace(members=tuple(rows))

    def _waited_ms(self, key: str, now: Now) -> int:
        joined_ms = self._joined_ms.get(key)  # None: a static member that has not joined again.
        return -1 if joined_ms is None else now.monotonic_ms - joined_ms

    def _recount(self) -> None:
        current = self._in_progress
        begun = 0 if current is None else ENTRY_BYTES + current.before.size + ROW_BYTES * len(current.joined_ms)
        self.held_bytes = begun + self._entries_bytes
        if current is not None:
            self.held_bytes += sum(map(cause_cost, current.causes))


def _is_assigned(event: Sync, actions: Iterable[Action]) -> bool:
    return any(
        isinstance(action, GroupReply)
        and action.caller == event.caller
        and isinstance(action.answer, SyncAnswer)
        and action.answer.error is ErrorCode.NONE
        for action in actions
    )


def _key(member: Member) -> str:
    """A static member is the same one after a restart. The two kinds of ids are told apart by their first letter."""
    return f"m{member.member_id}" if member.group_instance_id is None else f"i{member.group_instance_id}"


def _name(member: Member) -> MemberName:
    instance_id = member.group_instance_id
    return MemberName(
        member.member_id[:NAME_LENGTH_MAX],
        None if instance_id is None else instance_id[:NAME_LENGTH_MAX],
        member.client_id[:NAME_LENGTH_MAX],
        member.client_host[:NAME_LENGTH_MAX],
    )


def _cost(entry: Rebalance) -> int:
    """An upper bound of what an entry occupies, texts of four bytes a character included."""
    members = sum(ROW_BYTES + _text_cost(row.member) for row in entry.members)
    return ENTRY_BYTES + sum(map(cause_cost, entry.causes)) + members + sum(map(move_cost, entry.moves))


def move_cost(move: Move) -> int:
    """Of a move; the ids of its members are counted as if they were not shared with others."""
    return ROW_BYTES + 4 * (len(move.topic) + len(move.source or "") + len(move.target or ""))


def cause_cost(entry: CauseEntry) -> int:
    return ROW_BYTES + _text_cost(entry.member) + 4 * len(entry.detail)


def _text_cost(name: MemberName) -> int:
    return 4 * sum(len(text) for text in name if text is not None)
