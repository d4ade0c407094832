"""`simple`: a share group's partitions over its members, evenly, each partition with as many members as it takes.

With more members than partitions a partition has several members, and no member goes without one. A member keeps what
it has where that allows. Where all members subscribe to the same topics, all partitions are one pool; otherwise each
topic is a pool of its own, for its subscribers.

In a pool a partition has `sharing` members, the members by the partitions, rounded up; the places are spread over the
members in the order of their ids' hashes. Who gives up and who gets a partition depends on the order in which Java
iterates hash tables (`java_order.py`); it is the same here.

A group that holds partitions which are not assignable any more may have assignable ones without a member, as in Apache
Kafka 4.4.0, whose class sometimes fails there. It does not come to that: states are deleted of groups without members.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Mapping, Sequence
from math import ceil
from typing import Generic, TypeVar

from sordini.broker.groups.consumer.machine.assignors.group import NO_PARTITIONS, Member, Partitions
from sordini.broker.groups.consumer.machine.assignors.java_order import (
    hash_order,
    hash_table_buckets,
    member_id_order,
    partition_order,
    target_topic_order,
    topic_id_hash,
)
from sordini.protocol.types import TopicId
from sordini.system.named_tuple import NamedTuple

Assignment = dict[str, Partitions]
K = TypeVar("K", bound=Hashable)
_Steps = Generator[int, None, None]


class AssignableGroup(NamedTuple):
    """A share group, as the assignor sees it."""

    members: Mapping[str, Member]
    assignable: Mapping[TopicId, frozenset[int]]
    """The partitions whose states are initialized, of every topic that exists and that a member subscribes to."""
    is_homogeneous: bool
    """Whether all members subscribe to the same names, existing or not."""


def assign_simply(group: AssignableGroup) -> Generator[int, None, Assignment]:
    """The target of every member; yields the steps made since the last time."""
    member_ids = yield from member_id_order(group.members)
    members = [group.members[member_id] for member_id in member_ids]
    topic_ids = sorted(frozenset().union(*(member.subscribed_topics for member in members)))
    if not topic_ids:
        return dict.fromkeys(member_ids, NO_PARTITIONS)
    assigned = [{topic: set(partitions) for topic, partitions in member.target.items()} for member in members]
    if group.is_homogeneous:
        yield from _assign_one_pool(group, members, topic_ids, assigned)
    else:
        for topic_id in topic_ids:
            yield from _assign_topic(group, members, topic_id, assigned)
    return {
        member_id: {topic: frozenset(partitions) for topic, partitions in found.items()}
        for member_id, found in zip(member_ids, assigned, strict=True)
    }


def _assign_one_pool(
    group: AssignableGroup,
    members: Sequence[Member],
    topic_ids: Sequence[TopicId],
    assigned: Sequence[dict[TopicId, set[int]]],
) -> _Steps:
    targets = [(topic, index) for topic in topic_ids for index in sorted(group.assignable.get(topic, ()))]
    pool = _Pool[tuple[TopicId, int]](range(len(members)), targets, _partition_hash)
    for number, member in enumerate(members):
        for topic in (yield from target_topic_order(member.target)):
            if topic in member.subscribed_topics:
                pool.has(number, [(topic, index) for index in partition_order(member.target[topic])])
            else:
                del assigned[number][topic]
        yield 1 + len(member.target)
    yield from pool.balance()
    for number, (topic, index) in pool.taken:
        assigned[number][topic].discard(index)
    for number, (topic, index) in pool.given:
        assigned[number].setdefault(topic, set()).add(index)


def _assign_topic(
    group: AssignableGroup,
    members: Sequence[Member],
    topic_id: TopicId,
    assigned: Sequence[dict[TopicId, set[int]]],
) -> _Steps:
    subscribers = [number for number, member in enumerate(members) if topic_id in member.subscribed_topics]
    pool = _Pool[int](subscribers, sorted(group.assignable.get(topic_id, ())), lambda index: index)
    for number, member in enumerate(members):
        pool.has(number, partition_order(member.target.get(topic_id, frozenset())))
        yield 1
    yield from pool.balance()
    for number, index in pool.taken:
        assigned[number][topic_id].discard(index)
    for number, index in pool.given:
        assigned[number].setdefault(topic_id, set()).add(index)


class _Pool(Generic[K]):
    """Partitions, and the members that may have them, which are numbers in the order of consideration."""

    def __init__(self, members: Sequence[int], targets: Sequence[K], hash_of: Callable[[K], int]) -> None:
        self.taken: list[tuple[int, K]] = []
        self.given: list[tuple[int, K]] = []
        self._targets = targets
        self._hash_of = hash_of
        count = len(targets)
        self._sharing = (len(members) + count - 1) // count if count else 0
        each = self._sharing * count / len(members)
        self._desired = {number: ceil(each * (place + 1)) - ceil(each * place) for place, number in enumerate(members)}
        self._members = members
        self._held: dict[int, dict[K, None]] = {}
        self._holders: dict[K, dict[int, None]] = {}

    def has(self, number: int, partitions: Iterable[K]) -> None:
        """A member has these so far, in this order."""
        for partition in partitions:
            self._held.setdefault(number, {})[partition] = None
            self._holders.setdefault(partition, {})[number] = None

    def balance(self) -> _Steps:
        """Take from those with too many, then from partitions with too many members, and give to those with too few."""
        sizes = {partition: len(holders) for partition, holders in self._holders.items()}
        yield from self._take_from_members()
        yield from self._take_from_partitions(sizes)
        yield from self._give(self._add_targets())

    def _take_from_members(self) -> _Steps:
        for number, held in self._held.items():
            surplus = len(held) - self._desired.get(number, 0)
            if surplus > 0:
                for partition in hash_order(held, self._hash_of, hash_table_buckets(len(held)))[:surplus]:
                    self._take(number, partition)
            yield 1 + len(held)

    def _take_from_partitions(self, sizes: Mapping[K, int]) -> _Steps:
        """`sizes` are the numbers of members before any was taken: a hash table does not shrink."""
        for partition, holders in self._holders.items():
            surplus = len(holders) - self._sharing
            if surplus > 0:
                for number in hash_order(holders, int, hash_table_buckets(sizes[partition]))[:surplus]:
                    self._take(number, partition)
            yield 1 + len(holders)

    def _take(self, number: int, partition: K) -> None:
        del self._held[number][partition]
        del self._holders[partition][number]
        self.taken.append((number, partition))

    def _add_targets(self) -> int:
        """Partitions without members become keys, too. Returns the number of buckets of Java's table of keys.

        Its `computeIfAbsent` grows a table before it looks for the key: the last key is counted if it was there.
        """
        was_there = bool(self._targets) and self._targets[-1] in self._holders
        for partition in self._targets:
            self._holders.setdefault(partition, {})
        counted = len(self._holders) if was_there else len(self._holders) - 1
        return hash_table_buckets(counted, for_elements=len(self._targets))

    def _give(self, buckets: int) -> _Steps:
        below = {number: None for number in self._members if len(self._held.get(number, ())) < self._desired[number]}
        remaining, has_given = iter(list(below)), False
        # `computeIfAbsent` puts a key before the others of its bucket.
        for partition in hash_order(reversed(self._holders), self._hash_of, buckets):
            holders, missing = self._holders[partition], self._sharing - len(self._holders[partition])
            while missing > 0 and below:
                number = next(remaining, None)
                if number is None:
                    if not has_given:
                        break
                    remaining, has_given = iter(list(below)), False
                    continue
                if number in holders:
                    continue
                held = self._held.setdefault(number, {})
                held[partition] = None
                self.given.append((number, partition))
                missing, has_given = missing - 1, True
                if len(held) >= self._desired[number]:
                    del below[number]
                yield 1
            if not below:
                return
            yield 1


def _partition_hash(partition: tuple[TopicId, int]) -> int:
    topic_id, index = partition
    return (31 * topic_id_hash(topic_id) + index) & 0xFFFFFFFF
