"""Which partitions moved between two assignments of a group of consumers.

Assignments are made by the leader, so they are bytes to a broker. They are read here for the history only, and only as
many bytes as do not delay other requests.
"""

from __future__ import annotations

from typing import Final

from sordini.broker.groups.machine.state import Group, Member
from sordini.protocol.consumer_assignment import read_assignment
from sordini.protocol.consumer_subscription import CONSUMER_PROTOCOL
from sordini.protocol.types import TopicPartition
from sordini.system.named_tuple import NamedTuple

ASSIGNMENT_BYTES_MAX: Final = 32 * 1024
"""All assignments of a generation together: about 8,000 partitions. Larger ones are not compared."""
MOVES_MAX: Final = 200
TOPICS_SEEN_MAX: Final = 200
TOPICS_NAMED_MAX: Final = 5


class Move(NamedTuple):
    """A partition, and the instance ids or member ids of its members before and after; None for none."""

    topic: str
    partition: int
    source: str | None
    target: str | None
    released_ms: int = -1
    """When its former owner released it (wall clock). Of consumer groups only; -1 where it is not known."""
    without_owner_ms: int = -1
    """From then until it was given to `target`; -1 without a target, and where it is not known."""


class Assignments:
    """The assignments of one generation, by member. `owners` is None if they are no consumers' or too large."""

    __slots__ = ("counts", "owners", "size")

    def __init__(self, owners: dict[TopicPartition, str] | None, counts: dict[str, int], size: int) -> None:
        self.owners = owners
        self.counts = counts
        self.size = size
        """What the value occupies, in bytes, about."""

    @classmethod
    def of(cls, group: Group) -> Assignments:
        """Those that the members of a group have now."""
        size = sum(len(member.assignment) for member in group.members.values())
        if (group.members and group.protocol_type != CONSUMER_PROTOCOL) or size > ASSIGNMENT_BYTES_MAX:
            return cls(None, {}, 0)
        owners, counts = dict[TopicPartition, str](), dict[str, int]()
        for member in group.members.values():
            partitions = read_assignment(member.assignment)
            if partitions is None:
                return cls(None, {}, 0)
            counts[member.member_id] = len(partitions)
            owners.update(dict.fromkeys(partitions, member.group_instance_id or member.member_id))
        return cls(owners, counts, PARTITION_BYTES * len(owners) + PARTITION_BYTES * len(counts))

    def count(self, member: Member) -> int:
        """The number of partitions of a member; -1 if it is not known."""
        return self.counts.get(member.member_id, -1)


PARTITION_BYTES: Final = 250


def moves_between(before: Assignments, after: Assignments) -> list[Move] | None:
    """Every partition that has another member, in order; None if one of the two is not known."""
    old, new = before.owners, after.owners
    if old is None or new is None:
        return None
    return [
        Move(*partition, old.get(partition), new.get(partition))
        for partition in sorted(old.keys() | new.keys())
        if old.get(partition) != new.get(partition)
    ]


def added_partitions(seen: dict[str, int], assigned: Assignments) -> str:
    """The partitions that are not in `seen`, which are added to it; `orders +2 bills +1`, or nothing.

    `seen` has the number of partitions of each topic that the group was ever assigned. It is bounded: at the limit it
    starts anew, and nothing is reported of that generation.
    """
    counts = dict[str, int]()
    for topic, partition in assigned.owners or ():
        counts[topic] = max(counts.get(topic, 0), partition + 1)
    grown = {topic: count - seen.get(topic, 0) for topic, count in counts.items() if count > seen.get(topic, 0)}
    if len(seen.keys() | counts.keys()) > TOPICS_SEEN_MAX:
        seen.clear()
        return ""
    seen.update((topic, counts[topic]) for topic in grown)
    named = " ".join(f"{topic} +{count}" for topic, count in sorted(grown.items())[:TOPICS_NAMED_MAX])
    more = len(grown) - TOPICS_NAMED_MAX
    return named if more <= 0 else f"{named} and {more} topics more"
