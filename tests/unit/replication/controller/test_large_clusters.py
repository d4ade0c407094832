"""What limits the cost of a step of the controller's machine with many brokers and partitions."""

from __future__ import annotations

from sordini.protocol.types import BrokerId, LeaderEpoch, TopicId, TopicPartition
from sordini.replication.cluster_model import (
    Broker,
    ClusterState,
    KnownState,
    PartitionState,
    Replica,
    TopicAssignment,
    TopicState,
    UpdateMetadata,
    frozen,
)
from sordini.replication.controller.machine.events import BrokersChanged, Elected, Send, WriteAll
from sordini.replication.controller.machine.machine import step

IDS = tuple(BrokerId(number) for number in (1, 2, 3))
BROKERS = {one: Broker(one, one, ()) for one in IDS}
ORDERS = TopicPartition("orders", 0)
ASSIGNMENT = TopicAssignment("orders", frozen({0: IDS}), TopicId(bytes(15) + b"1"))


def a_cluster(state: PartitionState) -> ClusterState:
    topic = TopicState(ASSIGNMENT, frozen({0: KnownState(state, 0)}))
    return ClusterState(IDS[0], 1, frozen(BROKERS), frozen({"orders": topic}))


def led(leader: int | None = 1, isr: tuple[int, ...] = (1, 2, 3)) -> PartitionState:
    return PartitionState(
        None if leader is None else BrokerId(leader), LeaderEpoch(0), tuple(BrokerId(one) for one in isr), 1
    )


def decided(cluster: ClusterState, brokers: dict[BrokerId, Broker]) -> list[PartitionState]:
    """The states that are written when these are the brokers."""
    _, actions = step(cluster, BrokersChanged(frozen(brokers)))
    writes = [write for action in actions if isinstance(action, WriteAll) for write in action.writes]
    return [write.purpose.state for write in writes if hasattr(write.purpose, "state")]


def test_all_receivers_share_the_partitions_of_their_commands() -> None:
    elected = Elected(IDS[0], 1, frozen(BROKERS), frozen({"orders": ASSIGNMENT}), {ORDERS: KnownState(led(), 0)})
    _, actions = step(None, elected)
    announced = [
        action.command.partitions
        for action in actions
        if isinstance(action, Send) and isinstance(action.command, UpdateMetadata) and action.command.partitions
    ]
    assert len(announced) == len(IDS)
    assert all(partitions is announced[0] for partitions in announced)


def test_a_partition_to_which_nothing_happened_is_unchanged() -> None:
    without_other = {**BROKERS, BrokerId(4): Broker(BrokerId(4), 4, ())}
    assert decided(a_cluster(led()), without_other) == []
    assert decided(a_cluster(led(2, (2, 3))), without_other) == [], "a replica out of sync has no effect"


def test_an_in_sync_replica_that_failed_or_is_shutting_down_leads_to_a_decision() -> None:
    two = {one: BROKERS[one] for one in IDS[:2]}
    (state,) = decided(a_cluster(led()), two)
    assert (state.leader, state.isr) == (1, IDS[:2])
    four = {**BROKERS, BrokerId(4): Broker(BrokerId(4), 4, ())}
    leaving = a_cluster(led())._replace(shutting_down=frozenset({IDS[2]}))
    assert [state.isr for state in decided(leaving, four)] == [IDS[:2]]
    broken = a_cluster(led())._replace(offline=frozenset({Replica(IDS[0], ORDERS)}))
    assert [(state.leader, state.isr) for state in decided(broken, four)] == [(2, IDS[1:])]
    foreign = a_cluster(led(1, (1, 2, 3, 4)))._replace(brokers=frozen(four))
    five = {**four, BrokerId(5): Broker(BrokerId(5), 5, ())}
    assert [state.isr for state in decided(foreign, five)] == [IDS], "a member without a replica"
    assert [state.leader for state in decided(a_cluster(led(None)), four)] == [1]
