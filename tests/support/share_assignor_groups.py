"""Random share groups for the assignor: made by a seed, with targets that the assignor made of other groups."""

from __future__ import annotations

import random
from collections.abc import Mapping

from sordini.broker.groups.consumer.machine.assignors.group import Member, Partitions
from sordini.broker.groups.share.machine.simple_assignor import AssignableGroup, Assignment, assign_simply
from sordini.protocol.types import TopicId
from tests.support.assignor_groups import result_of

COUNTS = (0, 1, 1, 2, 3, 3, 4, 6, 8, 12, 16, 30, 100)
MEMBERS = (0, 1, 1, 2, 3, 4, 5, 8, 13, 20, 40)
STEPS_MAX = 3


def assigned(group: AssignableGroup) -> Assignment:
    return result_of(assign_simply(group))


def share_group(members: Mapping[str, Member], assignable: Mapping[TopicId, frozenset[int]]) -> AssignableGroup:
    return AssignableGroup(members, assignable, len({one.subscribed_topics for one in members.values()}) < 2)


class ShareGroupMaker:
    """Groups of one seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def group(self) -> AssignableGroup:
        """A group whose target is that of some groups before it, as if members and topics had changed meanwhile."""
        draw = self._random
        topics = [TopicId(draw.randbytes(16)) for _ in range(draw.choice((1, 1, 2, 3, 5, 10)))]
        counts = {topic: draw.choice(COUNTS) for topic in topics}
        is_homogeneous = draw.random() < 0.5
        targets: dict[str, Partitions] = {}
        group = self._grown({}, topics, counts, is_homogeneous=is_homogeneous)
        for _ in range(draw.randrange(STEPS_MAX + 1)):
            targets = assigned(group) if draw.random() < 0.9 else self._any_targets(group, counts)
            if draw.random() < 0.2:
                is_homogeneous = not is_homogeneous
            group = self._grown(targets, topics, counts, is_homogeneous=is_homogeneous)
        return group

    def _grown(
        self,
        targets: Mapping[str, Partitions],
        topics: list[TopicId],
        counts: dict[TopicId, int],
        *,
        is_homogeneous: bool,
    ) -> AssignableGroup:
        draw = self._random
        names = [name for name in targets if draw.random() < 0.8]
        names += [f"{draw.getrandbits(64):x}-é" for _ in range(draw.choice(MEMBERS))]
        for topic in topics:
            if draw.random() < 0.2:
                counts[topic] += draw.choice((1, 2, 5))
        same = frozenset(topic for topic in topics if draw.random() < 0.8)
        members = {}
        for name in dict.fromkeys(names):
            subscribed = same if is_homogeneous else frozenset(topic for topic in topics if draw.random() < 0.6)
            members[name] = Member(subscribed, targets.get(name, {}))
        return share_group(members, {topic: self._assignable(count) for topic, count in counts.items()})

    def _assignable(self, count: int) -> frozenset[int]:
        """Most often all partitions: a few may not be initialized yet."""
        draw = self._random
        if draw.random() < 0.7:
            return frozenset(range(count))
        return frozenset(index for index in range(count) if draw.random() < 0.8)

    def _any_targets(self, group: AssignableGroup, counts: Mapping[TopicId, int]) -> dict[str, Partitions]:
        draw = self._random
        return {
            name: {
                topic: frozenset(draw.sample(range(count), draw.randrange(count + 1)))
                for topic, count in counts.items()
                if draw.random() < 0.5
            }
            for name in group.members
        }
