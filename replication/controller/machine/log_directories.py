"""Replicas in log directories that failed (KIP-112): dead, although their broker lives.

The broker leaves a note, and nothing more is in it than its id. So it is sent everything it should hold, and its
answer says what it cannot: KAFKA_STORAGE_ERROR for a partition is a replica that is offline, success in leading or
following it one that is sound again. STALE_CONTROLLER_EPOCH in the answer to such a survey says the same as success:
the broker holds the replica already, in that leader epoch or a later one. Any other code says nothing.

Pure, like the machine it belongs to.
"""

from __future__ import annotations

from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import TopicPartition
from sordini.replication.cluster_model import LeaderAndIsr, PartitionInfo, Replica
from sordini.replication.controller.machine import leader_election
from sordini.replication.controller.machine.events import CommandAnswered, LogDirsFailed, Write
from sordini.replication.controller.machine.transition import Transition
from sordini.replication.ports import Delete


def look(transition: Transition, event: LogDirsFailed) -> None:
    """Ask the brokers what they still hold."""
    transition.send_states(transition.partition_infos(), event.brokers & transition.brokers.keys(), is_survey=True)
    transition.write(*(Write(Delete(note)) for note in event.notes))


def answered(transition: Transition, event: CommandAnswered) -> None:
    """A broker says which replicas it has in hand, and which it has not."""
    broker, command = transition.brokers.get(event.broker_id), event.command
    if not isinstance(command, LeaderAndIsr) or broker is None or broker.epoch != command.broker_epoch:
        return  # Another command's answer, or one of a former life.
    if event.answer.error:
        return
    lost, found = set[Replica](), set[Replica]()
    for info in command.partitions:
        replica = Replica(event.broker_id, info.topic_partition)
        code = event.answer.partitions.get(info.topic_partition, ErrorCode.NONE)
        if code == ErrorCode.KAFKA_STORAGE_ERROR and replica not in transition.offline:
            lost.add(replica)
        elif replica in transition.offline and _is_held(code, info, command):
            found.add(replica)
    if lost or found:
        transition.offline = (transition.offline | lost) - found
        _decide(
            transition,
            [
                info.topic_partition
                for info in command.partitions
                if Replica(event.broker_id, info.topic_partition) in lost | found
            ],
        )


def _is_held(code: int, info: PartitionInfo, command: LeaderAndIsr) -> bool:
    """Whether the broker's code for a partition shows that its log is open."""
    if command.is_survey:
        return code in (ErrorCode.NONE, ErrorCode.STALE_CONTROLLER_EPOCH)
    # A partition without a leader may be taken without its log being opened: its election could fail, and be tried
    # again for ever. So it is tried only once for each note that the broker leaves.
    return code == ErrorCode.NONE and info.state.leader is not None


def _decide(transition: Transition, changed: list[TopicPartition]) -> None:
    live, told = transition.brokers.keys(), []
    for topic_partition in changed:
        topic = transition.assignment(topic_partition.topic)
        if topic is None or topic.name in transition.deletions or topic_partition.partition not in topic.replicas:
            continue
        if not leader_election.update_states(transition, topic, live, live, [topic_partition.partition]):
            info = transition.partition_info(*topic_partition)
            told += [info] if info is not None else []
    if told:
        # Nobody leads otherwise than before, but clients hear which replicas are offline.
        transition.send_metadata(transition.brokers, told)
