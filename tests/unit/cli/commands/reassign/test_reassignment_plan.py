"""Plans to move partitions: how they are read, made, and what they throttle."""

from __future__ import annotations

import json

import pytest

from sordini.cli.commands.reassign.reassignment_plan import (
    MoveState,
    ReassignmentPlan,
    ReplicaAssignment,
    Replicas,
    brokers_involved,
    emptied_brokers,
    generate_plan,
    move_state,
    plan_json,
    read_plan,
    throttled_replicas,
)
from sordini.protocol.types import BrokerId, TopicPartition


def a_plan(**topics: list[tuple[int, ...]]) -> ReassignmentPlan:
    return {
        TopicPartition(name, partition): tuple(map(BrokerId, replicas))
        for name, rows in topics.items()
        for partition, replicas in enumerate(rows)
    }


def test_a_plan_is_read_as_it_is_written_and_other_keys_are_read_over() -> None:
    plan = a_plan(orders=[(3, 1), (1, 2)], bills=[(2,)])
    written = plan_json(plan)
    for row in written["partitions"]:
        row["log_dirs"] = ["any"]
    assert read_plan(json.dumps(written)) == plan


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "not JSON"),
        ("[]", "partitions"),
        ('{"partitions": []}', "partitions"),
        ('{"partitions": [{"topic": "a", "partition": 0}]}', "replicas"),
        ('{"partitions": [{"topic": "a", "partition": 0, "replicas": []}]}', "replicas"),
        ('{"partitions": [{"topic": "a", "partition": 0, "replicas": ["1"]}]}', "replicas"),
        ('{"partitions": [{"topic": 1, "partition": 0, "replicas": [1]}]}', "topic"),
        (
            json.dumps({"partitions": [{"topic": "a", "partition": 0, "replicas": [held]} for held in (1, 2)]}),
            "it has a-0 twice",
        ),
    ],
)
def test_a_plan_that_cannot_be_meant_is_refused_with_what_is_wrong(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read_plan(text)


def test_topics_are_spread_over_the_brokers_that_are_named_and_keep_their_number_of_replicas() -> None:
    current = a_plan(orders=[(1, 2), (2, 1), (1, 2), (2, 1)], bills=[(2,)])
    plan = generate_plan(current, dict.fromkeys(map(BrokerId, (2, 3, 4))), None)
    assert plan.keys() == current.keys()
    assert {one: len(held) for one, held in plan.items()} == {one: len(held) for one, held in current.items()}
    assert {broker for held in plan.values() for broker in held} <= {2, 3, 4}
    leaders = [plan[TopicPartition("orders", partition)][0] for partition in range(4)]
    assert set(leaders) == {2, 3, 4}


def test_a_topic_that_lies_by_the_rule_stays_where_it_is() -> None:
    current = a_plan(orders=[(2, 3), (3, 1), (1, 2)])
    assert generate_plan(current, dict.fromkeys(map(BrokerId, (1, 2, 3))), None) == current


def test_with_racks_the_copies_of_a_partition_stand_in_different_ones() -> None:
    racks = {BrokerId(1): "a", BrokerId(2): "a", BrokerId(3): "b", BrokerId(4): "b"}
    plan = generate_plan(a_plan(orders=[(1, 2)] * 8), racks, 2)
    assert all({racks[broker] for broker in held} == {"a", "b"} for held in plan.values())


def test_another_number_of_replicas_has_to_fit_on_the_brokers() -> None:
    current = a_plan(orders=[(1,)])
    racks = dict.fromkeys(map(BrokerId, (1, 2)))
    assert generate_plan(current, racks, 2) == a_plan(orders=[(1, 2)])
    with pytest.raises(ValueError, match="3 replicas of orders"):
        generate_plan(current, racks, 3)


def test_who_has_it_sends_and_who_comes_fetches_and_what_does_not_move_is_not_throttled() -> None:
    current = a_plan(orders=[(1, 2), (2, 1)], bills=[(1, 2)])
    plan = a_plan(orders=[(3, 1), (1, 2)], bills=[(2, 1)])
    assert throttled_replicas(plan, current) == {"orders": ("0:1,0:2", "0:3")}
    assert brokers_involved(a_plan(orders=[(3, 1)]), current) == [1, 2, 3]


def ids(*numbers: int) -> Replicas:
    return tuple(map(BrokerId, numbers))


@pytest.mark.parametrize(
    ("now", "state"),
    [
        (None, MoveState.MISSING),
        (ReplicaAssignment(ids(3, 1)), MoveState.DONE),
        (ReplicaAssignment(ids(1, 3)), MoveState.OTHER),
        (ReplicaAssignment(ids(2, 1)), MoveState.OTHER),
        (ReplicaAssignment(ids(3, 1, 2), adding=ids(3), removing=ids(2)), MoveState.MOVING),
        (ReplicaAssignment(ids(1, 3, 2), adding=ids(3), removing=ids(2)), MoveState.DIVERTED),
        (ReplicaAssignment(ids(4, 1, 2), adding=ids(4), removing=ids(2)), MoveState.DIVERTED),
    ],
)
def test_what_is_done_or_under_way_differs_from_what_is_to_begin(
    now: ReplicaAssignment | None, state: MoveState
) -> None:
    assert move_state(ids(3, 1), now) is state


def test_a_partition_on_the_move_has_an_origin_and_an_end() -> None:
    moving = ReplicaAssignment(ids(3, 1, 2), adding=ids(3), removing=ids(2))
    assert (moving.original, moving.target, moving.is_moving) == (ids(1, 2), ids(3, 1), True)


def test_a_plan_empties_those_that_it_takes_from_and_names_nowhere() -> None:
    first, second, third = (TopicPartition("orders", number) for number in range(3))
    standings = {
        first: ReplicaAssignment(ids(1, 2)),
        second: ReplicaAssignment(ids(2, 3)),
        third: ReplicaAssignment(ids(4)),
    }
    assert emptied_brokers({first: ids(1, 3), second: ids(1, 3)}, standings) == [2]
    assert emptied_brokers({first: ids(1, 3), second: ids(2, 3)}, standings) == []
    assert emptied_brokers({TopicPartition("gone", 0): ids(1)}, standings) == []
