"""The automatic leader rebalance: when leadership returns to the preferred replicas.

A broker that restarts becomes a follower of all its partitions. The rebalance counts, for each broker, the partitions
whose preferred replica it is and that have another leader. Where they exceed a percentage
(`leader.imbalance.per.broker.percentage`), the preferred replica is elected. No rebalance runs during a reassignment.
How often it is due is `rebalance_timer.py`, beside the controller.

Pure, like the machine it belongs to.
"""

from __future__ import annotations

from collections import defaultdict

from sordini.protocol.types import BrokerId, TopicPartition
from sordini.replication.controller.machine.election_algorithms import ElectionType
from sordini.replication.controller.machine.events import LeaderRebalanceDue
from sordini.replication.controller.machine.requested_elections import elect
from sordini.replication.controller.machine.transition import ControllerTransition


def rebalance(transition: ControllerTransition, event: LeaderRebalanceDue) -> None:
    """Elect the preferred replicas of each broker that leads too few of the partitions that prefer it."""
    preferring: dict[BrokerId, int] = defaultdict(int)
    elsewhere: dict[BrokerId, list[TopicPartition]] = defaultdict(list)
    for topic in transition.active_topics():
        if topic.adding or topic.removing:
            return
        states = transition.states(topic.name)
        for partition, replicas in sorted(topic.replicas.items()):
            preferred, known = replicas[0], states.get(partition)
            preferring[preferred] += 1
            if known is not None and known.state.leader != preferred:
                elsewhere[preferred].append(TopicPartition(topic.name, partition))
    for broker, partitions in sorted(elsewhere.items()):
        if 100 * len(partitions) > event.percentage * preferring[broker]:
            elect(transition, ElectionType.PREFERRED, partitions)
