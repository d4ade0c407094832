"""Elections that are requested: by administrators (ElectLeaders, KIP-183, KIP-460), by a tool that writes
/admin/preferred_replica_election, and by the controller's own `leader_rebalance`.

Pure, like the machine it belongs to.
"""

from __future__ import annotations

from collections.abc import Iterable

from sordini.protocol.types import TopicPartition
from sordini.replication.controller.machine import admin_validation
from sordini.replication.controller.machine.election_algorithms import ElectionType
from sordini.replication.controller.machine.events import StoreWrite, ZkElectionsRead
from sordini.replication.controller.machine.transition import ControllerTransition
from sordini.replication.metadata_store import paths
from sordini.replication.ports import Delete


def elect(transition: ControllerTransition, election: ElectionType, partitions: Iterable[TopicPartition]) -> None:
    """Write the states of the partitions whose election is valid."""
    for partition in dict.fromkeys(partitions):
        winner = admin_validation.validate_election(transition.before, election, partition)
        known = transition.states(partition.topic).get(partition.partition)
        if isinstance(winner, admin_validation.Rejection) or known is None:
            continue
        if winner in known.state.isr:
            transition.write_state(partition, transition.next_state(known.state, winner, known.state.isr))
        else:
            transition.write_state(partition, transition.unclean_state(known.state, winner))


def zk_elections_read(transition: ControllerTransition, event: ZkElectionsRead) -> None:
    """Hold the elections that a tool requested; then its node is deleted, so that the tool can write another."""
    elect(transition, ElectionType.PREFERRED, event.partitions)
    transition.write(StoreWrite(Delete(paths.PREFERRED_ELECTION, event.version)))
