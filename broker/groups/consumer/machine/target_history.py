"""The rebalances of a group whose coordinator assigns partitions: what consumer groups (KIP-848) and share groups
(KIP-932) have alike. A rebalance is one target assignment (`target_rebalance.py`). Pure.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sized
from typing import Generic, Protocol, TypeVar

from sordini.broker.groups.consumer.machine.events import Now, TargetAssigned
from sordini.broker.groups.consumer.machine.target_rebalance import Causes, PendingCauses, TargetRebalance
from sordini.broker.groups.consumer.machine.topic_changes import TopicsSeen
from sordini.broker.groups.machine.partition_moves import PARTITION_BYTES
from sordini.broker.groups.machine.rebalance_cause import RebalanceCause
from sordini.broker.groups.machine.rebalance_history import (
    MEMBERS_MAX,
    NAME_LENGTH_MAX,
    NO_MEMBER,
    ROW_BYTES,
    CauseEntry,
    MemberEntry,
    MemberName,
    Rebalance,
    RebalanceEntries,
)
from sordini.protocol.types import TopicId


class AssignedMember(Protocol):
    """A member of such a group."""

    @property
    def member_id(self) -> str: ...
    @property
    def client_id(self) -> str: ...
    @property
    def client_host(self) -> str: ...
    @property
    def assigned(self) -> Mapping[TopicId, Sized]:
        """Its partitions."""


class AssignedGroup(Protocol):
    """Such a group."""

    @property
    def epoch(self) -> int: ...
    @property
    def assignment_epoch(self) -> int: ...
    @property
    def members(self) -> Mapping[str, AssignedMember]: ...


Group = TypeVar("Group", bound=AssignedGroup)


class TargetHistory(RebalanceEntries, Generic[Group]):
    """The rebalances of one group. Subclasses follow its steps."""

    __slots__ = ("_current", "_missing", "_names", "_pending", "_seen")

    def __init__(self, entries_max: int) -> None:
        super().__init__(entries_max)
        self._current: TargetRebalance | None = None
        self._pending = PendingCauses()
        self._missing: set[str] = set()
        """Members that have not reached the current target."""
        self._names: dict[TopicId, str] = {}
        """Of topics that were deleted, too: members lose their partitions later."""
        self._seen = TopicsSeen()

    def loaded(self, group: Group, now: Now) -> None:
        """The group was loaded. If members have not reached its target, that is a rebalance from now on."""
        missing = self._missing_of(group)
        cause = CauseEntry(RebalanceCause.GROUP_LOADED, now.wall_ms, NO_MEMBER, "")
        if missing:
            causes = Causes(group.assignment_epoch, now)
            causes.add(cause)
            self._current = TargetRebalance(causes, group.assignment_epoch, group.assignment_epoch, None)
            self._missing = missing
        if group.epoch > group.assignment_epoch:
            self._pending.add(group.epoch, now, cause)
        self._recount()

    def in_progress(self, group: Group) -> list[Rebalance]:
        """The rebalance whose target not all members have reached, and the one that has no target yet."""
        found = []
        if self._current is not None:
            found.append(self._entry(self._current, group))
        if self._pending:
            found.append(self._entry(self._waiting(group), group))
        return found

    def abandon(self) -> None:
        self._current = None
        self._pending.clear()
        self._missing.clear()
        self._names.clear()
        self._seen = TopicsSeen()
        self._recount()

    @abstractmethod
    def _missing_of(self, group: Group) -> set[str]:
        """The members that have not reached the group's target."""

    @abstractmethod
    def _held_more(self) -> int:
        """Bytes, about, of what a subclass keeps."""

    def _waiting(self, group: Group) -> TargetRebalance:
        """The rebalance that has no target yet; there must be one."""
        return TargetRebalance(self._pending.all(), group.assignment_epoch, group.epoch, None)

    def _begin(self, before: Group, after: Group, actions: Iterable[object], now: Now) -> TargetRebalance:
        """A target was computed, maybe of an older group epoch than the newest."""
        epoch = after.assignment_epoch
        assignor = next((action.assignor for action in actions if isinstance(action, TargetAssigned)), None)
        current = TargetRebalance(self._pending.take(epoch, now), before.assignment_epoch, epoch, assignor)
        self._current = current
        self._missing = set(after.members)
        return current

    def _end(self, current: TargetRebalance, after: Group, now: Now, *, is_overtaken: bool) -> Rebalance:
        self._current = None
        duration_ms = current.duration_ms(now)
        ended = self._entry(current, after)._replace(
            ended_ms=now.wall_ms, duration_ms=duration_ms, is_overtaken=is_overtaken
        )
        if not is_overtaken:
            self.last_duration_ms = duration_ms
        self._append(ended)
        return ended

    def _entry(self, current: TargetRebalance, group: Group) -> Rebalance:
        """A rebalance that has not ended, and the members of the group. Subclasses say of which kind it is."""
        rows: list[MemberEntry] = []
        for member in group.members.values():
            if len(rows) == MEMBERS_MAX:
                break
            count = sum(map(len, member.assigned.values()))
            rows.append(MemberEntry(member_name(member), count, current.reached_ms.get(member.member_id, -1)))
        return current.entry(tuple(rows), len(group.members) - len(rows))

    def _recount(self) -> None:
        names = len(self._names) + len(self._seen.names)
        held = self._entries_bytes + PARTITION_BYTES * names + self._pending.size + self._held_more()
        if self._current is not None:
            held += self._current.size + ROW_BYTES * len(self._missing)
        self.held_bytes = held


def member_name(member: AssignedMember) -> MemberName:
    """With its instance id, where the kind of group has these."""
    instance_id: str | None = getattr(member, "instance_id", None)
    return MemberName(
        member.member_id[:NAME_LENGTH_MAX],
        None if instance_id is None else instance_id[:NAME_LENGTH_MAX],
        member.client_id[:NAME_LENGTH_MAX],
        member.client_host[:NAME_LENGTH_MAX],
    )
