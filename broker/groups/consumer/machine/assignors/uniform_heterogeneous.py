"""`uniform` where members subscribe to different topics: as even as the subscriptions allow, and with few moves.

1. A member keeps what it has of the topics it subscribes to.
2. Partitions without an owner go to the subscriber with the fewest, topic by topic. Topics with the most partitions per
   subscriber come first: the others then even out what these leave.
3. Topic by topic, partitions move from the subscribers with the most partitions to those with the fewest, until they
   differ by one at most or the former have none of this topic. Moves for one topic may unbalance another: rounds over
   all topics are repeated until nothing moves, and ROUNDS_MAX times at most.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Final

from sordini.broker.groups.consumer.machine.assignors.group import Assignment, Group
from sordini.broker.groups.consumer.machine.assignors.load_levels import LoadLevels
from sordini.protocol.types import TopicId

ROUNDS_MAX: Final = 16
_COMPARISONS_PER_STEP: Final = 16
"""Of members that are sorted by their load."""
_Steps = Generator[int, None, None]


class HeterogeneousAssignment:
    """One computation. Members are numbers: their positions in the order in which they are considered."""

    def __init__(self, group: Group, member_ids: Sequence[str]) -> None:
        self._group = group
        self._member_ids = member_ids
        self._loads = [0] * len(member_ids)
        self._subscribers: dict[TopicId, list[int]] = {}
        self._owners: dict[TopicId, list[int | None]] = {}

    def run(self) -> Generator[int, None, Assignment]:
        """Do all of it; returns the target assignment."""
        yield from self._subscribe()
        yield from self._keep()
        topic_ids = yield from self._topics_in_order()
        yield from self._assign_unowned(topic_ids)
        yield from self._balance([topic_id for topic_id in topic_ids if len(self._subscribers[topic_id]) > 1])
        return (yield from self._assignment())

    def _subscribe(self) -> _Steps:
        for number, member_id in enumerate(self._member_ids):
            topic_ids = self._group.members[member_id].subscribed_topics
            for topic_id in topic_ids:
                self._subscribers.setdefault(topic_id, []).append(number)
            yield 1 + len(topic_ids)
        for topic_id in self._subscribers:
            self._owners[topic_id] = [None] * self._group.partition_counts[topic_id]
            yield 1

    def _keep(self) -> _Steps:
        for number, member_id in enumerate(self._member_ids):
            member = self._group.members[member_id]
            for topic_id, partitions in member.target.items():
                if topic_id in member.subscribed_topics:
                    owners = self._owners[topic_id]
                    for partition in partitions:
                        owners[partition] = number
                    self._loads[number] += len(partitions)
                yield 1 + len(partitions)
            yield 1

    def _topics_in_order(self) -> Generator[int, None, list[TopicId]]:
        ranks: dict[TopicId, tuple[float, int, int, int]] = {}
        for topic_id, subscribers in self._subscribers.items():
            partitions_each = self._group.partition_counts[topic_id] / len(subscribers)
            high, low = (int.from_bytes(half, "big", signed=True) for half in (topic_id[:8], topic_id[8:]))
            ranks[topic_id] = -partitions_each, len(subscribers), high, low
            yield 1
        return sorted(ranks, key=ranks.__getitem__)

    def _assign_unowned(self, topic_ids: Sequence[TopicId]) -> _Steps:
        for topic_id in topic_ids:
            owners = self._owners[topic_id]
            yield 1 + len(owners)
            if None not in owners:
                continue
            levels = self._levels_of(topic_id)
            yield len(self._subscribers[topic_id]) // _COMPARISONS_PER_STEP
            for partition, owner in enumerate(owners):
                if owner is None:
                    self._give(owners, partition, levels.next_with_fewest())

    def _balance(self, topic_ids: Sequence[TopicId]) -> _Steps:
        balanced = 0
        """How many topics in a row, up to the last one, have been balanced without a move after them."""
        for _ in range(ROUNDS_MAX):
            for topic_id in topic_ids:
                moves = yield from self._balance_topic(topic_id)
                balanced = 1 if moves else balanced + 1
                if balanced == len(topic_ids):
                    return

    def _balance_topic(self, topic_id: TopicId) -> Generator[int, None, int]:
        """Returns the number of moves."""
        loads = [self._loads[number] for number in self._subscribers[topic_id]]
        yield 1 + len(loads) // _COMPARISONS_PER_STEP
        if max(loads) - min(loads) <= 1:
            return 0
        owners = self._owners[topic_id]
        owned: dict[int, list[int]] = {}
        for partition, owner in enumerate(owners):
            assert owner is not None
            owned.setdefault(owner, []).append(partition)
        levels = self._levels_of(topic_id)
        moves = 0
        while (giver := self._next_giver(levels, owned)) is not None:
            partition = owned[giver].pop()
            receiver = levels.next_with_fewest()
            if levels.is_balanced:
                break
            self._loads[giver] -= 1
            self._give(owners, partition, receiver)
            moves += 1
        yield len(owners) + len(loads)
        return moves

    @staticmethod
    def _next_giver(levels: LoadLevels, owned: dict[int, list[int]]) -> int | None:
        """The subscriber with the most partitions of those that have one of the topic; None ends the topic."""
        while not levels.is_balanced:
            number = levels.next_with_most()
            if number is None or owned.get(number):
                return number
            levels.exclude()
        return None

    def _levels_of(self, topic_id: TopicId) -> LoadLevels:
        return LoadLevels(self._loads, self._subscribers[topic_id])

    def _give(self, owners: list[int | None], partition: int, number: int) -> None:
        owners[partition] = number
        self._loads[number] += 1

    def _assignment(self) -> Generator[int, None, Assignment]:
        assigned: list[dict[TopicId, set[int]]] = [{} for _ in self._member_ids]
        for topic_id, owners in self._owners.items():
            for partition, owner in enumerate(owners):
                assert owner is not None
                assigned[owner].setdefault(topic_id, set()).add(partition)
            yield 1 + len(owners)
        assignment: Assignment = {}
        for member_id, by_topic in zip(self._member_ids, assigned, strict=True):
            assignment[member_id] = {topic_id: frozenset(partitions) for topic_id, partitions in by_topic.items()}
            yield 1 + len(by_topic)
        return assignment
