"""The limit `sordini.group.memory.bytes.max`: what all groups of this broker may occupy in memory together.

Clients choose what is kept: member ids, client ids, protocols with their metadata, assignments, committed offsets with
their metadata, and any number of group ids, so a limit for each group would limit nothing. At this limit a join that
adds to it is refused (GROUP_MAX_SIZE_REACHED), and so is a commit for a partition that its group has not committed yet
(INVALID_COMMIT_OFFSET_SIZE). Histories of rebalances are given up first. Members stay members, and offsets can still be
replaced. What is loaded from the log is
always kept: it was answered before.

Pure. Sizes are those of CPython's objects, rounded up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from sordini.broker.groups.machine.events import Event, Join, WriteCompleted
from sordini.broker.groups.machine.offset_table import OffsetTable
from sordini.broker.groups.machine.state import CommittedOffset, Group, Member, Protocol
from sordini.protocol.types import TopicPartition

GROUP_BYTES: Final = 2000
"""A group without its members and offsets: the value, and its entries in the tables of shard and timer."""
ID_BYTES: Final = 200
MEMBER_BYTES: Final = 800
PROTOCOL_BYTES: Final = 120


class GroupMemoryLimit:
    """The limit of one broker, and its use."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.held_bytes = 0
        self.rejected_count = 0
        """Requests refused since the start."""
        self.reclaimable_bytes = 0
        """The part of `held_bytes` that `reclaim` releases."""
        self.reclaim: Callable[[], None] = _nothing

    def has_room(self, more_bytes: int) -> bool:
        """Whether `more_bytes` fit within the limit; a decrease always does."""
        if more_bytes <= 0 or self.held_bytes + more_bytes <= self.bytes_max:
            return True
        if self.held_bytes - self.reclaimable_bytes + more_bytes <= self.bytes_max:
            self.reclaim()
            return True
        self.rejected_count += 1
        return False


class ShardMemoryUsage:
    """What the groups of one partition of __consumer_offsets use of it."""

    def __init__(self, limit: GroupMemoryLimit) -> None:
        self._limit = limit
        self._groups: dict[str, int] = {}
        self._is_closed = False
        self.held_bytes = 0

    def change(self, by_bytes: int) -> None:
        if self._is_closed:
            return  # A commit that failed, or an event that was queued, when the leadership ended.
        self.held_bytes += by_bytes
        self._limit.held_bytes += by_bytes

    def has_room(self, more_bytes: int) -> bool:
        return self._limit.has_room(more_bytes)

    def missing_group_bytes(self, group_id: str) -> int:
        """The size of a group, which the first thing kept of it adds; 0 for one that is counted already."""
        return 0 if group_id in self._groups else _group_bytes(group_id)

    def admits_join(self, group_id: str, group: Group | None, event: Join) -> bool:
        """Whether there is room for what a join adds. A join that the group refuses is always admitted here."""
        current = group or Group("")
        more = self.missing_group_bytes(group_id)
        if not event.member_id and event.group_instance_id is None and event.requires_known_member_id:
            return self.has_room(more + _id_cost(event.new_member_id))
        member = current.members.get(event.member_id)
        if event.member_id and member is None and event.member_id not in current.pending_joins:
            return True  # Refused by the group: UNKNOWN_MEMBER_ID.
        added = _member_cost(event.new_member_id, event.group_instance_id, event.client_id, event.protocols)
        return self.has_room(more + added - (0 if member is None else _cost(member)))

    def group_changed(self, before: Group | None, after: Group, event: Event | None) -> None:
        """Update the size of a group. A heartbeat computes nothing, a join the size of one member."""
        held = self._groups.get(after.group_id)
        if held is None or before is None or event is None or isinstance(event, WriteCompleted):
            self._recount(after)
            return
        grown = len(after.members) + len(after.pending_joins) - len(before.members) - len(before.pending_joins)
        if not isinstance(event, Join):
            if grown:
                self._recount(after)
            return
        member_id = event.member_id or event.new_member_id
        if _presence(after, member_id) - _presence(before, member_id) != grown:
            self._recount(after)
            return
        delta = _cost_in(after, member_id) - _cost_in(before, member_id)
        self._groups[after.group_id] = held + delta
        self.change(delta)

    def add_to_group(self, group_id: str, by_bytes: int) -> None:
        """A group of another kind uses so much more; with the first of it, it is counted itself."""
        by_bytes += self.missing_group_bytes(group_id)
        if by_bytes:
            self._groups[group_id] = self._groups.get(group_id, 0) + by_bytes
            self.change(by_bytes)

    def group_removed(self, group_id: str) -> None:
        self.change(-self._groups.pop(group_id, 0))

    def commit_offsets(self, table: OffsetTable, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        before = table.held_bytes
        table.commit(offsets)
        self.change(table.held_bytes - before)

    def delete_offsets(self, table: OffsetTable, partitions: Iterable[TopicPartition]) -> None:
        before = table.held_bytes
        table.delete(partitions)
        self.change(table.held_bytes - before)

    def close(self) -> None:
        """Release all that the shard uses."""
        self._groups.clear()
        self.change(-self.held_bytes)
        self._is_closed = True

    def _recount(self, group: Group) -> None:
        now = _group_bytes(group.group_id)
        now += sum(map(_cost, group.members.values())) + sum(map(_id_cost, group.pending_joins))
        self.change(now - self._groups.get(group.group_id, 0))
        self._groups[group.group_id] = now


def _group_bytes(group_id: str) -> int:
    return GROUP_BYTES + group_id.__sizeof__()


def _cost_in(group: Group, member_id: str) -> int:
    member = group.members.get(member_id)
    if member is not None:
        return _cost(member)
    return _id_cost(member_id) if member_id in group.pending_joins else 0


def _presence(group: Group, member_id: str) -> int:
    return (member_id in group.members) + (member_id in group.pending_joins)


def _cost(member: Member) -> int:
    cost = _member_cost(member.member_id, member.group_instance_id, member.client_id, member.protocols)
    return cost + member.assignment.__sizeof__()


def _member_cost(member_id: str, group_instance_id: str | None, client_id: str, protocols: Iterable[Protocol]) -> int:
    cost = MEMBER_BYTES + _id_cost(member_id) + client_id.__sizeof__() + (group_instance_id or "").__sizeof__()
    for protocol in protocols:
        cost += PROTOCOL_BYTES + protocol.name.__sizeof__() + protocol.metadata.__sizeof__()
    return cost


def _id_cost(member_id: str) -> int:
    return ID_BYTES + member_id.__sizeof__()


def _nothing() -> None:
    """Nothing can be reclaimed."""
