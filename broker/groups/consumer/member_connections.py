"""Which heartbeats of a consumer group's members come too late: those on an older connection than the newest.

A client that gets no answer closes its connection, opens another one and sends its next heartbeat on that, with all
that it has to say. The heartbeat that it has given up may still arrive. Nothing in it tells that it is late: a member
epoch lasts for many heartbeats, and a join has none. A delayed join reports that the member owns nothing, so its
partitions would be given away while it consumes them; any other takes an answer that the member does not read: what it
has to give up, or a new partition. So a heartbeat on an older connection than the newest of its member is not served,
and its connection is closed without an answer (`coordinators/newest_connection.py` has the rule, and what a
connection's number is). That holds for a join, too: a live member joins again on the connection that it has.

The newest connection is that of a heartbeat which found its member in the group, or made it one:

- It counts at once, not when its records are committed: the step is in force, and the next one builds on it.
- It counts also when it is refused with an error, or when its records cannot be appended. The error changes nothing in
  the group, but the client has gone on to this connection, still consumes what it has, and is about to send again.
- One of an id that is no member counts for nothing, so what is remembered is bounded by the members, which are
  bounded by `sordini.group.memory.bytes.max` (`machine/memory_cost.py` counts an entry with its member).

There is no floor. After the partition is loaded, and after a member is gone, the first heartbeat of a member may come
on any connection: a client may have had that one for long, for other requests. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from sordini.broker.groups.consumer.machine.changes import Change, SubscriptionChange
from sordini.broker.groups.consumer.machine.state import ConsumerMember
from sordini.broker.groups.share.machine.state import ShareMember
from sordini.system.named_tuple import NamedTuple


class OlderConnection(NamedTuple):
    """Instead of an answer: the heartbeat's connection is to be closed without one."""


NO_CONNECTION: Final = -1
"""Older than every connection."""


class GroupWithMembers(Protocol):
    """A consumer group or a share group."""

    @property
    def group_id(self) -> str: ...

    @property
    def members(self) -> Mapping[str, ConsumerMember | ShareMember]: ...


class MemberConnections:
    """The newest connection of each member of the groups of one partition, for as long as it is one.

    Invariant: no heartbeat of a member is admitted on an older connection than one before, and only members are
    remembered.
    """

    __slots__ = ("_newest",)

    def __init__(self) -> None:
        self._newest: dict[tuple[str, str], int] = {}
        """By group id and member id; the strings are those of the group."""

    def __len__(self) -> int:
        """The number of members that are remembered."""
        return len(self._newest)

    def newest(self, group_id: str, member_id: str) -> int:
        """The newest connection of a member; NO_CONNECTION if none is remembered."""
        return self._newest.get((group_id, member_id), NO_CONNECTION)

    def admit(self, group: GroupWithMembers, member_id: str, connection: int) -> bool:
        """Whether a heartbeat may be served; if so, and if it is of a member, its connection is the newest."""
        newest = self._newest.get((group.group_id, member_id))
        if newest == connection:
            return True
        if newest is None:
            member = group.members.get(member_id)
            if member is not None:
                self._newest[group.group_id, member.member_id] = connection
            return True
        if connection < newest:
            return False
        self._newest[group.group_id, member_id] = connection  # The key is the one that is there.
        return True

    def changed(self, group_id: str, changes: Iterable[Change], joining: str | None, connection: int) -> None:
        """A step is in force: members that it removes are forgotten, and `joining` is remembered if it is new.

        `joining` is the member of a heartbeat that came on `connection`; None for a step of another event.
        """
        said = [change for change in changes if isinstance(change, SubscriptionChange)]
        removed = [change.member_id for change in said if change.value is None]
        self.members_changed(group_id, removed, None, connection)
        joined = next((change.member_id for change in said if change.value and change.member_id == joining), None)
        self.members_changed(group_id, (), joined, connection)

    def members_changed(self, group_id: str, removed: Iterable[str], joined: str | None, connection: int) -> None:
        """As `changed`: forget members that are removed, then remember `joined` unless it is known."""
        for member_id in removed:
            self._newest.pop((group_id, member_id), None)
        if joined is not None:
            self._newest.setdefault((group_id, joined), connection)

    def clear(self) -> None:
        """The leadership has ended."""
        self._newest.clear()
