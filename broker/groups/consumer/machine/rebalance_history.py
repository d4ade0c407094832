"""The last rebalances of a consumer group (KIP-848): causes, durations, and how long partitions had no owner.

Pure: `ConsumerGroupHistory.observe` is given each step that changed the group, and keeps values. A rebalance is one
target assignment. It begins with the first cause that raised the group epoch since the last target, and ends when all
members have reached it and have their partitions; or it is *overtaken*: the next target is computed before that.

    cause ──► target ──► members release, and are given, partitions ──► all have reached it   or: the next target

A partition is without an owner from the step in which its member released it, left or was fenced, until the step that
gives it to a member. That time is part of the rebalance in which it is given; if all members have reached a target that
has the partition for none of them, it is part of that rebalance as released. The partitions of a static member that is
away for a while stay its own.

Invariants:
  - there is one entry for each target, until newer entries or the limit of memory displace it;
  - without omitted moves, the sum of a partition's `without_owner_ms` is the time in which it had no owner;
  - `held_bytes` is the sum of the sizes of the entries, of what is in progress, and of the partitions without an owner.

A step costs what it changes: members without a change are not visited. The history is this coordinator's.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sordini.broker.groups.consumer.machine.changes import AssignmentChange
from sordini.broker.groups.consumer.machine.events import EpochRaised, Now, Step, TargetAssigned, Topics
from sordini.broker.groups.consumer.machine.state import ConsumerGroup, ConsumerMember, is_reconciled
from sordini.broker.groups.consumer.machine.target import subscribed_topics
from sordini.broker.groups.consumer.machine.topic_changes import TopicsSeen
from sordini.broker.groups.machine.partition_moves import MOVES_MAX, PARTITION_BYTES, Move
from sordini.broker.groups.machine.rebalance_cause import RebalanceCause
from sordini.broker.groups.machine.rebalance_history import (
    CAUSES_MAX,
    ENTRY_BYTES,
    MEMBERS_MAX,
    NAME_LENGTH_MAX,
    NO_MEMBER,
    ROW_BYTES,
    CauseEntry,
    MemberEntry,
    MemberName,
    Rebalance,
    RebalanceEntries,
    cause_cost,
    move_cost,
)
from sordini.protocol.types import TopicId, topic_id_text
from sordini.system.named_tuple import NamedTuple

UNOWNED_MAX: Final = 8_000
"""Partitions without an owner whose last one is remembered; of others that are released the time is not known."""

Pair = tuple[TopicId, int]


class _Released(NamedTuple):
    """A partition without an owner."""

    owner: str | None
    """The last one; None once an entry has the partition as released."""
    at: Now


class _Causes:
    """Why the group epoch was raised, since the last target or before it."""

    __slots__ = ("began", "epoch", "omitted", "rows", "size")

    def __init__(self, epoch: int, began: Now) -> None:
        self.began = began
        self.epoch = epoch
        """The group epoch that the first of them raised."""
        self.rows: list[CauseEntry] = []
        self.omitted = 0
        self.size = ENTRY_BYTES

    def add(self, entry: CauseEntry) -> None:
        if len(self.rows) < CAUSES_MAX:
            self.rows.append(entry)
            self.size += cause_cost(entry)
        else:
            self.omitted += 1


class _InProgress:
    """The target that members are on their way to."""

    __slots__ = ("assignor", "causes", "epoch", "epoch_before", "moves", "moves_bytes", "moves_omitted", "reached_ms")

    def __init__(self, causes: _Causes, epoch_before: int, epoch: int, assignor: str | None) -> None:
        self.causes = causes
        self.epoch_before = epoch_before
        self.epoch = epoch
        self.assignor = assignor
        self.moves: list[Move] = []
        self.moves_bytes = 0
        self.moves_omitted = 0
        self.reached_ms: dict[str, int] = {}
        """Member id -> how long after the beginning it had reached the target."""

    def add_move(self, move: Move) -> None:
        if len(self.moves) < MOVES_MAX:
            self.moves.append(move)
            self.moves_bytes += move_cost(move)
        else:
            self.moves_omitted += 1


class ConsumerGroupHistory(RebalanceEntries):
    """The rebalances of one consumer group."""

    __slots__ = ("_current", "_missing", "_names", "_pending", "_released", "_seen", "_unowned")

    def __init__(self, entries_max: int) -> None:
        super().__init__(entries_max)
        self._current: _InProgress | None = None
        self._pending: list[_Causes] = []
        """Of group epochs without a target, oldest first; the last one takes what exceeds two."""
        self._missing: set[str] = set()
        """Members that have not reached the current target."""
        self._released: dict[Pair, _Released] = {}
        """Released since the last rebalance that was completed."""
        self._unowned: dict[Pair, _Released] = {}
        """Released earlier, and without an owner since."""
        self._names: dict[TopicId, str] = {}
        self._seen = TopicsSeen()

    def loaded(self, group: ConsumerGroup, now: Now) -> None:
        """The group was loaded. If its members are on their way to a target, that is a rebalance from now on."""
        missing = {m.member_id for m in group.members.values() if not is_reconciled(m, group.assignment_epoch)}
        cause = CauseEntry(RebalanceCause.GROUP_LOADED, now.wall_ms, NO_MEMBER, "")
        if missing:
            causes = _Causes(group.assignment_epoch, now)
            causes.add(cause)
            self._current = _InProgress(causes, group.assignment_epoch, group.assignment_epoch, None)
            self._missing = missing
        if group.epoch > group.assignment_epoch:
            self._cause(group.epoch, now, cause)
        self._recount()

    def converted(self, epoch: int, now: Now) -> None:
        """The group was a classic one until this step."""
        self._cause(epoch, now, CauseEntry(RebalanceCause.PROTOCOL_CHANGED, now.wall_ms, NO_MEMBER, "from classic"))

    def observe(self, before: ConsumerGroup, step: Step, topics: Topics, now: Now) -> list[Rebalance]:
        """Add what one step did; returns the rebalances that it ended."""
        after, ended = step.group, list[Rebalance]()
        for action in step.actions:
            if isinstance(action, EpochRaised):
                self._raised(action, after, topics, now)
        if after.assignment_epoch != before.assignment_epoch:
            if self._current is not None:
                ended.append(self._end(self._current, after, now, is_overtaken=True))
            self._begin(before, step, now)
        changed = list(dict.fromkeys(c.member_id for c in step.changes if isinstance(c, AssignmentChange)))
        self._follow_owners(before, after, changed, topics, now)
        if self._current is not None:
            self._follow_members(self._current, after, changed, now)
            if not self._missing:
                self._add_released(self._current, topics)
                ended.append(self._end(self._current, after, now, is_overtaken=False))
        self._recount()
        return ended

    def end(self, group: ConsumerGroup, now: Now) -> None:
        """The group becomes a classic one: no member gets any further."""
        if self._current is not None:
            self._end(self._current, group, now, is_overtaken=True)
            self._recount()

    def in_progress(self, group: ConsumerGroup) -> list[Rebalance]:
        """The rebalance whose target the members are on their way to, and the one that has no target yet."""
        found = []
        if self._current is not None:
            found.append(_entry(self._current, group))
        if self._pending:
            waiting = _InProgress(_joined(self._pending), group.assignment_epoch, group.epoch, None)
            found.append(_entry(waiting, group))
        return found

    def abandon(self) -> None:
        self._current, self._pending = None, []
        self._missing.clear()
        self._released.clear()
        self._unowned.clear()
        self._names.clear()
        self._seen = TopicsSeen()
        self._recount()

    # Causes, and targets.

    def _raised(self, raised: EpochRaised, after: ConsumerGroup, topics: Topics, now: Now) -> None:
        cause = raised.cause
        grown = self._seen.changes(subscribed_topics(after.members.values(), after.regexes), topics)
        detail = grown if cause.cause is RebalanceCause.TOPICS_CHANGED else cause.detail
        for member in cause.members or (None,):
            name = NO_MEMBER if member is None else _name(member)
            self._cause(raised.epoch, now, CauseEntry(cause.cause, now.wall_ms, name, detail[:NAME_LENGTH_MAX]))

    def _cause(self, epoch: int, now: Now, entry: CauseEntry) -> None:
        if len(self._pending) < PENDING_MAX and not (self._pending and self._pending[-1].epoch == epoch):
            self._pending.append(_Causes(epoch, now))
        self._pending[-1].add(entry)

    def _begin(self, before: ConsumerGroup, step: Step, now: Now) -> None:
        """A target was computed, maybe of an older group epoch than the newest."""
        after = step.group
        epoch = after.assignment_epoch
        due = [causes for causes in self._pending if causes.epoch <= epoch]
        self._pending = self._pending[len(due) :]
        assignor = next((action.assignor for action in step.actions if isinstance(action, TargetAssigned)), None)
        self._current = _InProgress(
            _joined(due) if due else _Causes(epoch, now), before.assignment_epoch, epoch, assignor
        )
        self._missing = set(after.members)

    def _end(self, current: _InProgress, after: ConsumerGroup, now: Now, *, is_overtaken: bool) -> Rebalance:
        self._current = None
        duration_ms = now.monotonic_ms - current.causes.began.monotonic_ms
        ended = _entry(current, after)._replace(
            ended_ms=now.wall_ms, duration_ms=duration_ms, partitions_known=True, is_overtaken=is_overtaken
        )
        if not is_overtaken:
            self.last_duration_ms = duration_ms
        self._append(ended)
        return ended

    def _follow_members(self, current: _InProgress, after: ConsumerGroup, changed: Iterable[str], now: Now) -> None:
        for member_id in changed:
            member = after.members.get(member_id)
            if member is None:
                self._missing.discard(member_id)
            elif not is_reconciled(member, after.assignment_epoch):
                self._missing.add(member_id)
            elif member_id in self._missing:
                self._missing.discard(member_id)
                current.reached_ms[member_id] = now.monotonic_ms - current.causes.began.monotonic_ms

    # Owners.

    def _follow_owners(
        self, before: ConsumerGroup, after: ConsumerGroup, changed: Iterable[str], topics: Topics, now: Now
    ) -> None:
        released, given = dict[Pair, str](), dict[Pair, str]()
        for member_id in changed:
            old, new = before.members.get(member_id), after.members.get(member_id)
            if old is not None and new is not None and _has_same(old, new):
                continue
            held, holds = _pairs(old), _pairs(new)
            if old is not None:
                released.update(dict.fromkeys(held - holds, _key(old)))
            if new is not None:
                given.update(dict.fromkeys(holds - held, _key(new)))
        for pair in sorted(released.keys() - given.keys()):
            self._release(pair, released[pair], topics, now)
        for pair in sorted(given):
            self._give(pair, released.get(pair), given[pair], topics, now)

    def _release(self, pair: Pair, owner: str, topics: Topics, now: Now) -> None:
        self._name_topic(pair[0], topics)
        if len(self._released) + len(self._unowned) < UNOWNED_MAX:
            self._released[pair] = _Released(owner, now)

    def _give(self, pair: Pair, released_now: str | None, owner: str, topics: Topics, now: Now) -> None:
        if released_now == owner:
            return  # The successor of a static member.
        found = _Released(released_now, now) if released_now is not None else self._released.pop(pair, None)
        found = found or self._unowned.pop(pair, None)
        if self._current is None:
            return  # A rebalance that was given up for its memory.
        self._name_topic(pair[0], topics)
        name = self._names[pair[0]]
        if found is None:
            self._current.add_move(Move(name, pair[1], None, owner))
        else:
            without_ms = now.monotonic_ms - found.at.monotonic_ms
            self._current.add_move(Move(name, pair[1], found.owner, owner, found.at.wall_ms, without_ms))

    def _add_released(self, current: _InProgress, topics: Topics) -> None:
        """All members have reached the target: what they released and it has for none of them moved to no member."""
        for pair, found in self._released.items():
            current.add_move(Move(self._names[pair[0]], pair[1], found.owner, None, found.at.wall_ms))
            if topics.name_of(pair[0]) is not None:
                self._unowned[pair] = _Released(None, found.at)
        self._released = {}
        if len(self._unowned) >= UNOWNED_MAX // 2:  # Those of topics that were deleted since are never given again.
            self._unowned = {pair: found for pair, found in self._unowned.items() if topics.name_of(pair[0])}
        self._names = {topic: self._names[topic] for topic, _ in self._unowned}

    def _name_topic(self, topic_id: TopicId, topics: Topics) -> None:
        """A topic that was deleted has no name any more."""
        name = topics.name_of(topic_id)
        if name is not None:
            self._names[topic_id] = name
        else:
            self._names.setdefault(topic_id, self._seen.names.get(topic_id, topic_id_text(topic_id)))

    def _recount(self) -> None:
        rows = len(self._released) + len(self._unowned) + len(self._names) + len(self._seen.names)
        held = self._entries_bytes + PARTITION_BYTES * rows + sum(causes.size for causes in self._pending)
        current = self._current
        if current is not None:
            held += current.causes.size + current.moves_bytes
            held += ROW_BYTES * (len(current.reached_ms) + len(self._missing))
        self.held_bytes = held


PENDING_MAX: Final = 100
"""Group epochs without a target whose causes are kept apart; those of later ones are added to the last."""


def _joined(parts: list[_Causes]) -> _Causes:
    """The causes of several group epochs."""
    whole = _Causes(parts[0].epoch, parts[0].began)
    for part in parts:
        whole.omitted += part.omitted
        for entry in part.rows:
            whole.add(entry)
    return whole


def _entry(current: _InProgress, group: ConsumerGroup) -> Rebalance:
    """A rebalance that has not ended, and the members of the group."""
    rows: list[MemberEntry] = []
    for member in group.members.values():
        if len(rows) == MEMBERS_MAX:
            break
        count = sum(map(len, member.assigned.values()))
        rows.append(MemberEntry(_name(member), count, current.reached_ms.get(member.member_id, -1)))
    return Rebalance(
        current.causes.began.wall_ms,
        -1,
        -1,
        current.epoch_before,
        current.epoch,
        current.assignor,
        tuple(current.causes.rows),
        current.causes.omitted,
        tuple(rows),
        len(group.members) - len(rows),
        partitions_known=True,
        moves=tuple(current.moves),
        moves_omitted=current.moves_omitted,
        is_consumer=True,
    )


def _has_same(old: ConsumerMember, new: ConsumerMember) -> bool:
    """Whether a member owns what it did: the most frequent step is one that changes its epoch alone."""
    return old.assigned == new.assigned and old.pending_revocation == new.pending_revocation


def _pairs(member: ConsumerMember | None) -> set[Pair]:
    """What a member owns, with what it has yet to release."""
    if member is None:
        return set()
    parts = (member.assigned, member.pending_revocation)
    return {(topic, partition) for part in parts for topic, epochs in part.items() for partition in epochs}


def _key(member: ConsumerMember) -> str:
    """A static member is the same one after a restart."""
    return (member.instance_id or member.member_id)[:NAME_LENGTH_MAX]


def _name(member: ConsumerMember) -> MemberName:
    instance_id = member.instance_id
    return MemberName(
        member.member_id[:NAME_LENGTH_MAX],
        None if instance_id is None else instance_id[:NAME_LENGTH_MAX],
        member.client_id[:NAME_LENGTH_MAX],
        member.client_host[:NAME_LENGTH_MAX],
    )
