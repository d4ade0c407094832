"""Offline replicas: those in failed log directories of live brokers (KIP-112).

The broker's notification contains only its id. So the broker is sent all its partitions (a survey), and its answer
tells which are offline: KAFKA_STORAGE_ERROR means that a replica is offline, success that it is online again.
STALE_CONTROLLER_EPOCH in the answer to a survey means the same as success: the replica is open already, in that leader
epoch or a later one. Any other code means nothing.

Pure, like the machine it belongs to.
"""

from __future__ import annotations

from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import TopicPartition
from sordini.replication.cluster_model import LeaderAndIsr, PartitionInfo, Replica
from sordini.replication.controller.machine import leader_election
from sordini.replication.controller.machine.events import CommandAnswered, LogDirsFailed, StoreWrite
from sordini.replication.controller.machine.transition import ControllerTransition
from sordini.replication.ports import Delete


def survey(transition: ControllerTransition, event: LogDirsFailed) -> None:
    """Find out which replicas of these brokers are offline."""
    transition.send_states(transition.partition_infos(), event.brokers & transition.brokers.keys(), is_survey=True)
    transition.write(*(StoreWrite(Delete(path)) for path in event.notifications))


def answered(transition: ControllerTransition, event: CommandAnswered) -> None:
    """A broker answered a LeaderAndIsr: some replicas are offline, or online again."""
    broker, command = transition.brokers.get(event.broker_id), event.command
    if not isinstance(command, LeaderAndIsr) or broker is None or broker.epoch != command.broker_epoch:
        return  # Another command, or an answer of a former incarnation.
    if event.answer.error:
        return
    failed, restored = set[Replica](), set[Replica]()
    for info in command.partitions:
        replica = Replica(event.broker_id, info.topic_partition)
        code = event.answer.partitions.get(info.topic_partition, ErrorCode.NONE)
        if code == ErrorCode.KAFKA_STORAGE_ERROR and replica not in transition.offline:
            failed.add(replica)
        elif replica in transition.offline and _is_open(code, info, command):
            restored.add(replica)
    if failed or restored:
        transition.offline = (transition.offline | failed) - restored
        _decide(
            transition,
            [
                info.topic_partition
                for info in command.partitions
                if Replica(event.broker_id, info.topic_partition) in failed | restored
            ],
        )


def _is_open(code: int, info: PartitionInfo, command: LeaderAndIsr) -> bool:
    """Whether the code of a partition shows that its log is open."""
    if command.is_survey:
        return code in (ErrorCode.NONE, ErrorCode.STALE_CONTROLLER_EPOCH)
    # A broker accepts a partition without a leader without opening its log. Electing it then could fail and be repeated
    # forever, so it is tried only once per notification.
    return code == ErrorCode.NONE and info.state.leader is not None


def _decide(transition: ControllerTransition, changed: list[TopicPartition]) -> None:
    live, announced = transition.brokers.keys(), []
    for topic_partition in changed:
        topic = transition.assignment(topic_partition.topic)
        if topic is None or topic.name in transition.deletions or topic_partition.partition not in topic.replicas:
            continue
        if not leader_election.update_states(transition, topic, live, live, [topic_partition.partition]):
            info = transition.partition_info(*topic_partition)
            announced += [info] if info is not None else []
    if announced:
        # The leaders are unchanged, but the metadata has the offline replicas.
        transition.send_metadata(transition.brokers, announced)
