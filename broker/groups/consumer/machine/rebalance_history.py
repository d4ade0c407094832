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
from sordini.broker.groups.consumer.machine.events import EpochRaised, Now, Step, Topics
from sordini.broker.groups.consumer.machine.state import ConsumerGroup, ConsumerMember, is_reconciled
from sordini.broker.groups.consumer.machine.target import subscribed_topics
from sordini.broker.groups.consumer.machine.target_history import TargetHistory, member_name
from sordini.broker.groups.consumer.machine.target_rebalance import TargetRebalance
from sordini.broker.groups.machine.partition_moves import PARTITION_BYTES, Move
from sordini.broker.groups.machine.rebalance_cause import RebalanceCause
from sordini.broker.groups.machine.rebalance_history import NAME_LENGTH_MAX, NO_MEMBER, CauseEntry, Rebalance
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


class ConsumerGroupHistory(TargetHistory[ConsumerGroup]):
    """The rebalances of one consumer group."""

    __slots__ = ("_released", "_unowned")

    def __init__(self, entries_max: int) -> None:
        super().__init__(entries_max)
        self._released: dict[Pair, _Released] = {}
        """Released since the last rebalance that was completed."""
        self._unowned: dict[Pair, _Released] = {}
        """Released earlier, and without an owner since."""

    def converted(self, epoch: int, now: Now) -> None:
        """The group was a classic one until this step."""
        cause = CauseEntry(RebalanceCause.PROTOCOL_CHANGED, now.wall_ms, NO_MEMBER, "from classic")
        self._pending.add(epoch, now, cause)

    def observe(self, before: ConsumerGroup, step: Step, topics: Topics, now: Now) -> list[Rebalance]:
        """Add what one step did; returns the rebalances that it ended."""
        after, ended = step.group, list[Rebalance]()
        for action in step.actions:
            if isinstance(action, EpochRaised):
                self._raised(action, after, topics, now)
        if after.assignment_epoch != before.assignment_epoch:
            if self._current is not None:
                ended.append(self._end(self._current, after, now, is_overtaken=True))
            self._begin(before, after, step.actions, now)
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

    def abandon(self) -> None:
        self._released.clear()
        self._unowned.clear()
        super().abandon()

    def _missing_of(self, group: ConsumerGroup) -> set[str]:
        return {m.member_id for m in group.members.values() if not is_reconciled(m, group.assignment_epoch)}

    def _held_more(self) -> int:
        return PARTITION_BYTES * (len(self._released) + len(self._unowned))

    def _entry(self, current: TargetRebalance, group: ConsumerGroup) -> Rebalance:
        return super()._entry(current, group)._replace(is_consumer=True)

    # Causes, and targets.

    def _raised(self, raised: EpochRaised, after: ConsumerGroup, topics: Topics, now: Now) -> None:
        cause = raised.cause
        grown = self._seen.changes(subscribed_topics(after.members.values(), after.regexes), topics)
        detail = grown if cause.cause is RebalanceCause.TOPICS_CHANGED else cause.detail
        for member in cause.members or (None,):
            name = NO_MEMBER if member is None else member_name(member)
            entry = CauseEntry(cause.cause, now.wall_ms, name, detail[:NAME_LENGTH_MAX])
            self._pending.add(raised.epoch, now, entry)

    def _follow_members(self, current: TargetRebalance, after: ConsumerGroup, changed: Iterable[str], now: Now) -> None:
        for member_id in changed:
            member = after.members.get(member_id)
            if member is None:
                self._missing.discard(member_id)
            elif not is_reconciled(member, after.assignment_epoch):
                self._missing.add(member_id)
            elif member_id in self._missing:
                self._missing.discard(member_id)
                current.reached(member_id, now)

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
            self._current.moves.add(Move(name, pair[1], None, owner))
        else:
            without_ms = now.monotonic_ms - found.at.monotonic_ms
            self._current.moves.add(Move(name, pair[1], found.owner, owner, found.at.wall_ms, without_ms))

    def _add_released(self, current: TargetRebalance, topics: Topics) -> None:
        """All members have reached the target: what they released and it has for none of them moved to no member."""
        for pair, found in self._released.items():
            current.moves.add(Move(self._names[pair[0]], pair[1], found.owner, None, found.at.wall_ms))
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
