"""Validation of elections and reassignments in a cluster of three brokers."""

from __future__ import annotations

import pytest

from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import BrokerId, LeaderEpoch, TopicPartition
from sordini.replication.cluster_model import (
    Broker,
    ClusterState,
    Deletion,
    KnownState,
    PartitionState,
    TopicAssignment,
    TopicState,
)
from sordini.replication.controller.machine import admin_validation
from sordini.replication.controller.machine.admin_validation import Rejection
from sordini.replication.controller.machine.election_algorithms import ElectionType
from sordini.replication.controller.machine.events import ElectionsRequested, ReassignmentsRequested
from tests.support.controller_machine_harness import MachineHarness

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
    deleting: bool = False,
) -> ClusterState:
    """One partition, and brokers 1 to 3; with an empty in-sync set it never had a state."""
    assignment = TopicAssignment("orders", {0: ids(*replicas)}, adding={0: ids(*adding)}, removing={0: ids(*removing)})
    state = PartitionState(None if leader is None else BrokerId(leader), LeaderEpoch(1), ids(*isr), 1)
    return ClusterState(
        BrokerId(1),
        1,
        {BrokerId(number): Broker(BrokerId(number), number, ()) for number in LIVE},
        {"orders": TopicState(assignment, {0: KnownState(state, 0)} if isr else {})},
        {"orders": Deletion(frozenset(), frozenset())} if deleting else {},
    )


def code(result: object) -> ErrorCode:
    assert isinstance(result, Rejection), result
    assert result.reason
    return result.code


def test_an_election_is_validated_by_its_topic_before_its_replicas() -> None:
    validate = admin_validation.validate_election
    preferred = ElectionType.PREFERRED
    assert code(validate(a_cluster(), preferred, TopicPartition("orders", 1))) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code(validate(a_cluster(), preferred, TopicPartition("nothing", 0))) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code(validate(a_cluster(deleting=True), preferred, ORDERS)) == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert code(validate(a_cluster(), preferred, ORDERS)) == ErrorCode.ELECTION_NOT_NEEDED
    assert validate(a_cluster(leader=2), preferred, ORDERS) == 1
    assert code(validate(a_cluster((9,), isr=()), preferred, ORDERS)) == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert (
        code(validate(a_cluster((9,), isr=()), ElectionType.UNCLEAN, ORDERS))
        == ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    )


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
def test_a_reassignment_may_remove_reorder_and_add_live_replicas(
    target: tuple[int, ...] | None, outcome: object
) -> None:
    result = admin_validation.validate_reassignment(a_cluster(), ORDERS, None if target is None else ids(*target))
    assert (code(result) if isinstance(result, Rejection) else result) == outcome


def test_a_broker_that_is_shutting_down_cannot_be_added() -> None:
    leaving = a_cluster()._replace(shutting_down=frozenset(ids(3)))
    assert (
        code(admin_validation.validate_reassignment(leaving, ORDERS, ids(1, 3))) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    )
    assert admin_validation.validate_reassignment(leaving, ORDERS, ids(1)) == (1,)


def test_a_replica_may_stay_while_its_broker_is_down_but_one_being_added_may_not() -> None:
    assert admin_validation.validate_reassignment(a_cluster((1, 7)), ORDERS, ids(7, 1)) == (7, 1)
    coming = a_cluster((1, 2, 7), adding=(7,))
    assert (
        code(admin_validation.validate_reassignment(coming, ORDERS, ids(1, 7))) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    )


def test_a_partition_that_never_had_a_state_may_be_reassigned_to_any_broker() -> None:
    assert admin_validation.validate_reassignment(a_cluster((1, 2), isr=()), ORDERS, ids(3)) == (3,)


def test_a_new_target_is_valid_only_if_an_in_sync_replica_is_left_to_lead() -> None:
    """From 1,2 to 3: with 3 leading, another target has no use for it."""
    alone = a_cluster((3, 1, 2), adding=(3,), removing=(1, 2), isr=(3,), leader=3)
    shared = a_cluster((3, 1, 2), adding=(3,), removing=(1, 2), isr=(3, 1), leader=3)
    leaving = shared._replace(shutting_down=frozenset(ids(1)))
    assert code(admin_validation.validate_reassignment(alone, ORDERS, ids(2))) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert admin_validation.validate_reassignment(shared, ORDERS, ids(2)) == (2,)
    assert code(admin_validation.validate_reassignment(leaving, ORDERS, ids(2))) == ErrorCode.INVALID_REPLICA_ASSIGNMENT


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
@pytest.mark.parametrize("ongoing", [False, True])
def test_the_target_comes_first_and_the_removed_replicas_last_whatever_the_former_target(
    target: tuple[int, ...], whole: tuple[tuple[int, ...], ...], ongoing: bool
) -> None:
    cluster = a_cluster((5, 2, 1), adding=(5,), removing=(1,)) if ongoing else a_cluster()
    made = admin_validation.reassign_to(cluster.topics["orders"].assignment, 0, ids(*target))
    assert (set(made.adding), set(made.removing)) == (set(whole[1]), set(whole[2]))
    assert made.replicas[: len(target)] == target
    assert set(made.replicas) == set(whole[0])


def test_an_ongoing_reassignment_is_cancelled_to_its_original_replicas() -> None:
    assert admin_validation.validate_reassignment(a_cluster((1, 2, 3), adding=(3,)), ORDERS, None) == (1, 2)
    assert admin_validation.validate_reassignment(a_cluster((1, 2), removing=(2,), isr=(1,)), ORDERS, None) == (1, 2)
    lost = a_cluster((1, 2, 3), adding=(3,), isr=(3,), leader=3)
    assert code(admin_validation.validate_reassignment(lost, ORDERS, None)) == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_a_topic_that_is_being_deleted_is_not_reassigned() -> None:
    cluster = a_cluster(deleting=True)
    assert code(admin_validation.validate_reassignment(cluster, ORDERS, ids(1))) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_the_replication_factor_is_kept_when_that_is_requested() -> None:
    cluster = a_cluster((1, 2, 3), adding=(3,), isr=(1, 2, 3))
    for target, result in (((1,), ErrorCode.INVALID_REPLICATION_FACTOR), ((2, 1), (2, 1))):
        validated = admin_validation.validate_reassignment(cluster, ORDERS, ids(*target), keep_factor=True)
        assert (code(validated) if isinstance(validated, Rejection) else validated) == result


def test_a_reassignment_whose_preconditions_have_changed_deletes_nothing() -> None:
    harness = MachineHarness()
    for broker in (1, 2):
        harness.register_broker(broker)
    harness.create_topic("orders", {0: ids(1, 2)})
    harness.elect()
    # The leader has put 2 out of the in-sync set, and the controller does not know.
    harness.write_state(ORDERS, PartitionState(BrokerId(1), LeaderEpoch(0), ids(1), 1))
    harness.lines.clear()
    harness.feed(ReassignmentsRequested({ORDERS: ids(2)}))
    assert not any("StopReplica" in line for line in harness.lines), harness.lines
    reassigning = harness.topics()["orders"]
    assert (reassigning.replicas, reassigning.removing) == ({0: (2, 1)}, {0: (1,)}), "it waits for 2"
    known = harness.state(ORDERS)
    assert known is not None
    assert (known.state.leader, known.state.isr) == (1, (1,))


def test_an_election_whose_preconditions_have_changed_changes_nothing() -> None:
    harness = MachineHarness()
    for broker in (1, 2):
        harness.register_broker(broker)
    harness.create_topic("orders", {0: ids(1, 2)})
    harness.elect()
    written = PartitionState(BrokerId(2), LeaderEpoch(1), ids(2, 1), 1)
    harness.write_state(ORDERS, written)
    harness.elect()
    harness.write_state(ORDERS, PartitionState(BrokerId(2), LeaderEpoch(1), ids(2), 1))
    harness.feed(ElectionsRequested(ElectionType.PREFERRED, (ORDERS,)))
    known = harness.state(ORDERS)
    assert known is not None
    assert (known.state.leader, known.state.isr) == (2, (2,)), "1 had left the in-sync set"


def test_a_reassignment_is_ongoing_to_its_target_and_to_no_other() -> None:
    assert admin_validation.is_reassigning_to(a_cluster(), ORDERS, ids(1, 2)), "it is there"
    assert not admin_validation.is_reassigning_to(a_cluster(), ORDERS, ids(2, 1))
    reassigning = a_cluster((3, 1, 2), adding=(3,), removing=(2,))
    assert admin_validation.is_reassigning_to(reassigning, ORDERS, ids(3, 1))
    assert not admin_validation.is_reassigning_to(reassigning, ORDERS, ids(3, 1, 2))
    assert not admin_validation.is_reassigning_to(reassigning, ORDERS, ids(1, 2))
    assert not admin_validation.is_reassigning_to(
        reassigning._replace(deletions={"orders": Deletion(frozenset(), frozenset())}), ORDERS, ids(3, 1)
    )


def test_a_controller_elected_during_a_reassignment_elects_a_replica() -> None:
    harness = MachineHarness()
    for broker in (1, 2):
        harness.register_broker(broker)
    harness.create_topic("orders", {0: ids(1, 2)})
    harness.elect()
    harness.write_topic("orders", {0: ids(2)}, harness.topics()["orders"].topic_id)
    harness.elect()
    known = harness.state(ORDERS)
    assert known is not None
    assert (known.state.leader, known.state.isr) == (2, (2,))
