"""Unclean elections: where nobody of an in-sync set is there, a replica that lags leads, if the topic allows it.

Acknowledged records may be lost by that, so it happens only under `unclean.leader.election.enable`, the topic's own or
the brokers' default, as it is at the moment of the decision: the machine keeps none of it, it has it read. Brokers hear
of one election, whatever the ruling is. When the setting is switched on, all that has no leader is ruled upon at once.

Pure, like the machine it belongs to.
"""

from __future__ import annotations

from sordini.protocol.types import TopicPartition
from sordini.replication.cluster_model import ClusterState, PartitionState
from sordini.replication.controller.machine import leader_election
from sordini.replication.controller.machine.events import UncleanSettingsRead
from sordini.replication.controller.machine.transition import Transition


def leaderless(cluster: ClusterState, topic: str | None = None) -> tuple[TopicPartition, ...]:
    """Partitions that nobody leads, of one topic or of all."""
    names = sorted(cluster.topics) if topic is None else [topic] if topic in cluster.topics else []
    return tuple(
        TopicPartition(name, partition)
        for name in names
        if name not in cluster.deletions
        for partition, known in sorted(cluster.topics[name].states.items())
        if known.state.leader is None
    )


def rule(transition: Transition, event: UncleanSettingsRead) -> None:
    """Decide on partitions now that it is known what is allowed."""
    live = transition.brokers.keys()
    for topic_partition in event.partitions:
        name, partition = topic_partition
        topic, known = transition.assignment(name), transition.states(name).get(partition)
        if topic is None or known is None or name in transition.deletions or partition not in topic.replicas:
            continue
        state = leader_election.next_state_of(
            transition,
            topic_partition,
            known.state,
            topic.replicas[partition],
            live,
            live,
            unclean=name in event.allowed,
        )
        if isinstance(state, PartitionState):
            transition.write_state(topic_partition, state)
