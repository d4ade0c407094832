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
from sordini.replication.controller.machine.election_algorithms import Election
from sordini.replication.controller.machine.events import BalanceDue, ElectionsNoted, Write
from sordini.replication.controller.machine.transition import Turn
from sordini.replication.metadata_store import paths
from sordini.replication.ports import Delete


def elect(turn: Turn, election: Election, partitions: Iterable[TopicPartition]) -> None:
    """Write the states of those whose election is granted."""
    for wanted in dict.fromkeys(partitions):
        winner = admin_validation.judge_election(turn.before, election, wanted)
        known = turn.states(wanted.topic).get(wanted.partition)
        if isinstance(winner, admin_validation.Declined) or known is None:
            continue
        if winner in known.state.isr:
            turn.write_state(wanted, turn.next_state(known.state, winner, known.state.isr))
        else:
            turn.write_state(wanted, turn.unclean_state(known.state, winner))


def noted(turn: Turn, event: ElectionsNoted) -> None:
    """Elect what a tool asks for; its note goes when that is written, so that there is room for another."""
    elect(turn, Election.PREFERRED, event.partitions)
    turn.write(Write(Delete(paths.PREFERRED_ELECTION, event.version)))


def balance(turn: Turn, event: BalanceDue) -> None:
    """Give brokers back what they should lead, where they lead too little of it."""
    preferring: dict[BrokerId, int] = defaultdict(int)
    elsewhere: dict[BrokerId, list[TopicPartition]] = defaultdict(list)
    for topic in turn.kept():
        if topic.adding or topic.removing:
            return
        states = turn.states(topic.name)
        for partition, replicas in sorted(topic.replicas.items()):
            preferred, known = replicas[0], states.get(partition)
            preferring[preferred] += 1
            if known is not None and known.state.leader != preferred:
                elsewhere[preferred].append(TopicPartition(topic.name, partition))
    for broker, partitions in sorted(elsewhere.items()):
        if 100 * len(partitions) > event.percentage * preferring[broker]:
            elect(turn, Election.PREFERRED, partitions)
