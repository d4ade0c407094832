"""Brokers that are about to stop (ControlledShutdown): their leaderships go to others before they do.

From the request until its node is gone such a broker is elected nowhere and joins no in-sync set. What it follows it
is told to stop following; a partition of which it is the only replica, or the only one in sync, stays with it. It asks
again while something remains.

Pure, like the machine it belongs to.
"""

from __future__ import annotations

from collections.abc import Iterator

from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import BrokerId, TopicPartition
from sordini.replication.cluster_model import ClusterState, PartitionState, StoppedReplica
from sordini.replication.controller.machine import leader_election
from sordini.replication.controller.machine.events import ShutdownRequested
from sordini.replication.controller.machine.transition import Transition


def refusal(cluster: ClusterState, event: ShutdownRequested) -> ErrorCode | None:
    """Why a broker's shutdown is not looked after."""
    broker = cluster.brokers.get(event.broker_id)
    if broker is None:
        return ErrorCode.BROKER_NOT_AVAILABLE
    if event.broker_epoch is not None and event.broker_epoch < broker.epoch:
        return ErrorCode.STALE_BROKER_EPOCH
    return None


def begin(transition: Transition, event: ShutdownRequested) -> None:
    """Write what must change for the broker to leave; asked again, only what could not be done before."""
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
    """Partitions with other replicas that the broker leads all the same: no other replica is in sync.

    None where every other broker is about to stop, too: a repetition could not move them either, and brokers that are
    stopped together, Apache Kafka's among them, would wait for nothing.
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


def _shared(transition: Transition, broker_id: BrokerId) -> Iterator[tuple[TopicPartition, PartitionState]]:
    """Every partition that the broker holds together with others."""
    for topic in transition.active_topics():
        states = transition.states(topic.name)
        for partition, replicas in sorted(topic.replicas.items()):
            if broker_id in replicas and len(replicas) > 1 and partition in states:
                yield TopicPartition(topic.name, partition), states[partition].state
