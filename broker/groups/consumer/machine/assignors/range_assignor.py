"""`range`: each topic's partitions in consecutive ranges, the first members with one more where they do not divide.

Members are in the order of their ids, static members before the others in the order of their instance ids, the same
for each topic: topics with equal partition counts and subscribers have the same partition with the same member, so that
they can be joined. The target so far plays no part.
"""

from __future__ import annotations

from collections.abc import Generator

from sordini.broker.groups.consumer.machine.assignors.group import Assignment, Group
from sordini.protocol.types import TopicId


def assign_ranges(group: Group) -> Generator[int, None, Assignment]:
    """An `Assignor`."""
    ordered = sorted(group.members, key=lambda member_id: _rank(member_id, group.members[member_id].instance_id))
    yield len(ordered)
    assigned: dict[str, dict[TopicId, frozenset[int]]] = {member_id: {} for member_id in ordered}
    if group.is_homogeneous:
        topic_ids = group.members[ordered[0]].subscribed_topics if ordered else frozenset()
        subscribers = dict.fromkeys(topic_ids, ordered)
    else:
        subscribers = {}
        for member_id in ordered:
            topic_ids = group.members[member_id].subscribed_topics
            for topic_id in topic_ids:
                subscribers.setdefault(topic_id, []).append(member_id)
            yield 1 + len(topic_ids)
    for topic_id, member_ids in subscribers.items():
        count = group.partition_counts[topic_id]
        yield 1 + count
        minimum, more = divmod(count, len(member_ids))
        start = 0
        for index, member_id in enumerate(member_ids[:count]):  # Those behind get nothing.
            end = start + minimum + (index < more)
            assigned[member_id][topic_id] = frozenset(range(start, end))
            start = end
    return dict(assigned)


def _rank(member_id: str, instance_id: str | None) -> tuple[bool, bytes]:
    """Java compares strings by UTF-16 code units."""
    text = member_id if instance_id is None else instance_id
    return instance_id is None, text.encode("utf-16-be", "surrogatepass")
