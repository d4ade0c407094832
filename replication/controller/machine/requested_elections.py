"""Elections that follow from nobody's loss: administrators ask for them (KIP-183, KIP-460), a tool leaves a note of
them in /admin/preferred_replica_election, and the controller itself evens out who leads what.

A broker that was away comes back as a follower of everything. So now and then, for each broker, those of the
partitions that prefer it and have another leader are counted; where they are more than so many per cent of the
partitions that prefer it, it is given back what it may lead. Nothing is evened out while replicas are on the move.

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
    """Write the states of those whose election is granted."""
    for wanted in dict.fromkeys(partitions):
        winner = admin_validation.validate_election(transition.before, election, wanted)
        known = transition.states(wanted.topic).get(wanted.partition)
        if isinstance(winner, admin_validation.Rejection) or known is None:
            continue
        if winner in known.state.isr:
            transition.write_state(wanted, transition.next_state(known.state, winner, known.state.isr))
        else:
            transition.write_state(wanted, transition.unclean_state(known.state, winner))


def noted(transition: Transition, event: ZkElectionsRead) -> None:
    """Elect what a tool asks for; its note goes when that is written, so that there is room for another."""
    elect(transition, ElectionType.PREFERRED, event.partitions)
    transition.write(Write(Delete(paths.PREFERRED_ELECTION, event.version)))


def balance(transition: Transition, event: LeaderRebalanceDue) -> None:
    """Give brokers back what they should lead, where they lead too little of it."""
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
