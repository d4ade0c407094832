"""What the members of a classic group of consumers subscribe to, as their metadata says.

For groups of the consumer protocol it is `consumer/machine/target.py`; `coordinator.subscribed_topics` asks the one
that fits the group.
"""

from __future__ import annotations

from sordini.broker.groups.machine.state import Group
from sordini.protocol.consumer_subscription import CONSUMER_PROTOCOL, read_subscribed_topics


def subscribed_topics(group: Group) -> frozenset[str] | None:
    """The topics that the members subscribe to; None if unknown: no consumers, or invalid metadata."""
    if group.protocol_type != CONSUMER_PROTOCOL:
        return None
    if not group.members:
        return frozenset()
    if group.protocol_name is None:
        return None
    topics = set[str]()
    for member in group.members.values():
        subscription = read_subscribed_topics(member.metadata(group.protocol_name))
        if subscription is None:
            return None
        topics.update(subscription)
    return frozenset(topics)


def is_subscribed(group: Group, topic: str) -> bool:
    """Whether a member subscribes to the topic; true if unknown."""
    topics = subscribed_topics(group)
    return topics is None or topic in topics
