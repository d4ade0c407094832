"""JoinGroup, SyncGroup and Heartbeat of members that speak the classic protocol in a consumer group.

Such a member has an epoch, a target and partitions as any other. Its generation is its epoch; that it has to join again
it learns from its heartbeat, what it owns it says in its subscription, and what it gets it is sent by SyncGroup.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sordini.broker.groups.consumer.machine.events import (
    ClassicAnswer,
    ClassicHeartbeat,
    ClassicJoin,
    ClassicSync,
    Refusal,
    SyncedAnswer,
)
from sordini.broker.groups.consumer.machine.leaving import becomes_classic, end_as_classic
from sordini.broker.groups.consumer.machine.membership import known_static, successor_of
from sordini.broker.groups.consumer.machine.progress import move_on, subscribe
from sordini.broker.groups.consumer.machine.state import (
    ClassicMember,
    ClassicProtocol,
    ConsumerMember,
    MemberState,
    Partitions,
)
from sordini.broker.groups.consumer.machine.transition import ConsumerTransition
from sordini.protocol.consumer_assignment import written_assignment
from sordini.protocol.consumer_subscription import CONSUMER_PROTOCOL, ConsumerSubscription, read_subscription
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.types import TopicId


def join(transition: ConsumerTransition, event: ClassicJoin) -> ClassicAnswer:
    """Raises BrokerError."""
    limits = transition.around.settings
    is_disabled = not limits.allows_upgrade and not limits.allows_downgrade
    if is_disabled or event.protocol_type != CONSUMER_PROTOCOL or not _has_common_protocol(transition, event.protocols):
        raise BrokerError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if not limits.classic_session_ms_min <= event.session_timeout_ms <= limits.classic_session_ms_max:
        raise BrokerError(ErrorCode.INVALID_SESSION_TIMEOUT)
    is_known = event.member_id in transition.members
    if not is_known and event.instance_id not in transition.static_member_ids:
        transition.check_size()
    if not event.member_id and event.requires_known_member_id:
        return ClassicAnswer(ErrorCode.MEMBER_ID_REQUIRED, event.new_member_id)
    _, subscription = _subscription_of(event.protocols[0].metadata)
    member = _joining_member(transition, event)
    updated = member._replace(
        instance_id=event.instance_id if event.instance_id is not None else member.instance_id,
        rack_id=subscription.rack_id if subscription.rack_id is not None else member.rack_id,
        client_id=event.client_id,
        client_host=event.client_host,
        subscribed_topics=frozenset(subscription.topics),
        subscribed_regex=None,
        rebalance_timeout_ms=event.rebalance_timeout_ms,
        classic=ClassicMember(event.session_timeout_ms, event.protocols),
    )
    subscribe(transition, member, updated)
    move_on(transition, updated, _owned(transition, subscription))
    joined = transition.members[updated.member_id]
    transition.restart_session(joined.member_id)
    if not _is_revoking(transition, joined):
        transition.start_rebalance_timer(joined.member_id, event.rebalance_timeout_ms)  # Until it has sent SyncGroup.
    former_id = transition.before.static_member_ids.get(event.instance_id or "")
    if former_id not in (None, joined.member_id) and becomes_classic(transition):
        end_as_classic(transition)
    return ClassicAnswer(ErrorCode.NONE, joined.member_id, joined.epoch, event.protocols[0].name)


def sync(transition: ConsumerTransition, event: ClassicSync) -> SyncedAnswer:
    """Raises BrokerError."""
    member, classic = _classic_member(transition, event.member_id, event.instance_id, event.generation_id)
    protocol_name = classic.protocols[0].name
    # SyncGroup below v5 does not name them.
    if event.protocol_type not in (None, CONSUMER_PROTOCOL) or event.protocol_name not in (None, protocol_name):
        raise BrokerError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if member.epoch < transition.assignment_epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        _await_join(transition, member)
        raise BrokerError(ErrorCode.REBALANCE_IN_PROGRESS)
    if not _is_revoking(transition, member):
        transition.stop_rebalance_timer(member.member_id)
    transition.restart_session(member.member_id)
    version, _ = _subscription_of(classic.protocols[0].metadata)
    names = {topic: transition.around.topics.name_of(topic) for topic in member.assigned}
    rows = [(name, member.assigned[topic]) for topic, name in names.items() if name is not None]
    return SyncedAnswer(protocol_name, written_assignment(version, rows))


def heartbeat(transition: ConsumerTransition, event: ClassicHeartbeat) -> Refusal:
    """NONE, or REBALANCE_IN_PROGRESS for a member that has to join again. Raises BrokerError."""
    member, _ = _classic_member(transition, event.member_id, event.instance_id, event.generation_id)
    transition.restart_session(member.member_id)
    if not _has_to_join(transition, member):
        return Refusal(ErrorCode.NONE, "")
    _await_join(transition, member)
    return Refusal(ErrorCode.REBALANCE_IN_PROGRESS, "")


def _has_common_protocol(transition: ConsumerTransition, protocols: Sequence[ClassicProtocol]) -> bool:
    """Whether a protocol is among those that all members of the classic protocol have, so that they may be a group."""
    names = {protocol.name for protocol in protocols}
    for member in transition.members.values():
        if member.classic is not None:
            names &= {protocol.name for protocol in member.classic.protocols}
    return bool(names)


def _joining_member(transition: ConsumerTransition, event: ClassicJoin) -> ConsumerMember:
    """Raises BrokerError UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID."""
    member_id = event.member_id or event.new_member_id
    if event.instance_id is None:
        return transition.members.get(member_id) or ConsumerMember(member_id)
    former = transition.static_member(event.instance_id)
    if former is None:
        if event.member_id:
            raise BrokerError(ErrorCode.UNKNOWN_MEMBER_ID)
        return ConsumerMember(member_id)
    if event.member_id:
        return known_static(transition, event.member_id, event.instance_id)
    return successor_of(transition, former, member_id)


def _classic_member(
    transition: ConsumerTransition, member_id: str, instance_id: str | None, generation_id: int
) -> tuple[ConsumerMember, ClassicMember]:
    """Raises BrokerError UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION."""
    member = (
        transition.members.get(member_id) if instance_id is None else known_static(transition, member_id, instance_id)
    )
    if member is None or member.classic is None:
        raise BrokerError(ErrorCode.UNKNOWN_MEMBER_ID)
    if generation_id != member.epoch:
        raise BrokerError(ErrorCode.ILLEGAL_GENERATION)
    return member, member.classic


def _has_to_join(transition: ConsumerTransition, member: ConsumerMember) -> bool:
    """Whether there is another target, something to give up, or something that others have given up."""
    match member.state:
        case MemberState.UNREVOKED_PARTITIONS:
            return True
        case MemberState.UNRELEASED_PARTITIONS if member.epoch == transition.assignment_epoch:
            missing = transition.targets.get(member.member_id, {}).items()
            return any(
                transition.is_free(topic, partition, member.member_id)
                for topic, wanted in missing
                for partition in wanted - member.assigned.get(topic, {}).keys()
            )
        case _:
            return member.epoch < transition.assignment_epoch


def _is_revoking(transition: ConsumerTransition, member: ConsumerMember) -> bool:
    """Whether the timer is that of partitions that the member has to give up: joining again does not start it anew."""
    has_timer = member.member_id in transition.rebalance_deadlines_ms
    return has_timer and member.state is MemberState.UNREVOKED_PARTITIONS


def _await_join(transition: ConsumerTransition, member: ConsumerMember) -> None:
    """The member was told to join: it is fenced if it does not within its rebalance timeout."""
    if member.member_id not in transition.rebalance_deadlines_ms:
        transition.start_rebalance_timer(member.member_id, member.rebalance_timeout_ms)


def _subscription_of(metadata: bytes) -> tuple[int, ConsumerSubscription]:
    """Raises BrokerError INCONSISTENT_GROUP_PROTOCOL."""
    found = read_subscription(metadata)
    if found is None:
        raise BrokerError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    return found


def _owned(transition: ConsumerTransition, subscription: ConsumerSubscription) -> Partitions:
    return partitions_by_id(transition, ((row.topic, row.partitions) for row in subscription.owned_partitions))


def partitions_by_id(
    transition: ConsumerTransition, rows: Iterable[tuple[str, Iterable[int]]]
) -> dict[TopicId, frozenset[int]]:
    """Partitions by the ids of topics that exist."""
    found: dict[TopicId, set[int]] = {}
    for name, partitions in rows:
        topic_id = transition.around.topics.id_of(name)
        if topic_id is not None:
            found.setdefault(topic_id, set()).update(partitions)
    return {topic_id: frozenset(partitions) for topic_id, partitions in found.items()}
