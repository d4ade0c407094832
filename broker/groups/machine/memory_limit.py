"""`sordini.group.memory.bytes.max`: what all groups of this broker may keep together, in memory.

Whatever a client says of itself is kept: member ids, client ids, protocols with their metadata, assignments, committed
offsets with their notes. Group ids are a client's to invent, so a bound for each group bounds nothing. At this bound a
member that would add to it is refused (GROUP_MAX_SIZE_REACHED), and so is an offset of a partition that its group has
not committed yet (INVALID_COMMIT_OFFSET_SIZE). Who is a member goes on as one, and offsets go on to be replaced. What
is read from the log when a partition is taken over is always kept: it was answered before.

Pure. Costs are those of CPython's objects, rounded up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from sordini.broker.groups.machine.events import Event, Join, Written
from sordini.broker.groups.machine.offset_table import OffsetTable
from sordini.broker.groups.machine.state import CommittedOffset, Group, Member, Protocol
from sordini.protocol.types import TopicPartition

GROUP_BYTES: Final = 2000
"""A group besides its members and offsets: the value, its entries in the shard's and the timer's tables."""
ID_BYTES: Final = 200
MEMBER_BYTES: Final = 800
PROTOCOL_BYTES: Final = 120


class GroupMemory:
    """The account of one broker, in bytes."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.held_bytes = 0
        self.refused = 0
        """Requests refused for it since the start."""

    def has_room(self, more_bytes: int) -> bool:
        """Whether so many bytes may come on top; giving some back is always fine."""
        if more_bytes <= 0 or self.held_bytes + more_bytes <= self.bytes_max:
            return True
        self.refused += 1
        return False


class ShardMemory:
    """The part of it that groups of one partition of __consumer_offsets have."""

    def __init__(self, whole: GroupMemory) -> None:
        self._whole = whole
        self._groups: dict[str, int] = {}
        self.held_bytes = 0

    def change(self, by_bytes: int) -> None:
        self.held_bytes += by_bytes
        self._whole.held_bytes += by_bytes

    def has_room(self, more_bytes: int) -> bool:
        return self._whole.has_room(more_bytes)

    def admits(self, group: Group | None, event: Join) -> bool:
        """Whether there is room for what a JoinGroup would have kept. What is refused anyway is left to the group."""
        there = group or Group("")
        more = 0 if group is not None else GROUP_BYTES
        if not event.member_id and event.group_instance_id is None and event.needs_known_id:
            return self.has_room(more + _id_cost(event.drawn_member_id))
        member = there.members.get(event.member_id)
        if event.member_id and member is None and event.member_id not in there.pending:
            return True  # An id that is not known.
        wanted = _member_cost(event.drawn_member_id, event.group_instance_id, event.client_id, event.protocols)
        return self.has_room(more + wanted - (0 if member is None else _cost(member)))

    def kept(self, before: Group | None, after: Group, event: Event | None) -> None:
        """A group is now `after`. Heartbeats cost nothing here; a JoinGroup costs one member's count, not all's."""
        held = self._groups.get(after.group_id)
        if held is None or before is None or event is None or isinstance(event, Written):
            self._recount(after)
            return
        grown = len(after.members) + len(after.pending) - len(before.members) - len(before.pending)
        if not isinstance(event, Join):
            if grown:
                self._recount(after)
            return
        member_id = event.member_id or event.drawn_member_id
        if _presence(after, member_id) - _presence(before, member_id) != grown:
            self._recount(after)
            return
        delta = _cost_in(after, member_id) - _cost_in(before, member_id)
        self._groups[after.group_id] = held + delta
        self.change(delta)

    def forgotten(self, group_id: str) -> None:
        self.change(-self._groups.pop(group_id, 0))

    def commit(self, table: OffsetTable, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        before = table.held_bytes
        table.commit(offsets)
        self.change(table.held_bytes - before)

    def delete(self, table: OffsetTable, partitions: Iterable[TopicPartition]) -> None:
        before = table.held_bytes
        table.delete(partitions)
        self.change(table.held_bytes - before)

    def close(self) -> None:
        """The shard is gone, and all that it kept."""
        self._groups.clear()
        self.change(-self.held_bytes)

    def _recount(self, group: Group) -> None:
        now = GROUP_BYTES + group.group_id.__sizeof__()
        now += sum(map(_cost, group.members.values())) + sum(map(_id_cost, group.pending))
        self.change(now - self._groups.get(group.group_id, 0))
        self._groups[group.group_id] = now


def _cost_in(group: Group, member_id: str) -> int:
    member = group.members.get(member_id)
    if member is not None:
        return _cost(member)
    return _id_cost(member_id) if member_id in group.pending else 0


def _presence(group: Group, member_id: str) -> int:
    return (member_id in group.members) + (member_id in group.pending)


def _cost(member: Member) -> int:
    said = _member_cost(member.member_id, member.group_instance_id, member.client_id, member.protocols)
    return said + member.assignment.__sizeof__()


def _member_cost(member_id: str, group_instance_id: str | None, client_id: str, protocols: Iterable[Protocol]) -> int:
    cost = MEMBER_BYTES + _id_cost(member_id) + client_id.__sizeof__() + (group_instance_id or "").__sizeof__()
    for protocol in protocols:
        cost += PROTOCOL_BYTES + protocol.name.__sizeof__() + protocol.metadata.__sizeof__()
    return cost


def _id_cost(member_id: str) -> int:
    return ID_BYTES + member_id.__sizeof__()
