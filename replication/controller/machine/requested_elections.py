"""Elections that are requested: by administrators (ElectLeaders, KIP-183, KIP-460), by a tool that writes
/admin/preferred_replica_election, and by the controller's automatic leader rebalance.

A broker that restarts becomes a follower of all its partitions. The rebalance counts, for each broker, the partitions
whose preferred replica it is and that have another leader. Where they exceed a percentage
(`leader.imbalance.per.broker.percentage`), the preferred replica is elected. No rebalance runs during a reassignment.

Pure, like the machine it belongs to.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from sordini.protocol.types import BrokerId, TopicPartition
from sordini.replication.controller.machine import admin_validation
from sordini.replication.controller.machine.election_algorithms import ElectionType
from sordini.replication.controller.machine.events import LeaderRebalanceDue, Write, ZkElectionsRead
from sordini.replication.controller.machine.transition import Transition
from sordini.replication.metadata_store import paths
from sordini.replication.ports import Delete


def elect(transition: Transition, election: ElectionType, partitions: Iterable[TopicPartition]) -> None:
    """Write the states of the partitions whose election is valid."""
    for one in dict.fromkeys(partitions):
        winner = admin_validation.validate_election(transition.before, election, one)
        known = transition.states(one.topic).get(one.partition)
        if isinstance(winner, admin_validation.Rejection) or known is None:
            continue
        if winner in known.state.isr:
            transition.write_state(one, transition.next_state(known.state, winner, known.state.isr))
        else:
            transition.write_state(one, transition.unclean_state(known.state, winner))


def zk_elections_read(transition: Transition, event: ZkElectionsRead) -> None:
    """Hold the elections that a tool requested; then its node is deleted, so that the tool can write another."""
    elect(transition, ElectionType.PREFERRED, event.partitions)
    transition.write(Write(Delete(paths.PREFERRED_ELECTION, event.version)))


def rebalance(transition: Transition, event: LeaderRebalanceDue) -> None:
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
