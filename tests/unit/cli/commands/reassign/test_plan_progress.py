"""How far a plan is, put together from what the cluster says, and in words."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import pytest

from sordini.admin.failure import Failure
from sordini.cli.commands.reassign.plan_execution import check_complete
from sordini.cli.commands.reassign.plan_progress import PlanProgress, progress_of
from sordini.cli.commands.reassign.reassignment_plan import ReassignmentPlan, ReplicaAssignment
from sordini.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from sordini.protocol.types import BrokerId, TopicPartition
from tests.unit.cli.commands.reassign.test_reassignment_plan import a_plan, ids

ONE, TWO = BrokerId(1), BrokerId(2)
P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
PLAN = a_plan(orders=[(3, 1), (1, 3)])
UNDER_WAY = ReplicaAssignment(ids(3, 1, 2), adding=ids(3), removing=ids(2))
NO_SIZES: Mapping[BrokerId, Mapping[TopicPartition, int]] = MappingProxyType({})


def progress(
    *standings: ReplicaAssignment,
    plan: ReassignmentPlan = PLAN,
    in_sync: tuple[int, ...] = (1, 2),
    running: tuple[int, ...] = (1, 2, 3),
    sizes: Mapping[BrokerId, Mapping[TopicPartition, int]] = NO_SIZES,
) -> PlanProgress:
    """Of orders with these partitions, each led by the first in sync."""
    rows = [
        MetadataResponsePartition(
            partition_index=number,
            leader_id=in_sync[0] if in_sync else -1,
            replica_nodes=[*one.replicas],
            isr_nodes=[*in_sync],
        )
        for number, one in enumerate(standings)
    ]
    found = MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=broker) for broker in running],
        topics=[MetadataResponseTopic(name="orders", partitions=rows)],
    )
    now = {TopicPartition("orders", number): one for number, one in enumerate(standings)}
    return progress_of(plan, [TWO], found, now, sizes)


def test_what_moves_is_counted_with_the_bytes_that_its_copies_lack() -> None:
    sizes = {ONE: {P0: 5_000_000}, BrokerId(3): {P0: 3_800_000}}
    assert str(progress(UNDER_WAY, ReplicaAssignment(ids(1, 3)), sizes=sizes)) == (
        "1 of 2 partitions left, 1.2 MB to copy; broker 2 holds 1 replica"
    )


def test_a_copy_that_has_not_begun_lacks_all_and_one_in_sync_lacks_nothing() -> None:
    sizes = {ONE: {P0: 5_000_000}, BrokerId(3): dict[TopicPartition, int]()}
    assert progress(UNDER_WAY, ReplicaAssignment(ids(1, 3)), sizes=sizes).bytes_left == 5_000_000
    assert progress(UNDER_WAY, ReplicaAssignment(ids(1, 3)), sizes=sizes, in_sync=(1, 2, 3)).bytes_left == 0


def test_bytes_that_a_leader_or_a_copy_does_not_tell_are_not_known() -> None:
    assert progress(UNDER_WAY, ReplicaAssignment(ids(1, 3)), sizes={ONE: {P0: 5_000_000}}).bytes_left is None
    assert progress(UNDER_WAY, ReplicaAssignment(ids(1, 3)), sizes={BrokerId(3): {P0: 1}}).bytes_left is None
    assert "to copy" not in str(progress(UNDER_WAY, ReplicaAssignment(ids(1, 3))))


def test_what_a_move_waits_for_is_named() -> None:
    text = str(progress(UNDER_WAY, ReplicaAssignment(ids(1, 3)), running=(1, 2)))
    assert text == "1 of 2 partitions left; broker 2 holds 1 replica; broker 3 is not running"
    assert "1 of them without a leader" in str(progress(UNDER_WAY, ReplicaAssignment(ids(1, 3)), in_sync=()))


def test_a_plan_that_is_done_leaves_nothing_and_says_what_the_emptied_broker_holds() -> None:
    done = progress(ReplicaAssignment(ids(3, 1)), ReplicaAssignment(ids(1, 3)))
    assert (done.moving, done.strays, done.held, done.moves_elsewhere) == (0, [], {2: 0}, False)
    check_complete(done)


def test_a_partition_that_has_left_the_plan_is_a_failure_and_is_named() -> None:
    astray = progress(ReplicaAssignment(ids(2, 1)), ReplicaAssignment(ids(1, 3)))
    assert (astray.moving, astray.strays) == (0, ["orders-0"])
    with pytest.raises(Failure, match=r"1 partition not on the plan's brokers .*\(orders-0\)"):
        check_complete(astray)
    assert progress(ReplicaAssignment(ids(3, 1))).strays == ["orders-1"]


def test_moves_outside_of_the_plan_or_away_from_it_are_seen() -> None:
    assert not progress(UNDER_WAY, ReplicaAssignment(ids(1, 3))).moves_elsewhere
    assert progress(UNDER_WAY, ReplicaAssignment(ids(1, 3)), plan={P1: ids(1, 3)}).moves_elsewhere
    assert progress(UNDER_WAY, ReplicaAssignment(ids(1, 3)), plan={P0: ids(4, 1), P1: ids(1, 3)}).moves_elsewhere
