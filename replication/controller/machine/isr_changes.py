"""ISR changes by leaders: requested by AlterPartition (KIP-497, KIP-841, KIP-903), or written to the store by leaders
of older protocols, which then create an ISR change notification.

A request refers to the state that the leader knows. The controller writes the new ISR under that state's version, in
the same leader epoch, or rejects it with an error code; the order of the checks is Apache Kafka's. The leader has not
changed, so brokers are sent UpdateMetadata only.

A request below version 2 names its topics, and may come from a leader that fails on some codes: see `_response_to`.

Pure, like the machine it belongs to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import NO_TOPIC_ID, BrokerId, TopicId, TopicPartition
from sordini.replication.cluster_model import KnownState
from sordini.replication.controller.machine import leader_election
from sordini.replication.controller.machine.events import (
    Conflict,
    Done,
    IsrChange,
    IsrChangesRequested,
    NewIsr,
    Outcome,
    StatesRead,
    StoreWrite,
)
from sordini.replication.controller.machine.transition import ControllerTransition
from sordini.replication.ports import Delete

_NOT_BY_NAME: Final = frozenset(
    {ErrorCode.INELIGIBLE_REPLICA, ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.INVALID_REQUEST}
)
"""Codes of version 2 and later only, in which topics are identified by their ids."""


def alter(transition: ControllerTransition, event: IsrChangesRequested) -> None:
    """Write the valid changes, and reply to the others."""
    sender = transition.brokers.get(event.broker_id)
    if sender is None or sender.epoch != event.broker_epoch:
        transition.reply(None, ErrorCode.STALE_BROKER_EPOCH)
        return
    by_id = any(change.topic_id != NO_TOPIC_ID for change in event.changes)
    names = (
        {topic.topic_id: topic.name for topic in transition.active_topics() if topic.topic_id != NO_TOPIC_ID}
        if by_id
        else {}
    )
    ahead, seen = [], set[TopicPartition]()
    for change in event.changes:
        found = _find(transition, names, change)
        if isinstance(found, ErrorCode):
            transition.reply(change, found)
            continue
        topic_partition, known = found
        refusal = _validate(transition, event.broker_id, topic_partition, known, change)
        if topic_partition in seen:
            refusal = ErrorCode.INVALID_REQUEST  # Two changes of one partition.
        seen.add(topic_partition)
        if refusal is None:
            transition.write_isr(topic_partition, known, change)
            continue
        transition.reply(change, _response_to(event.broker_id, change, known, refusal))
        if refusal is ErrorCode.NOT_CONTROLLER:
            ahead.append(topic_partition)
    transition.read_states(ahead)


def wrote(transition: ControllerTransition, purpose: NewIsr, outcome: Outcome) -> bool:
    """Reply with the outcome of a change that was written; whether it took effect."""
    topic_partition, change = purpose.topic_partition, purpose.change
    topic = transition.assignment(topic_partition.topic)
    match outcome:
        case Done(version):
            known = KnownState(purpose.state, version)
            transition.reply(change, known)
            if topic is not None:
                transition.put_state(topic_partition, known)
            return topic is not None
        case Conflict(current):
            leader, refusal = purpose.state.leader, ErrorCode.INVALID_UPDATE_VERSION
            transition.reply(change, refusal if current is None else _response_to(leader, change, current, refusal))
            if current is not None and topic is not None:
                transition.put_state(topic_partition, current)
                if topic.name not in transition.deletions:
                    # After this code a leader waits for a LeaderAndIsr, and accepts only one of a newer epoch.
                    leader_election.update_state(transition, topic, topic_partition.partition, force_new_epoch=True)
        case _:
            transition.reply(change, ErrorCode.NOT_CONTROLLER if change.topic else ErrorCode.UNKNOWN_SERVER_ERROR)
    return False


def states_read(
    transition: ControllerTransition, event: StatesRead
) -> tuple[list[TopicPartition], list[TopicPartition]]:
    """Apply states of other writers. Returns the partitions of an unchanged leader epoch, and those of another one."""
    isr_changed, epoch_changed = list[TopicPartition](), list[TopicPartition]()
    for topic_partition, found in event.states.items():
        topic = transition.assignment(topic_partition.topic)
        former = transition.states(topic_partition.topic).get(topic_partition.partition)
        if topic is None or topic_partition.partition not in topic.replicas or former == found:
            continue
        transition.put_state(topic_partition, found)
        if topic.name in transition.deletions or leader_election.update_state(
            transition, topic, topic_partition.partition
        ):
            continue
        same = former is not None and former.state.leader_epoch == found.state.leader_epoch
        (isr_changed if same else epoch_changed).append(topic_partition)
    transition.write(*(StoreWrite(Delete(path)) for path in event.notifications))
    return isr_changed, epoch_changed


def _find(
    transition: ControllerTransition, names: Mapping[TopicId, str], change: IsrChange
) -> tuple[TopicPartition, KnownState] | ErrorCode:
    """The partition of a change and its known state."""
    name = change.topic or names.get(change.topic_id, "")
    topic = transition.assignment(name)
    if topic is None or name in transition.deletions:
        by_id = change.topic_id != NO_TOPIC_ID
        return ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if change.topic_id not in (NO_TOPIC_ID, topic.topic_id):
        return ErrorCode.INCONSISTENT_TOPIC_ID
    known = transition.states(name).get(change.partition)
    if known is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return TopicPartition(name, change.partition), known


def _validate(
    transition: ControllerTransition,
    sender: BrokerId,
    topic_partition: TopicPartition,
    known: KnownState,
    change: IsrChange,
) -> ErrorCode | None:
    """The code of a rejected change; NONE when the state is as requested already, None when it is to be written."""
    state, new_isr = known.state, set(change.isr)
    if change.leader_epoch > state.leader_epoch or change.partition_epoch > known.version:
        return ErrorCode.NOT_CONTROLLER  # The leader knows a newer state: another controller may be active.
    if change.leader_epoch < state.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if sender != state.leader or len(new_isr) != len(change.isr):
        return ErrorCode.INVALID_REQUEST
    if new_isr == set(state.isr) and change.recovering == state.recovering:
        return ErrorCode.NONE  # A repetition: the first response was lost.
    if change.partition_epoch < known.version:
        return ErrorCode.INVALID_UPDATE_VERSION
    assignment = transition.assignment(topic_partition.topic)
    assert assignment is not None
    if sender not in new_isr or not new_isr <= set(assignment.replicas.get(topic_partition.partition, ())):
        return ErrorCode.INVALID_REQUEST
    if change.recovering and (not state.recovering or len(new_isr) > 1):
        return ErrorCode.INVALID_REQUEST
    if any(not _may_join(transition, topic_partition, *member) for member in _added(state.isr, change)):
        return ErrorCode.INELIGIBLE_REPLICA
    return None


def _response_to(
    sender: BrokerId | None, change: IsrChange, known: KnownState, refusal: ErrorCode
) -> KnownState | ErrorCode:
    """The response to a change that is not written: the code, or the current state.

    Leaders of Apache Kafka 2.7 to 3.1 name the topic, and no error code ends their proposal. After NOT_CONTROLLER they
    repeat it. After FENCED_LEADER_EPOCH, INVALID_UPDATE_VERSION and UNKNOWN_TOPIC_OR_PARTITION they wait for a newer
    leader epoch; any other code makes them fail (KAFKA-14010). Until a newer epoch the ISR then stays as it is, and the
    high watermark waits for the proposed replica. A state of the same leader epoch ends the proposal in all releases.
    """
    if refusal is ErrorCode.NONE:
        return known
    if not change.topic or refusal not in _NOT_BY_NAME:
        return refusal
    # Measured with 2.7.2, 2.8.2, 3.2.3 and 3.9.1 as leaders: docs/evidence/replication.md has the table.
    leads = sender == known.state.leader and change.leader_epoch == known.state.leader_epoch
    return known if leads else ErrorCode.FENCED_LEADER_EPOCH


def _added(isr: Iterable[BrokerId], change: IsrChange) -> Iterable[tuple[BrokerId, int]]:
    """The replicas that would join the ISR, with the broker epoch that the leader knows."""
    epochs = change.broker_epochs or (-1,) * len(change.isr)
    return [(member, epoch) for member, epoch in zip(change.isr, epochs, strict=True) if member not in isr]


def _may_join(
    transition: ControllerTransition, topic_partition: TopicPartition, member: BrokerId, broker_epoch: int
) -> bool:
    return transition.is_eligible(member, topic_partition) and broker_epoch in (-1, transition.brokers[member].epoch)
