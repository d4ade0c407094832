"""The consumer group protocol: the transitions of a group, event by event, as Apache Kafka's coordinator decides them.

Pure: `step(group, event, around)` returns the group after the event, the records to append, and an answer that is sent
once they are committed. If they cannot be appended, the step has not happened.

    heartbeat ──► subscription ──► group epoch ──► target assignment ──► the member's own partitions ──► answer
                                        ▲
             members that leave or expire, topics that change

Invariants, held after every step (`check_invariants` asserts them):
  - a partition is in the assigned or unrevoked partitions of one member at most;
  - member epoch <= assignment epoch <= group epoch, and none of them decreases;
  - static ids, owners, targets and deadlines agree with the members;
  - folding the records of all steps gives the persistent part of the group (`folded.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from sordini.broker.groups.consumer.machine import classic_requests
from sordini.broker.groups.consumer.machine.changes import (
    Change,
    GroupEpochChange,
    OldMetadataChange,
    RegexChange,
    TargetEpochChange,
)
from sordini.broker.groups.consumer.machine.events import (
    ClassicHeartbeat,
    ClassicJoin,
    ClassicRequest,
    ClassicSync,
    ConsumerHeartbeat,
    EpochCause,
    Event,
    Refusal,
    RegexesResolved,
    RemovalAnswer,
    RemoveMembers,
    Step,
    StepContext,
    TargetComputed,
    Tick,
)
from sordini.broker.groups.consumer.machine.heartbeat import heartbeat
from sordini.broker.groups.consumer.machine.leaving import remove
from sordini.broker.groups.consumer.machine.membership import identified_member
from sordini.broker.groups.consumer.machine.regexes import resolved
from sordini.broker.groups.consumer.machine.sessions import tick
from sordini.broker.groups.consumer.machine.state import (
    STATIC_LEAVE_EPOCH,
    ConsumerGroup,
    ConsumerMember,
    MemberState,
    Partitions,
)
from sordini.broker.groups.consumer.machine.target import assign_if_due, use_target
from sordini.broker.groups.consumer.machine.transition import ConsumerTransition
from sordini.broker.groups.machine.rebalance_cause import RebalanceCause
from sordini.protocol.errors import BrokerError, ErrorCode


def step(group: ConsumerGroup, event: Event, around: StepContext) -> Step:
    """The group after one event. Raises nothing."""
    if isinstance(event, ConsumerHeartbeat | ClassicJoin | ClassicSync | ClassicHeartbeat):
        try:
            return _requested(group, event, around)
        except BrokerError as error:
            return Step(group, answer=Refusal(error.code, str(error)))
    transition = ConsumerTransition(group, around)
    match event:
        case Tick(late_ms):
            tick(transition, late_ms)
        case TargetComputed():
            _target_computed(transition, event)
        case RegexesResolved():
            resolved(transition, event)
        case RemoveMembers():
            return transition.finish(_remove(transition, event))
        case _:
            assert_never(event)
    return transition.finish()


def _requested(group: ConsumerGroup, event: ConsumerHeartbeat | ClassicRequest, around: StepContext) -> Step:
    """Raises BrokerError for a request that is refused, and changes nothing."""
    if isinstance(event, ConsumerHeartbeat):
        return heartbeat(group, event, around)
    transition = ConsumerTransition(group, around)
    match event:
        case ClassicJoin():
            return transition.finish(classic_requests.join(transition, event))
        case ClassicSync():
            return transition.finish(classic_requests.sync(transition, event))
        case ClassicHeartbeat():
            return transition.finish(classic_requests.heartbeat(transition, event))


def removal(group: ConsumerGroup) -> list[Change]:
    """The tombstones of a group without members."""
    assert not group.members
    regexes = (RegexChange(regex, None) for regex in group.regexes)
    return [*regexes, TargetEpochChange(None), OldMetadataChange(), GroupEpochChange(None)]


def _target_computed(transition: ConsumerTransition, event: TargetComputed) -> None:
    """Use a target, even of an epoch that is not the newest: members make progress, and another one follows."""
    transition.is_target_under_way = False
    if event.epoch > transition.assignment_epoch:
        use_target(transition, event.epoch, _with_successors(transition, event), event.assignor)
    assign_if_due(transition)


def _with_successors(transition: ConsumerTransition, event: TargetComputed) -> Mapping[str, Partitions]:
    """The targets, those of static members under the ids that they have by now: that raised no group epoch."""
    successors = {
        transition.static_member_ids[instance_id]: event.targets[former_id]
        for instance_id, former_id in event.static_ids.items()
        if former_id in event.targets and transition.static_member_ids.get(instance_id, former_id) != former_id
    }
    return {**event.targets, **successors} if successors else event.targets


def _remove(transition: ConsumerTransition, event: RemoveMembers) -> RemovalAnswer:
    errors, members = [], dict[str, ConsumerMember]()
    for member_id, instance_id in event.members:
        try:
            # An administrator may name the instance id alone.
            named = member_id or transition.static_member_ids.get(instance_id or "", "")
            member = identified_member(transition, named, instance_id)
        except BrokerError as error:
            errors.append(error.code)
        else:
            errors.append(ErrorCode.NONE)
            members[member.member_id] = member
    if members:
        remove(transition, [*members.values()], _removal_cause(event, tuple(members.values())))
    return RemovalAnswer(tuple(errors))


def _removal_cause(event: RemoveMembers, members: tuple[ConsumerMember, ...]) -> EpochCause:
    """A member leaves alone, by its id, from its own client; an administrator names many, or an instance id only."""
    is_other_client = event.client_id is not None and any(event.client_id != member.client_id for member in members)
    by_admin = is_other_client or len(event.members) > 1 or not event.members[0][0]
    cause = RebalanceCause.REMOVED_BY_ADMIN if by_admin else RebalanceCause.MEMBER_LEFT
    return EpochCause(cause, f"{len(members)} members removed by LeaveGroup", members)


def next_due_ms(group: ConsumerGroup) -> int | None:
    """When the next `Tick` is due, on the monotonic clock; an earlier one is harmless. None: never."""
    return group.due_ms


def check_invariants(group: ConsumerGroup) -> None:
    """Assert the invariants of a group between any two steps."""
    members = group.members
    assert group.assignment_epoch <= group.epoch
    owners: dict[bytes, dict[int, str]] = {}
    for member_id, member in members.items():
        assert member_id == member.member_id
        assert member.epoch <= group.assignment_epoch
        for owned in (member.assigned, member.pending_revocation):
            for topic, epochs in owned.items():
                for partition, epoch in epochs.items():
                    assert partition not in owners.setdefault(topic, {}), "a partition has two owners"
                    owners[topic][partition] = member_id
                    assert epoch <= group.assignment_epoch
        assert bool(member.pending_revocation) == (member.state is MemberState.UNREVOKED_PARTITIONS) or (
            member.epoch == STATIC_LEAVE_EPOCH
        )
    assert {topic: dict(epochs) for topic, epochs in group.owners.items() if epochs} == owners
    assert group.targets.keys() <= members.keys()
    assert group.session_deadlines_ms.keys() == members.keys()
    assert group.rebalance_deadlines_ms.keys() <= members.keys()
    static = {m.instance_id: m.member_id for m in members.values() if m.instance_id is not None}
    assert group.static_member_ids == static
    if group.grace is None:
        for deadline_ms in (*group.session_deadlines_ms.values(), *group.rebalance_deadlines_ms.values()):
            assert group.due_ms is not None
            assert group.due_ms <= deadline_ms
    assert group.regexes.keys() <= {member.subscribed_regex for member in members.values()}
