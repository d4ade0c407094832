"""What a consumer group occupies in memory, for `sordini.group.memory.bytes.max`. Sizes are CPython's, rounded up."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sordini.broker.groups.consumer.machine.changes import AssignmentChange, Change, SubscriptionChange
from sordini.broker.groups.consumer.machine.events import ClassicJoin, ConsumerHeartbeat
from sordini.broker.groups.consumer.machine.state import (
    JOIN_EPOCH,
    ClassicProtocol,
    ConsumerGroup,
    ConsumerMember,
    Owned,
)

MEMBER_BYTES: Final = 1_800
"""A member with its entries in the group's mappings, and its newest connection."""
TOPIC_BYTES: Final = 400
"""One topic of what a member owns."""
PARTITION_BYTES: Final = 250
"""One partition: in what its member owns, in the target, among the owners."""
NAME_BYTES: Final = 90
"""A subscribed topic, besides its letters."""
PROTOCOL_BYTES: Final = 200
"""A protocol of a member of the classic protocol, besides its name and metadata."""


def cost_change(before: ConsumerGroup | None, after: ConsumerGroup, changes: Iterable[Change] = ()) -> int:
    """By how much members and regular expressions cost more; the group itself is counted by the caller.

    Only members with a change among those of the step are looked at: that is one as a rule, of ten thousand maybe.
    """
    if before is None:
        return sum(map(_member_cost, after.members.values())) + _regexes_cost(after)
    former, members = before.members, after.members
    change = 0
    if former is not members:
        for member_id in {
            each.member_id for each in changes if isinstance(each, SubscriptionChange | AssignmentChange)
        }:
            known, member = former.get(member_id), members.get(member_id)
            change += (0 if member is None else _member_cost(member)) - (0 if known is None else _member_cost(known))
    if before.regexes is not after.regexes:
        change += _regexes_cost(after) - _regexes_cost(before)
    return change


def _regexes_cost(group: ConsumerGroup) -> int:
    return sum(sum(map(_name_cost, resolved.topics)) for resolved in group.regexes.values())


def added_cost(member: ConsumerMember | None, event: ConsumerHeartbeat | ClassicJoin) -> int:
    """By how much a member costs more with what an event says of it; None for a new one, before it owns anything.

    The topics in the metadata of a classic member are counted with it once it has joined, and not before.
    """
    known = member or ConsumerMember(event.member_id)
    instance_id = known.instance_id if event.instance_id is None else event.instance_id
    if isinstance(event, ClassicJoin):
        member_id = event.member_id or event.new_member_id
        said = _identity_cost(member_id, event.client_id, instance_id, known.rack_id)
        said += _protocols_cost(event.protocols)
        said += sum(map(_name_cost, known.subscribed_topics))
    else:
        topics = known.subscribed_topics if event.subscribed_topics is None else event.subscribed_topics
        regex = known.subscribed_regex if event.subscribed_regex is None else event.subscribed_regex
        rack_id = known.rack_id if event.rack_id is None else event.rack_id
        said = _identity_cost(event.member_id, event.client_id, instance_id, rack_id)
        said += sum(map(_name_cost, topics)) + len(regex or "")
    return said - (0 if member is None else _said_cost(member))


def says_nothing_new(member: ConsumerMember | None, event: ConsumerHeartbeat) -> bool:
    """Whether a heartbeat has nothing that may cost more: almost all have not. One of no member is refused later."""
    if event.member_epoch < JOIN_EPOCH:
        return True
    if event.subscribed_topics is not None or event.subscribed_regex is not None:
        return False
    return member is None or (
        event.rack_id in (None, member.rack_id)
        and event.instance_id in (None, member.instance_id)
        and event.client_id == member.client_id
    )


def _member_cost(member: ConsumerMember) -> int:
    return _said_cost(member) + _owned_cost(member.assigned) + _owned_cost(member.pending_revocation)


def _said_cost(member: ConsumerMember) -> int:
    """Of a member that owns nothing."""
    cost = _identity_cost(member.member_id, member.client_id, member.instance_id, member.rack_id)
    cost += sum(map(_name_cost, member.subscribed_topics))
    protocols = () if member.classic is None else member.classic.protocols
    return cost + len(member.subscribed_regex or "") + _protocols_cost(protocols)


def _identity_cost(member_id: str, client_id: str, instance_id: str | None, rack_id: str | None) -> int:
    return MEMBER_BYTES + len(member_id) + len(client_id) + len(instance_id or "") + len(rack_id or "")


def _protocols_cost(protocols: Iterable[ClassicProtocol]) -> int:
    return sum(PROTOCOL_BYTES + len(protocol.name) + len(protocol.metadata) for protocol in protocols)


def _owned_cost(owned: Owned) -> int:
    return sum(TOPIC_BYTES + PARTITION_BYTES * len(epochs) for epochs in owned.values())


def _name_cost(name: str) -> int:
    return NAME_BYTES + len(name)
