"""What is said to those who wish for elections and moves, in a cluster of several brokers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import BrokerId, LeaderEpoch, TopicPartition
from sordini.replication.cluster_model import (
    Broker,
    Cluster,
    Deletion,
    KnownState,
    PartitionState,
    Topic,
    TopicAssignment,
)
from sordini.replication.controller.machine import admin_validation
from sordini.replication.controller.machine.admin_validation import Declined
from sordini.replication.controller.machine.election_algorithms import Election
from sordini.replication.controller.machine.events import ElectionsWanted, MovesWanted
from tests.support.controller_machine_harness import World

ORDERS = TopicPartition("orders", 0)
LIVE = (1, 2, 3)


def ids(*numbers: int) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(number) for number in numbers)


def a_cluster(
    replicas: tuple[int, ...] = (1, 2),
    *,
    leader: int | None = 1,
    isr: tuple[int, ...] = (1, 2),
    adding: tuple[int, ...] = (),
    removing: tuple[int, ...] = (),
    doomed: bool = False,
) -> Cluster:
    """One partition, and brokers 1 to 3; with an empty in-sync set it never had a state."""
    assignment = TopicAssignment("orders", {0: ids(*replicas)}, adding={0: ids(*adding)}, removing={0: ids(*removing)})
    state = PartitionState(None if leader is None else BrokerId(leader), LeaderEpoch(1), ids(*isr), 1)
    return Cluster(
        BrokerId(1),
        1,
        {BrokerId(number): Broker(BrokerId(number), number, ()) for number in LIVE},
        {"orders": Topic(assignment, {0: KnownState(state, 0)} if isr else {})},
        {"orders": Deletion(frozenset(), frozenset())} if doomed else {},
    )


def code(verdict: object) -> ErrorCode:
    assert isinstance(verdict, Declined), verdict
    assert verdict.reason
    return verdict.code


def test_an_election_is_judged_by_the_topic_before_the_replicas() -> None:
    judge = admin_validation.judge_election
    preferred = Election.PREFERRED
    assert code(judge(a_cluster(), preferred, TopicPartition("orders", 1))) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code(judge(a_cluster(), preferred, TopicPartition("nothing", 0))) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code(judge(a_cluster(doomed=True), preferred, ORDERS)) == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert code(judge(a_cluster(), preferred, ORDERS)) == ErrorCode.ELECTION_NOT_NEEDED
    assert judge(a_cluster(leader=2), preferred, ORDERS) == 1
    assert code(judge(a_cluster((9,), isr=()), preferred, ORDERS)) == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert code(judge(a_cluster((9,), isr=()), Election.UNCLEAN, ORDERS)) == ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE


@pytest.mark.parametrize(
    ("target", "outcome"),
    [
        ((1, 2), (1, 2)),
        ((2, 1), (2, 1)),
        ((2,), (2,)),
        ((1, 3), (1, 3)),
        ((3,), (3,)),
        ((7,), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((1, 1), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((-1,), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
    ],
)
def test_a_move_may_take_and_reorder_and_bring_who_is_alive(target: tuple[int, ...] | None, outcome: object) -> None:
    verdict = admin_validation.judge_move(a_cluster(), ORDERS, None if target is None else ids(*target))
    assert (code(verdict) if isinstance(verdict, Declined) else verdict) == outcome


def test_who_is_about_to_stop_is_not_brought_in() -> None:
    leaving = replace(a_cluster(), shutting_down=frozenset(ids(3)))
    assert code(admin_validation.judge_move(leaving, ORDERS, ids(1, 3))) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert admin_validation.judge_move(leaving, ORDERS, ids(1)) == (1,)


def test_who_holds_it_may_stay_though_he_is_away_and_who_was_only_coming_may_not() -> None:
    assert admin_validation.judge_move(a_cluster((1, 7)), ORDERS, ids(7, 1)) == (7, 1)
    coming = a_cluster((1, 2, 7), adding=(7,))
    assert code(admin_validation.judge_move(coming, ORDERS, ids(1, 7))) == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_a_partition_that_never_had_a_state_may_go_anywhere() -> None:
    assert admin_validation.judge_move(a_cluster((1, 2), isr=()), ORDERS, ids(3)) == (3,)


def test_plans_change_only_if_somebody_in_sync_is_left_to_lead() -> None:
    """From 1,2 to 3: with 3 leading, another target has no use for it."""
    alone = a_cluster((3, 1, 2), adding=(3,), removing=(1, 2), isr=(3,), leader=3)
    shared = a_cluster((3, 1, 2), adding=(3,), removing=(1, 2), isr=(3, 1), leader=3)
    leaving = replace(shared, shutting_down=frozenset(ids(1)))
    assert code(admin_validation.judge_move(alone, ORDERS, ids(2))) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert admin_validation.judge_move(shared, ORDERS, ids(2)) == (2,)
    assert code(admin_validation.judge_move(leaving, ORDERS, ids(2))) == ErrorCode.INVALID_REPLICA_ASSIGNMENT


@pytest.mark.parametrize(
    ("target", "whole"),
    [
        ((3, 1), ((3, 1, 2), (3,), (2,))),
        ((1, 2), ((1, 2), (), ())),
        ((2, 1), ((2, 1), (), ())),
        ((4, 3), ((4, 3, 1, 2), (4, 3), (1, 2))),
        ((2,), ((2, 1), (), (1,))),
    ],
)
@pytest.mark.parametrize("under_way", [False, True])
def test_the_target_comes_first_and_those_that_go_last_wherever_a_move_was_heading(
    target: tuple[int, ...], whole: tuple[tuple[int, ...], ...], under_way: bool
) -> None:
    cluster = a_cluster((5, 2, 1), adding=(5,), removing=(1,)) if under_way else a_cluster()
    made = admin_validation.plan(cluster.topics["orders"].assignment, 0, ids(*target))
    assert (set(made.adding), set(made.removing)) == (set(whole[1]), set(whole[2]))
    assert made.replicas[: len(target)] == target
    assert set(made.replicas) == set(whole[0])


def test_a_move_under_way_is_undone_to_the_replicas_there_were_before_it() -> None:
    assert admin_validation.judge_move(a_cluster((1, 2, 3), adding=(3,)), ORDERS, None) == (1, 2)
    assert admin_validation.judge_move(a_cluster((1, 2), removing=(2,), isr=(1,)), ORDERS, None) == (1, 2)
    lost = a_cluster((1, 2, 3), adding=(3,), isr=(3,), leader=3)
    assert code(admin_validation.judge_move(lost, ORDERS, None)) == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_a_topic_that_is_being_deleted_is_not_moved() -> None:
    cluster = a_cluster(doomed=True)
    assert code(admin_validation.judge_move(cluster, ORDERS, ids(1))) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_the_number_of_replicas_stays_when_that_is_asked_for() -> None:
    cluster = a_cluster((1, 2, 3), adding=(3,), isr=(1, 2, 3))
    for target, verdict in (((1,), ErrorCode.INVALID_REPLICATION_FACTOR), ((2, 1), (2, 1))):
        judged = admin_validation.judge_move(cluster, ORDERS, ids(*target), keep_factor=True)
        assert (code(judged) if isinstance(judged, Declined) else judged) == verdict


def test_a_move_whose_ground_has_changed_deletes_nothing() -> None:
    world = World()
    for broker in (1, 2):
        world.broker_comes(broker)
    world.topic_made("orders", {0: ids(1, 2)})
    world.elect()
    # The leader has put 2 out of the in-sync set, and the controller does not know.
    world.state_written(ORDERS, PartitionState(BrokerId(1), LeaderEpoch(0), ids(1), 1))
    world.said.clear()
    world.feed(MovesWanted({ORDERS: ids(2)}))
    assert not any("StopReplica" in line for line in world.said), world.said
    moving = world.topics()["orders"]
    assert (moving.replicas, moving.removing) == ({0: (2, 1)}, {0: (1,)}), "it waits for 2"
    known = world.state(ORDERS)
    assert known is not None
    assert (known.state.leader, known.state.isr) == (1, (1,))


def test_an_election_whose_ground_has_changed_changes_nothing() -> None:
    world = World()
    for broker in (1, 2):
        world.broker_comes(broker)
    world.topic_made("orders", {0: ids(1, 2)})
    world.elect()
    written = PartitionState(BrokerId(2), LeaderEpoch(1), ids(2, 1), 1)
    world.state_written(ORDERS, written)
    world.elect()
    world.state_written(ORDERS, PartitionState(BrokerId(2), LeaderEpoch(1), ids(2), 1))
    world.feed(ElectionsWanted(Election.PREFERRED, (ORDERS,)))
    known = world.state(ORDERS)
    assert known is not None
    assert (known.state.leader, known.state.isr) == (2, (2,)), "1 had left the in-sync set"


def test_a_move_is_under_way_to_its_target_and_to_nothing_else() -> None:
    assert admin_validation.is_under_way(a_cluster(), ORDERS, ids(1, 2)), "it is there"
    assert not admin_validation.is_under_way(a_cluster(), ORDERS, ids(2, 1))
    moving = a_cluster((3, 1, 2), adding=(3,), removing=(2,))
    assert admin_validation.is_under_way(moving, ORDERS, ids(3, 1))
    assert not admin_validation.is_under_way(moving, ORDERS, ids(3, 1, 2))
    assert not admin_validation.is_under_way(moving, ORDERS, ids(1, 2))
    assert not admin_validation.is_under_way(
        replace(moving, deletions={"orders": Deletion(frozenset(), frozenset())}), ORDERS, ids(3, 1)
    )


def test_a_reign_that_begins_in_the_middle_of_a_move_gives_the_leadership_to_a_replica() -> None:
    world = World()
    for broker in (1, 2):
        world.broker_comes(broker)
    world.topic_made("orders", {0: ids(1, 2)})
    world.elect()
    world.topic_set("orders", {0: ids(2)}, world.topics()["orders"].topic_id)
    world.elect()
    known = world.state(ORDERS)
    assert known is not None
    assert (known.state.leader, known.state.isr) == (2, (2,))
