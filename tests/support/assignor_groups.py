"""Random groups for the assignors: made by a seed, then changed as groups change."""

from __future__ import annotations

import random
import uuid
from collections.abc import Generator, Iterable, Mapping
from typing import TypeVar

from sordini.broker.groups.consumer.machine.assignors.by_name import ASSIGNORS
from sordini.broker.groups.consumer.machine.assignors.group import Assignment, Group, Member
from sordini.protocol.types import TopicId

T = TypeVar("T")
PARTITIONS = (0, 1, 1, 2, 3, 3, 4, 6, 8, 12, 16, 30, 100)


def result_of(work: Generator[int, None, T]) -> T:
    """Do all of it at once."""
    while True:
        try:
            assert next(work) >= 0
        except StopIteration as end:
            result: T = end.value
            return result


def group_of(members: Mapping[str, Member], partition_counts: Mapping[TopicId, int]) -> Group:
    return Group(members, partition_counts, len({member.subscribed_topics for member in members.values()}) <= 1)


def assigned(name: str, group: Group) -> Assignment:
    return result_of(ASSIGNORS[name](group))


def topic_id(number: int) -> TopicId:
    return TopicId(number.to_bytes(16, "big"))


def fresh(subscriptions: Iterable[Iterable[TopicId]], counts: Mapping[TopicId, int]) -> Group:
    """A group whose members m0, m1... have no partitions yet."""
    return group_of({f"m{number}": Member(frozenset(each)) for number, each in enumerate(subscriptions)}, counts)


def with_target(group: Group, assignment: Assignment) -> Group:
    """The group once the assignment is its target."""
    members = {name: member._replace(target=assignment[name]) for name, member in group.members.items()}
    return group._replace(members=members)


class GroupMaker:
    """Groups of one seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def group(self) -> Group:
        """A group with or without a target, which may be that of either assignor, or any."""
        draw = self._random
        topics = [TopicId(draw.randbytes(16)) for _ in range(draw.choice((0, 1, 1, 2, 3, 5, 10, 30, 70)))]
        counts = {each: draw.choice(PARTITIONS) for each in topics}
        is_homogeneous = draw.random() < 0.5
        everything = frozenset(topics)
        members = {}
        for _ in range(draw.choice((0, 1, 2, 2, 3, 3, 5, 8, 13, 40, 110))):
            subscribed = everything if is_homogeneous else self._some(topics)
            members[self._member_id()] = Member(subscribed, instance_id=self._instance_id())
        group = group_of(members, counts)
        for _ in range(draw.choice((0, 1, 1, 2, 4))):
            way = draw.random()
            assignment = self._any_target(group) if way < 0.2 else assigned("uniform" if way < 0.8 else "range", group)
            group = self.changed(with_target(group, assignment))
        return group

    def changed(self, group: Group) -> Group:
        """Members leave and join, change their subscriptions and are replaced, topics grow, are added and deleted."""
        draw = self._random
        members, counts = dict(group.members), dict(group.partition_counts)
        for _ in range(draw.choice((0, 1, 1, 2, 5))):
            change = draw.randrange(7)
            if change == 0 and members:
                del members[draw.choice(sorted(members))]
            elif change in (1, 2):
                subscribed = frozenset(counts) if group.is_homogeneous else self._some(list(counts))
                members[self._member_id()] = Member(subscribed, instance_id=self._instance_id())
            elif change == 3 and counts:
                counts[draw.choice(sorted(counts))] += draw.choice((1, 2, 10))
            elif change == 4:
                added = TopicId(draw.randbytes(16))
                counts[added] = draw.choice(PARTITIONS)
                members = {
                    name: member._replace(subscribed_topics=member.subscribed_topics | {added})
                    for name, member in members.items()
                    if group.is_homogeneous or draw.random() < 0.5
                }
            elif change == 5 and counts:
                deleted = draw.choice(sorted(counts))
                del counts[deleted]
                members = {
                    name: member._replace(subscribed_topics=member.subscribed_topics - {deleted})
                    for name, member in members.items()
                }
            elif change == 6 and members:
                name = draw.choice(sorted(members))
                subscribed = self._some(list(counts))
                members[name] = members[name]._replace(subscribed_topics=subscribed)
        return group_of(members, counts)

    def _some(self, topics: list[TopicId]) -> frozenset[TopicId]:
        return frozenset(self._random.sample(topics, self._random.randint(0, len(topics))))

    def _member_id(self) -> str:
        """As clients make them, or short ones, beyond ASCII too."""
        draw = self._random
        if draw.random() < 0.5:
            return str(uuid.UUID(bytes=draw.randbytes(16)))
        return "".join(draw.choice("abcXYZ019-_.é中\U0001f600\uffee") for _ in range(draw.randint(8, 12)))

    def _instance_id(self) -> str | None:
        return self._member_id() if self._random.random() < 0.3 else None

    def _any_target(self, group: Group) -> Assignment:
        """Partitions with any of the members, subscribed or not, some with none."""
        draw = self._random
        names = sorted(group.members)
        targets: dict[str, dict[TopicId, set[int]]] = {name: {} for name in names}
        for each, count in group.partition_counts.items():
            for partition in range(count):
                if names and draw.random() < 0.8:
                    targets[draw.choice(names)].setdefault(each, set()).add(partition)
        return {
            name: {each: frozenset(partitions) for each, partitions in target.items()}
            for name, target in targets.items()
        }
