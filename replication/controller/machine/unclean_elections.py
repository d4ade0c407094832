"""Unclean elections: without an eligible in-sync replica, a lagging replica leads, if the topic allows it.

Acknowledged records may be lost by that, so it needs `unclean.leader.election.enable`, the topic's own or the brokers'
default. The machine keeps no settings; it has them read at the moment of the decision. Brokers are sent one election,
whatever the setting is. When the setting is enabled, the election of all partitions without a leader is tried at once.

Pure, like the machine it belongs to.
"""

from __future__ import annotations

from enum import Enum

from sordini.protocol.types import BrokerId, TopicPartition
from sordini.replication.cluster_model import ClusterState, PartitionState
from sordini.replication.controller.machine.transition import ControllerTransition


class Deferred(Enum):
    """A decision that is made in a later step."""

    UNCLEAN_SETTING = "no in-sync replica is eligible; the topic's unclean election setting is being read"


def leaderless(cluster: ClusterState, topic: str | None = None) -> tuple[TopicPartition, ...]:
    """Partitions without a leader, of one topic or of all."""
    names = sorted(cluster.topics) if topic is None else [topic] if topic in cluster.topics else []
    return tuple(
        TopicPartition(name, partition)
        for name in names
        if name not in cluster.deletions
        for partition, known in sorted(cluster.topics[name].states.items())
        if known.state.leader is None
    )


def elect_without_in_sync(
    transition: ControllerTransition,
    topic_partition: TopicPartition,
    state: PartitionState,
    replicas: tuple[BrokerId, ...],
    *,
    unclean: bool | None,
) -> PartitionState | Deferred | None:
    """The state of a partition without an eligible in-sync replica.

    `unclean`: whether the setting allows one that is not in sync; None is unknown, and is read.
    """
    lagging = next((replica for replica in replicas if transition.is_eligible(replica, topic_partition)), None)
    if lagging is not None and unclean:
        return transition.unclean_state(state, lagging)
    if lagging is not None and unclean is None:
        transition.read_unclean_setting(topic_partition)
        # A partition without a leader is announced as such now; it gets one only if the setting allows it.
        return None if state.leader is None else Deferred.UNCLEAN_SETTING
    # The ISR is kept: any of its members may lead when it returns, and no other replica.
    return None if state.leader is None else transition.next_state(state, None, state.isr)
