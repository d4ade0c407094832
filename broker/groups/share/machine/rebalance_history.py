"""The last rebalances of a share group (KIP-932): causes, durations, and which members got or lost which partitions.

Pure: `ShareGroupHistory.observe` is given each step that changed the group, and keeps values. As in a consumer group, a
rebalance is one target assignment. It begins with the first cause that raised the group epoch since the last target,
and ends when all members have it; or it is *overtaken*: the next target is computed before that.

    cause ──► target ──► each member has it with its next heartbeat ──► all have it       or: the next target

Members share partitions, so that a partition has no pause: a move says that a member got one (`source` is None), or
that it has one no more (`target` is None), and not who has it besides. What a member loses before the target, because
it leaves or subscribes to less, is part of the rebalance of the next target.

Invariants:
  - there is one entry for each target, until newer entries or the limit of memory displace it;
  - without omitted moves, the moves of a member and a partition alternate, and the last one says whether it has it;
  - `held_bytes` is the sum of the sizes of the entries and of what is in progress.

A step costs what it changes: members without a change are not visited. The history is this coordinator's.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sordini.broker.groups.consumer.machine.events import Now, TargetAssigned, Topics
from sordini.broker.groups.consumer.machine.target_rebalance import Causes, Moves, PendingCauses, TargetRebalance
from sordini.broker.groups.consumer.machine.topic_changes import TOPICS_SEEN_MAX, TopicsSeen
from sordini.broker.groups.machine.partition_moves import PARTITION_BYTES, Move
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
from sordini.broker.groups.share.machine.changes import AssignedChange
from sordini.broker.groups.share.machine.events import EpochRaised, Step
from sordini.broker.groups.share.machine.state import NO_PARTITIONS, Partitions, ShareGroup, ShareMember
from sordini.broker.groups.share.machine.target import topic_names
from sordini.protocol.types import TopicId, topic_id_text

NAMES_MAX: Final = 2 * TOPICS_SEEN_MAX
"""With more names of topics, those that the group does not subscribe to are given up."""


class ShareGroupHistory(RebalanceEntries):
    """The rebalances of one share group."""

    __slots__ = ("_current", "_missing", "_names", "_pending", "_pending_moves", "_seen")

    def __init__(self, entries_max: int) -> None:
        super().__init__(entries_max)
        self._current: TargetRebalance | None = None
        self._pending = PendingCauses()
        self._pending_moves = Moves()
        """Of members that left, or subscribe to less, since the last target."""
        self._missing: set[str] = set()
        """Members that have not got the current target."""
        self._seen = TopicsSeen()
        self._names: dict[TopicId, str] = {}
        """Of topics that were deleted, too: members lose their partitions later."""

    def loaded(self, group: ShareGroup, now: Now) -> None:
        """The group was loaded. If members have not got its target, that is a rebalance from now on."""
        missing = {m.member_id for m in group.members.values() if m.epoch != group.assignment_epoch}
        cause = CauseEntry(RebalanceCause.GROUP_LOADED, now.wall_ms, NO_MEMBER, "")
        if missing:
            causes = Causes(group.assignment_epoch, now)
            causes.add(cause)
            self._current = TargetRebalance(causes, group.assignment_epoch, group.assignment_epoch, None)
            self._missing = missing
        if group.epoch > group.assignment_epoch:
            self._pending.add(group.epoch, now, cause)
        self._recount()

    def observe(self, before: ShareGroup, step: Step, topics: Topics, now: Now) -> list[Rebalance]:
        """Add what one step did; returns the rebalances that it ended."""
        after, ended = step.group, list[Rebalance]()
        for action in step.actions:
            if isinstance(action, EpochRaised):
                self._raised(action, after, topics, now)
        changed = dict.fromkeys(c.member_id for c in step.changes if isinstance(c, AssignedChange))
        assigned = [member_id for member_id in changed if _gets_target(member_id, before, after)]
        for member_id in sorted(changed.keys() - assigned):
            self._add_moves(self._pending_moves, member_id, before, after, topics)
        if after.assignment_epoch != before.assignment_epoch:
            if self._current is not None:
                ended.append(self._end(self._current, after, now, is_overtaken=True))
            self._begin(before, step, now)
        if self._current is not None:
            for member_id in assigned:
                self._add_moves(self._current.moves, member_id, before, after, topics)
            self._follow_members(self._current, after, changed, now)
            if not self._missing:
                ended.append(self._end(self._current, after, now, is_overtaken=False))
        self._recount()
        return ended

    def in_progress(self, group: ShareGroup) -> list[Rebalance]:
        """The rebalance whose target not all members have got, and the one that has no target yet."""
        found = []
        if self._current is not None:
            found.append(_entry(self._current, group))
        if self._pending:
            waiting = TargetRebalance(self._pending.all(), group.assignment_epoch, group.epoch, None)
            waiting.moves.add_all(self._pending_moves)
            found.append(_entry(waiting, group))
        return found

    def abandon(self) -> None:
        self._current = None
        self._pending.clear()
        self._pending_moves = Moves()
        self._missing.clear()
        self._seen = TopicsSeen()
        self._names = {}
        self._recount()

    def _raised(self, raised: EpochRaised, after: ShareGroup, topics: Topics, now: Now) -> None:
        cause = raised.cause
        grown = self._seen.changes(topic_names(after.members), topics)
        kept = self._names if len(self._names) < NAMES_MAX else {}
        self._names = {**kept, **self._seen.names}
        detail = grown if cause.cause is RebalanceCause.TOPICS_CHANGED else cause.detail
        name = NO_MEMBER if cause.member is None else _name(cause.member)
        self._pending.add(raised.epoch, now, CauseEntry(cause.cause, now.wall_ms, name, detail[:NAME_LENGTH_MAX]))

    def _begin(self, before: ShareGroup, step: Step, now: Now) -> None:
        """A target was computed, maybe of an older group epoch than the newest."""
        epoch = step.group.assignment_epoch
        assignor = next((action.assignor for action in step.actions if isinstance(action, TargetAssigned)), None)
        self._current = TargetRebalance(self._pending.take(epoch, now), before.assignment_epoch, epoch, assignor)
        self._current.moves.add_all(self._pending_moves)
        self._pending_moves = Moves()
        self._missing = set(step.group.members)

    def _end(self, current: TargetRebalance, after: ShareGroup, now: Now, *, is_overtaken: bool) -> Rebalance:
        self._current = None
        duration_ms = current.duration_ms(now)
        ended = _entry(current, after)._replace(
            ended_ms=now.wall_ms, duration_ms=duration_ms, is_overtaken=is_overtaken
        )
        if not is_overtaken:
            self.last_duration_ms = duration_ms
        self._append(ended)
        return ended

    def _follow_members(self, current: TargetRebalance, after: ShareGroup, changed: Iterable[str], now: Now) -> None:
        for member_id in changed:
            member = after.members.get(member_id)
            if member is None:
                self._missing.discard(member_id)
            elif member.epoch == after.assignment_epoch and member_id in self._missing:
                self._missing.discard(member_id)
                current.reached(member_id, now)

    def _add_moves(self, moves: Moves, member_id: str, before: ShareGroup, after: ShareGroup, topics: Topics) -> None:
        held, holds = _assigned(before.members.get(member_id)), _assigned(after.members.get(member_id))
        if held == holds:
            return
        who = member_id[:NAME_LENGTH_MAX]
        for topic_id in sorted(held.keys() | holds.keys()):
            first, second = held.get(topic_id, frozenset()), holds.get(topic_id, frozenset())
            name = self._name_of(topic_id, topics)
            for partition in sorted(first - second):
                moves.add(Move(name, partition, who, None))
            for partition in sorted(second - first):
                moves.add(Move(name, partition, None, who))

    def _name_of(self, topic_id: TopicId, topics: Topics) -> str:
        """A topic that was deleted has no name any more."""
        return topics.name_of(topic_id) or self._names.get(topic_id, topic_id_text(topic_id))

    def _recount(self) -> None:
        held = (
            self._entries_bytes
            + PARTITION_BYTES * (len(self._seen.names) + len(self._names))
            + self._pending.size
            + self._pending_moves.size
        )
        if self._current is not None:
            held += self._current.size + ROW_BYTES * len(self._missing)
        self.held_bytes = held


def _entry(current: TargetRebalance, group: ShareGroup) -> Rebalance:
    """A rebalance that has not ended, and the members of the group."""
    rows: list[MemberEntry] = []
    for member in group.members.values():
        if len(rows) == MEMBERS_MAX:
            break
        count = sum(map(len, member.assigned.values()))
        rows.append(MemberEntry(_name(member), count, current.reached_ms.get(member.member_id, -1)))
    return current.entry(tuple(rows), len(group.members) - len(rows))._replace(is_share=True)


def _gets_target(member_id: str, before: ShareGroup, after: ShareGroup) -> bool:
    """Whether a member that was changed has got the target; otherwise it only lost what it had."""
    old, new = before.members.get(member_id), after.members.get(member_id)
    return new is not None and new.epoch == after.assignment_epoch and (old is None or old.epoch != new.epoch)


def _assigned(member: ShareMember | None) -> Partitions:
    return NO_PARTITIONS if member is None else member.assigned


def _name(member: ShareMember) -> MemberName:
    return MemberName(
        member.member_id[:NAME_LENGTH_MAX],
        None,
        member.client_id[:NAME_LENGTH_MAX],
        member.client_host[:NAME_LENGTH_MAX],
    )
