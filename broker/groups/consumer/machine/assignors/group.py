"""What an assignor is given, and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from types import MappingProxyType
from typing import Final

from sordini.protocol.types import TopicId
from sordini.system.named_tuple import NamedTuple

Partitions = Mapping[TopicId, frozenset[int]]
"""A member's partitions by topic; a topic without any is left out."""
NO_PARTITIONS: Final[Partitions] = MappingProxyType({})
Assignment = dict[str, Partitions]
"""The partitions of every member of the group by member id."""


class Member(NamedTuple):
    """A member: the topics it subscribes to, and its part of the target assignment so far."""

    subscribed_topics: frozenset[TopicId]
    target: Partitions = NO_PARTITIONS
    instance_id: str | None = None


class Group(NamedTuple):
    """A group. No partition is in the target of two members, and none is beyond its topic's count."""

    members: Mapping[str, Member]
    partition_counts: Mapping[TopicId, int]
    """Of every topic that a member subscribes to: those that do not exist are not in the subscriptions."""
    is_homogeneous: bool
    """Whether all members subscribe to the same names, existing or not."""


def static_ids(group: Group) -> dict[str, str]:
    """Instance id -> member id of the static members."""
    return {m.instance_id: member_id for member_id, m in group.members.items() if m.instance_id is not None}


Assignor = Callable[[Group], Generator[int, None, Assignment]]
"""Yields the steps made since the last time."""
