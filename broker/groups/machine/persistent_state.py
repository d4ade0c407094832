"""The part of a group that survives a restart: taken out of a live group, and restored from its record.

Folding the records of a group's key, last one wins, gives the persistent state of the live group as of its last commit.
A restored member supports one protocol, the group's, and its session restarts: its client saw no restart.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from sordini.broker.groups.machine import protocol_selection
from sordini.broker.groups.machine.events import Now
from sordini.broker.groups.machine.state import Group, GroupState, GroupValue, Member, MemberValue, Protocol


def persistent_value(group: Group, assignments: Mapping[str, bytes] | None = None) -> GroupValue:
    """The value of a group's record; `assignments`, if given, replace those that the members have."""
    members = tuple(_member_value(group, member, assignments) for member in group.members.values())
    return GroupValue(
        group.protocol_type or "",
        group.generation_id,
        group.protocol_name,
        group.leader_id,
        group.state_since_ms,
        members,
    )


def _member_value(group: Group, member: Member, assignments: Mapping[str, bytes] | None) -> MemberValue:
    return MemberValue(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.session_timeout_ms,
        member.metadata(group.protocol_name),
        member.assignment if assignments is None else assignments.get(member.member_id, b""),
    )


def restore_group(group_id: str, value: GroupValue, now: Now) -> Group:
    """The group of a record: stable with sessions that start now, or empty."""
    members = {member.member_id: _restore_member(member, value.protocol_name, now) for member in value.members}
    static_member_ids, support = dict[str, str](), dict[str, int]()
    for member in members.values():
        protocol_selection.count(support, member.protocols, 1)
        if member.group_instance_id is not None:
            static_member_ids[member.group_instance_id] = member.member_id
    # The leader in the record may not be a member, after damage or another broker's bug; a group with members has one.
    leader_id = value.leader_id if value.leader_id in members else next(iter(members), None)
    return Group(
        group_id,
        GroupState.STABLE if members else GroupState.EMPTY,
        value.generation_id,
        value.protocol_type or None,
        value.protocol_name if members else None,
        leader_id,
        MappingProxyType(members),
        state_since_ms=value.state_since_ms,
        static_member_ids=MappingProxyType(static_member_ids),
        protocol_support=MappingProxyType(support),
        due_ms=min((member.session_deadline_ms for member in members.values()), default=None),
    )


def _restore_member(value: MemberValue, protocol_name: str | None, now: Now) -> Member:
    return Member(
        value.member_id,
        value.group_instance_id,
        value.client_id,
        value.client_host,
        value.rebalance_timeout_ms,
        value.session_timeout_ms,
        (Protocol(protocol_name or "", value.subscription),),
        value.assignment,
        session_deadline_ms=now.monotonic_ms + value.session_timeout_ms,
    )
