"""Controlled shutdown: a broker's leaderships are transferred before it stops.

From the request until its registration ends, such a broker is not elected and joins no ISR. It is sent a StopReplica
for what it follows; it keeps a partition of which it is the only replica or the only in-sync one. It repeats the
request while partitions remain.

Pure, like the machine it belongs to.
"""

from __future__ import annotations

from collections.abc import Iterator

from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import BrokerId, TopicPartition
from sordini.replication.cluster_model import ClusterState, PartitionState, StoppedReplica
from sordini.replication.controller.machine import leader_election
from sordini.replication.controller.machine.events import ShutdownRequested
from sordini.replication.controller.machine.transition import ControllerTransition


def refusal(cluster: ClusterState, event: ShutdownRequested) -> ErrorCode | None:
    """The error code of an invalid request, or None."""
    broker = cluster.brokers.get(event.broker_id)
    if broker is None:
        return ErrorCode.BROKER_NOT_AVAILABLE
    if event.broker_epoch is not None and event.broker_epoch < broker.epoch:
        return ErrorCode.STALE_BROKER_EPOCH
    return None


def begin(transition: ControllerTransition, event: ShutdownRequested) -> None:
    """Write the states without the broker; a repeated request writes only what was not possible before."""
    if refusal(transition.before, event) is not None:
        return
    broker_id = event.broker_id
    transition.shutting_down |= {broker_id}
    followed = [
        StoppedReplica(topic_partition, state.leader_epoch, delete=False)
        for topic_partition, state in _shared(transition, broker_id)
        if state.leader != broker_id
    ]
    if followed:
        transition.send_stop({broker_id: followed})
    live = transition.brokers.keys()
    for topic in list(transition.active_topics()):
        held = [partition for partition, replicas in topic.replicas.items() if broker_id in replicas]
        leader_election.update_states(transition, topic, live, live, held)


def remaining(cluster: ClusterState, broker_id: BrokerId) -> list[TopicPartition]:
    """Partitions with other replicas that the broker still leads, because no other replica is in sync.

    Empty while every other broker is shutting down, too: a repeated request could not move them either, and brokers
    that are stopped together, Apache Kafka's included, would wait in vain.
    """
    if not cluster.brokers.keys() - cluster.shutting_down - {broker_id}:
        return []
    return [
        TopicPartition(name, partition)
        for name, topic in sorted(cluster.topics.items())
        if name not in cluster.deletions
        for partition, known in sorted(topic.states.items())
        if known.state.leader == broker_id and len(topic.assignment.replicas.get(partition, ())) > 1
    ]


def _shared(transition: ControllerTransition, broker_id: BrokerId) -> Iterator[tuple[TopicPartition, PartitionState]]:
    """The partitions of which the broker has a replica and others have one, too."""
    for topic in transition.active_topics():
        states = transition.states(topic.name)
        for partition, replicas in sorted(topic.replicas.items()):
            if broker_id in replicas and len(replicas) > 1 and partition in states:
                yield TopicPartition(topic.name, partition), states[partition].state
