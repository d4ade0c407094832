"""Share groups: the transitions of a group's membership, event by event, as Apache Kafka's coordinator decides them.

Pure: `step(group, event, around)` returns the group after the event, the records to append, and an answer that is sent
once they are committed. If they cannot be appended, the step has not happened.

Invariants, held after every step (`check_invariants` asserts them):
  - member epoch <= assignment epoch <= group epoch, and none of them decreases;
  - targets and sessions agree with the members;
  - folding the records of all steps gives the persistent part of the group (`folded.py`).
"""

from __future__ import annotations

from typing import assert_never

from sordini.broker.groups.consumer.machine.changes import GroupEpochChange, TargetEpochChange
from sordini.broker.groups.consumer.machine.events import Refusal, TargetComputed, Tick
from sordini.broker.groups.share.machine import initialization
from sordini.broker.groups.share.machine.changes import Change, StatesChange
from sordini.broker.groups.share.machine.events import (
    BeginRemoval,
    DeleteOffsets,
    Event,
    OffsetsDeleted,
    SetOffsets,
    ShareHeartbeat,
    StatesAnswer,
    StatesInitialized,
    StatesNotInitialized,
    Step,
    StepContext,
    TopicsDeleted,
)
from sordini.broker.groups.share.machine.heartbeat import heartbeat
from sordini.broker.groups.share.machine.sessions import tick
from sordini.broker.groups.share.machine.state import ShareGroup
from sordini.broker.groups.share.machine.target import assign_if_due, use_target
from sordini.broker.groups.share.machine.transition import ShareTransition
from sordini.protocol.errors import BrokerError


def step(group: ShareGroup, event: Event, around: StepContext) -> Step:
    """The group after one event. Raises nothing."""
    try:
        return _step(group, event, around)
    except BrokerError as error:
        return Step(group, answer=Refusal(error.code, str(error)))


def _step(group: ShareGroup, event: Event, around: StepContext) -> Step:
    """Raises BrokerError for a request that is refused, and changes nothing."""
    if isinstance(event, ShareHeartbeat):
        return heartbeat(group, event, around)
    transition = ShareTransition(group, around)
    match event:
        case SetOffsets(offsets):
            return transition.finish(StatesAnswer(group.epoch, initialization.set_offsets(transition, offsets)))
        case DeleteOffsets(topic_ids):
            return transition.finish(StatesAnswer(group.epoch, initialization.delete_offsets(transition, topic_ids)))
        case BeginRemoval():
            return transition.finish(StatesAnswer(group.epoch, initialization.begin_removal(transition)))
        case StatesInitialized(partitions):
            initialization.initialized(transition, partitions)
        case StatesNotInitialized(partitions):
            initialization.not_initialized(transition, partitions)
        case OffsetsDeleted(deleted):
            initialization.forget_deleting(transition, deleted)
        case TopicsDeleted(deleted):
            initialization.forget_topics(transition, deleted)
        case TargetComputed(epoch, _, targets):
            transition.is_target_under_way = False
            if epoch > transition.assignment_epoch:
                use_target(transition, epoch, targets)
            assign_if_due(transition)
        case Tick(late_ms):
            tick(transition, late_ms)
        case _:
            assert_never(event)
    return transition.finish()


def removal(group: ShareGroup) -> list[Change]:
    """The tombstones of a group without members."""
    assert not group.members
    return [TargetEpochChange(None), StatesChange(None), GroupEpochChange(None)]


def next_due_ms(group: ShareGroup) -> int | None:
    """When the next `Tick` is due, on the monotonic clock; an earlier one is harmless. None: never."""
    return group.due_ms


def check_invariants(group: ShareGroup) -> None:
    """Assert the invariants of a group between any two steps."""
    assert group.assignment_epoch <= group.epoch
    for member_id, member in group.members.items():
        assert member_id == member.member_id
        assert member.epoch <= group.assignment_epoch
        assert member.previous_epoch < member.epoch or member.epoch == 0
    assert group.targets.keys() <= group.members.keys()
    assert group.session_deadlines_ms.keys() == group.members.keys()
    if group.grace is None and group.members:
        assert group.due_ms is not None
        assert group.due_ms <= min(group.session_deadlines_ms.values())
    if group.states is not None:
        for topic_id, topic in group.states.initializing.items():
            done = group.states.initialized.get(topic_id)
            assert done is None or done.partitions != topic.partitions or not topic.partitions
