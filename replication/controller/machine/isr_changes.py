"""In-sync sets that leaders change: what they ask of the controller (AlterPartition, KIP-497, KIP-841, KIP-903), and
what leaders of older protocols have written to the store themselves and left a note of.

A leader asks on the state it knows. It is granted by a write under that state's version, in the same leader epoch, or
refused by the code that tells the leader what to make of it; the order of the checks is Apache Kafka's. Brokers are
told by UpdateMetadata alone: who leads has not changed.

A request below version 2 names its topics, and may come from a leader that does not survive every code: see
`_answer_to`.

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
    Write,
)
from sordini.replication.controller.machine.transition import Transition
from sordini.replication.ports import Delete

_NOT_BY_NAME: Final = frozenset(
    {ErrorCode.INELIGIBLE_REPLICA, ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.INVALID_REQUEST}
)
"""Codes that a leader gets only where topics are told by their ids, in version 2 and later."""


def grant(transition: Transition, event: IsrChangesRequested) -> None:
    """Write what is granted, and answer what is not."""
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
        refusal = _judge(transition, event.broker_id, topic_partition, known, change)
        if topic_partition in seen:
            refusal = ErrorCode.INVALID_REQUEST  # Which of the two is meant?
        seen.add(topic_partition)
        if refusal is None:
            transition.write_isr(topic_partition, known, change)
            continue
        transition.reply(change, _answer_to(event.broker_id, change, known, refusal))
        if refusal is ErrorCode.NOT_CONTROLLER:
            ahead.append(topic_partition)
    transition.read_states(ahead)


def wrote(transition: Transition, purpose: NewIsr, outcome: Outcome) -> bool:
    """Answer what became of a granted change; whether it has come about."""
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
            transition.reply(change, refusal if current is None else _answer_to(leader, change, current, refusal))
            if current is not None and topic is not None:
                transition.put_state(topic_partition, current)
                if topic.name not in transition.deletions:
                    # A leader that hears this waits for a LeaderAndIsr, and obeys only one of a new epoch.
                    leader_election.update_state(transition, topic, topic_partition.partition, anew=True)
        case _:
            transition.reply(change, ErrorCode.NOT_CONTROLLER if change.topic else ErrorCode.UNKNOWN_SERVER_ERROR)
    return False


def read_again(transition: Transition, event: StatesRead) -> tuple[list[TopicPartition], list[TopicPartition]]:
    """Learn states that somebody else wrote: those whose leader is as it was, and those that have another epoch."""
    grown, moved = list[TopicPartition](), list[TopicPartition]()
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
        (grown if same else moved).append(topic_partition)
    transition.write(*(Write(Delete(note)) for note in event.notes))
    return grown, moved


def _find(
    transition: Transition, names: Mapping[TopicId, str], change: IsrChange
) -> tuple[TopicPartition, KnownState] | ErrorCode:
    """The partition that is meant, as it is known."""
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


def _judge(
    transition: Transition, sender: BrokerId, topic_partition: TopicPartition, known: KnownState, change: IsrChange
) -> ErrorCode | None:
    """Why a change is not written; NONE when the state is as it is wished, None when it may be written."""
    state, asked = known.state, set(change.isr)
    if change.leader_epoch > state.leader_epoch or change.partition_epoch > known.version:
        return ErrorCode.NOT_CONTROLLER  # The leader knows more than this controller: is there another one?
    if change.leader_epoch < state.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if sender != state.leader or len(asked) != len(change.isr):
        return ErrorCode.INVALID_REQUEST
    if asked == set(state.isr) and change.recovering == state.recovering:
        return ErrorCode.NONE  # Asked again, since the first answer was lost.
    if change.partition_epoch < known.version:
        return ErrorCode.INVALID_UPDATE_VERSION
    assignment = transition.assignment(topic_partition.topic)
    assert assignment is not None
    if sender not in asked or not asked <= set(assignment.replicas.get(topic_partition.partition, ())):
        return ErrorCode.INVALID_REQUEST
    if change.recovering and (not state.recovering or len(asked) > 1):
        return ErrorCode.INVALID_REQUEST
    if any(not _is_eligible(transition, topic_partition, *member) for member in _newcomers(state.isr, change)):
        return ErrorCode.INELIGIBLE_REPLICA
    return None


def _answer_to(
    sender: BrokerId | None, change: IsrChange, known: KnownState, refusal: ErrorCode
) -> KnownState | ErrorCode:
    """The answer to a change that is not written: the code, or the state in force.

    Leaders of Apache Kafka 2.7 to 3.1 ask by name, and no error code ends their proposal. NOT_CONTROLLER makes them ask
    again. After FENCED_LEADER_EPOCH, INVALID_UPDATE_VERSION and UNKNOWN_TOPIC_OR_PARTITION they wait for a newer leader
    epoch; any other code fails inside them (KAFKA-14010). Until a newer epoch the in-sync set then stays as it is, and
    the high watermark waits for the replica that was proposed. A state of the same leader epoch ends the proposal in
    all releases.
    """
    if refusal is ErrorCode.NONE:
        return known
    if not change.topic or refusal not in _NOT_BY_NAME:
        return refusal
    leads = sender == known.state.leader and change.leader_epoch == known.state.leader_epoch
    return known if leads else ErrorCode.FENCED_LEADER_EPOCH


def _newcomers(isr: Iterable[BrokerId], change: IsrChange) -> Iterable[tuple[BrokerId, int]]:
    """Who would join, and in which life the leader saw it. Who is in sync already was judged when that changed."""
    epochs = change.broker_epochs or (-1,) * len(change.isr)
    return [(member, epoch) for member, epoch in zip(change.isr, epochs, strict=True) if member not in isr]


def _is_eligible(transition: Transition, topic_partition: TopicPartition, member: BrokerId, broker_epoch: int) -> bool:
    return transition.is_eligible(member, topic_partition) and broker_epoch in (-1, transition.brokers[member].epoch)
