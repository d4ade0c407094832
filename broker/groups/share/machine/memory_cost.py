"""What a share group occupies in memory, for `sordini.group.memory.bytes.max`. Sizes are CPython's, rounded up."""

from __future__ import annotations

from typing import Final

from sordini.broker.groups.share.machine.events import ShareHeartbeat
from sordini.broker.groups.share.machine.state import Partitions, PartitionStates, ShareGroup, ShareMember

MEMBER_BYTES: Final = 1_600
"""A member with its entries in the group's mappings, and its newest connection."""
TOPIC_BYTES: Final = 600
"""One topic of what a member has, in its assignment and in its target; and one in the states."""
PARTITION_BYTES: Final = 200
NAME_BYTES: Final = 90
"""A subscribed topic, besides its letters."""


def group_cost(group: ShareGroup | None) -> int:
    """What members and states cost; the group itself is counted by the caller."""
    if group is None:
        return 0
    return sum(map(_member_cost, group.members.values())) + _states_cost(group.states)


def cost_change(before: ShareGroup | None, after: ShareGroup) -> int:
    """By how much a group costs more. Groups that share their members and states are not counted again."""
    if before is not None and before.members is after.members and before.states is after.states:
        return 0
    return group_cost(after) - group_cost(before)


def added_cost(member: ShareMember | None, event: ShareHeartbeat) -> int:
    """By how much a member costs more with what a heartbeat says of it; None for a new one."""
    known = member or ShareMember(event.member_id)
    topics = known.subscribed_topics if event.subscribed_topics is None else event.subscribed_topics
    said = _said_cost(known._replace(subscribed_topics=topics, client_id=event.client_id))
    return said - (0 if member is None else _said_cost(member))


def _member_cost(member: ShareMember) -> int:
    return _said_cost(member) + _partitions_cost(member.assigned)


def _said_cost(member: ShareMember) -> int:
    names = sum(NAME_BYTES + len(name) for name in member.subscribed_topics)
    return MEMBER_BYTES + len(member.member_id) + len(member.client_id) + names


def _partitions_cost(partitions: Partitions) -> int:
    return sum(TOPIC_BYTES + PARTITION_BYTES * len(indexes) for indexes in partitions.values())


def _states_cost(states: PartitionStates | None) -> int:
    if states is None:
        return 0
    topics = (*states.initializing.values(), *states.initialized.values())
    return sum(TOPIC_BYTES + PARTITION_BYTES * len(topic.partitions) for topic in topics) + TOPIC_BYTES * len(
        states.deleting
    )
