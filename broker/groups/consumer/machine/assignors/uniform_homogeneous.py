"""`uniform` where all members subscribe to the same topics: two members' numbers of partitions differ by one at most.

Each member may have the quotient of partitions by members, and as many members as the remainder says one more. In one
pass members keep what they have up to their quota; what is above it, and what has no owner, goes to those below theirs.
One more is granted to the first members that need it for what they have, and to the last ones if none do: nothing moves
for the sake of the remainder.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

from sordini.broker.groups.consumer.machine.assignors.group import Assignment, Group, Partitions
from sordini.broker.groups.consumer.machine.assignors.java_order import (
    partition_order,
    subscribed_topic_order,
    target_topic_order,
)
from sordini.protocol.types import TopicId

_Unassigned = list[tuple[TopicId, int]]


def assign_homogeneous(group: Group, member_ids: Sequence[str]) -> Generator[int, None, Assignment]:
    """The target assignment, members considered in the order of `member_ids`."""
    if not member_ids:
        return {}
    topic_ids = group.members[member_ids[0]].subscribed_topics
    unassigned = yield from _without_owner(group, topic_ids)
    minimum, more = divmod(sum(group.partition_counts[topic_id] for topic_id in topic_ids), len(member_ids))
    assignment: Assignment = {}
    below_quota: list[tuple[str, int]] = []
    for index, member_id in enumerate(member_ids):
        target = group.members[member_id].target
        quota = minimum + (more > 0)
        assignment[member_id], missing = yield from _keep(target, topic_ids, quota, unassigned)
        has_one_more = more > 0
        if missing and has_one_more and len(member_ids) - index > more:
            missing -= 1  # Enough members are left for those.
            has_one_more = False
        more -= has_one_more
        if missing:
            below_quota.append((member_id, missing))
    start = 0
    for member_id, missing in below_quota:
        given = unassigned[start : start + missing]
        start += missing
        if given:
            assignment[member_id] = _with_more(assignment[member_id], given)
        yield 1 + len(given)
    assert start >= len(unassigned)
    return assignment


def _without_owner(group: Group, topic_ids: frozenset[TopicId]) -> Generator[int, None, _Unassigned]:
    owned: dict[TopicId, set[int]] = {}
    for member in group.members.values():
        for topic_id, partitions in member.target.items():
            owned.setdefault(topic_id, set()).update(partitions)
        yield 1 + len(member.target)
    unassigned: _Unassigned = []
    for topic_id in (yield from subscribed_topic_order(topic_ids)):
        count, others = group.partition_counts[topic_id], owned.get(topic_id, ())
        if len(others) < count:
            unassigned += [(topic_id, partition) for partition in range(count) if partition not in others]
        yield 1 + count
    return unassigned


def _keep(
    target: Partitions, topic_ids: frozenset[TopicId], quota: int, unassigned: _Unassigned
) -> Generator[int, None, tuple[Partitions, int]]:
    """What a member keeps of its target, and how much it is below its quota then; the rest becomes unassigned."""
    count = sum(map(len, target.values()))
    yield 1 + len(target)
    if count <= quota and target.keys() <= topic_ids:
        return target, quota - count
    kept: dict[TopicId, frozenset[int]] = {}
    for topic_id in (yield from target_topic_order(target)):
        if topic_id not in topic_ids:
            continue
        partitions = target[topic_id]
        if len(partitions) > quota:
            ordered = partition_order(partitions)
            unassigned += [(topic_id, partition) for partition in ordered[quota:]]
            partitions = frozenset(ordered[:quota])
        quota -= len(partitions)
        if partitions:
            kept[topic_id] = partitions
        yield 1 + len(target[topic_id])
    return kept, quota


def _with_more(partitions: Partitions, given: _Unassigned) -> Partitions:
    by_topic: dict[TopicId, list[int]] = {}
    for topic_id, partition in given:
        by_topic.setdefault(topic_id, []).append(partition)
    more = {topic_id: partitions.get(topic_id, frozenset()).union(new) for topic_id, new in by_topic.items()}
    return {**partitions, **more}
