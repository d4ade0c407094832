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

from sordini.broker.groups.consumer.machine.events import Now, Topics
from sordini.broker.groups.consumer.machine.target_history import TargetHistory, member_name
from sordini.broker.groups.consumer.machine.target_rebalance import Moves, TargetRebalance
from sordini.broker.groups.consumer.machine.topic_changes import TOPICS_SEEN_MAX
from sordini.broker.groups.machine.partition_moves import Move
from sordini.broker.groups.machine.rebalance_cause import RebalanceCause
from sordini.broker.groups.machine.rebalance_history import NAME_LENGTH_MAX, NO_MEMBER, CauseEntry, Rebalance
from sordini.broker.groups.share.machine.changes import AssignedChange
from sordini.broker.groups.share.machine.events import EpochRaised, Step
from sordini.broker.groups.share.machine.state import NO_PARTITIONS, Partitions, ShareGroup, ShareMember
from sordini.broker.groups.share.machine.target import topic_names
from sordini.protocol.types import TopicId, topic_id_text

NAMES_MAX: Final = 2 * TOPICS_SEEN_MAX
"""With more names of topics, those that the group does not subscribe to are given up."""


class ShareGroupHistory(TargetHistory[ShareGroup]):
    """The rebalances of one share group."""

    __slots__ = ("_pending_moves",)

    def __init__(self, entries_max: int) -> None:
        super().__init__(entries_max)
        self._pending_moves = Moves()
        """Of members that left, or subscribe to less, since the last target."""

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
            self._begin(before, after, step.actions, now).moves.add_all(self._pending_moves)
            self._pending_moves = Moves()
        if self._current is not None:
            for member_id in assigned:
                self._add_moves(self._current.moves, member_id, before, after, topics)
            self._follow_members(self._current, after, changed, now)
            if not self._missing:
                ended.append(self._end(self._current, after, now, is_overtaken=False))
        self._recount()
        return ended

    def abandon(self) -> None:
        self._pending_moves = Moves()
        super().abandon()

    def _missing_of(self, group: ShareGroup) -> set[str]:
        return {m.member_id for m in group.members.values() if m.epoch != group.assignment_epoch}

    def _held_more(self) -> int:
        return self._pending_moves.size

    def _waiting(self, group: ShareGroup) -> TargetRebalance:
        waiting = super()._waiting(group)
        waiting.moves.add_all(self._pending_moves)
        return waiting

    def _entry(self, current: TargetRebalance, group: ShareGroup) -> Rebalance:
        return super()._entry(current, group)._replace(is_share=True)

    def _raised(self, raised: EpochRaised, after: ShareGroup, topics: Topics, now: Now) -> None:
        cause = raised.cause
        grown = self._seen.changes(topic_names(after.members), topics)
        kept = self._names if len(self._names) < NAMES_MAX else {}
        self._names = {**kept, **self._seen.names}
        detail = grown if cause.cause is RebalanceCause.TOPICS_CHANGED else cause.detail
        name = NO_MEMBER if cause.member is None else member_name(cause.member)
        self._pending.add(raised.epoch, now, CauseEntry(cause.cause, now.wall_ms, name, detail[:NAME_LENGTH_MAX]))

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


def _gets_target(member_id: str, before: ShareGroup, after: ShareGroup) -> bool:
    """Whether a member that was changed has got the target; otherwise it only lost what it had."""
    old, new = before.members.get(member_id), after.members.get(member_id)
    return new is not None and new.epoch == after.assignment_epoch and (old is None or old.epoch != new.epoch)


def _assigned(member: ShareMember | None) -> Partitions:
    return NO_PARTITIONS if member is None else member.assigned
