"""A share group's membership, step by step: epochs, partitions, states, sessions, and what an administrator may do."""

from __future__ import annotations

import pytest

from sordini.broker.groups.consumer.machine.events import HeartbeatAnswer, Refusal
from sordini.broker.groups.share.machine import machine
from sordini.broker.groups.share.machine.events import (
    BeginRemoval,
    DeleteOffsets,
    OffsetsDeleted,
    SetOffsets,
    StatesAnswer,
    TopicsDeleted,
)
from sordini.broker.groups.share.machine.record_formats import (
    ASSIGNMENT,
    GROUP_EPOCH,
    MEMBER,
    STATES,
    TARGET,
    TARGET_EPOCH,
)
from sordini.broker.groups.share.machine.state import PartitionStates, ShareGroupState
from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import Offset, TopicId
from tests.support.share_group_world import ShareGroupWorld

SESSION_MS = 45_000


def topic(name: str) -> TopicId:
    return TopicId(f"{name}/0".encode().ljust(16, b"\0"))


def taken(answer: HeartbeatAnswer | Refusal) -> HeartbeatAnswer:
    assert isinstance(answer, HeartbeatAnswer), answer
    return answer


def refused(answer: object) -> ErrorCode:
    assert isinstance(answer, Refusal), answer
    return answer.code


def kinds(world: ShareGroupWorld, since: int = 0) -> list[int]:
    """Which records were written."""
    return [int.from_bytes(key[:2], "big") for key, _ in world.log[since:]]


def a_group(**topics: int) -> ShareGroupWorld:
    """A group with one member, `m`, that reads all of its topics."""
    world = ShareGroupWorld(**topics)
    world.beat("m", 0, *topics)
    world.store()
    world.beat("m", 2)
    return world


def test_a_join_writes_the_records_of_apache_kafka_in_their_order() -> None:
    world = ShareGroupWorld(orders=3)
    answer = taken(world.beat("m", 0, "orders"))
    assert (answer.member_epoch, answer.heartbeat_interval_ms, answer.assignment) == (2, 5_000, {})
    assert kinds(world) == [MEMBER, GROUP_EPOCH, TARGET, TARGET_EPOCH, ASSIGNMENT, STATES]
    assert world.pending[0].starts == {topic("orders"): None}
    assert world.pending[0].state_epoch == 2


def test_partitions_are_assigned_once_their_states_are_initialized() -> None:
    world = ShareGroupWorld(orders=3)
    world.beat("m", 0, "orders")
    assert taken(world.beat("m", 2)).assignment is None
    world.store()
    answer = taken(world.beat("m", 2))
    assert (answer.member_epoch, answer.assignment) == (3, {topic("orders"): frozenset({0, 1, 2})})
    assert taken(world.beat("m", 3)).assignment is None


def test_states_that_are_not_initialized_are_tried_again_by_a_later_heartbeat() -> None:
    world = ShareGroupWorld(orders=1)
    world.beat("m", 0, "orders")
    world.store(fails=True)
    assert world.group.states == PartitionStates()
    world.beat("m", 2)
    assert len(world.pending) == 1
    assert world.pending[0].starts == {topic("orders"): None}


def test_what_has_been_initializing_for_long_is_initialized_again() -> None:
    world = ShareGroupWorld(orders=1)
    world.beat("m", 0, "orders")
    world.now_ms += 29_999
    world.beat("m", 2)
    assert len(world.pending) == 1
    world.now_ms += 1
    world.beat("m", 2)
    assert len(world.pending) == 2
    assert world.pending[1].starts == {topic("orders"): Offset(0)}


def test_new_partitions_of_a_known_topic_begin_at_their_first_record() -> None:
    world = a_group(orders=1)
    world.topics.put("orders", 3)
    world.beat("m", 3)
    (action,) = world.pending
    assert action.partitions == {topic("orders"): frozenset({1, 2})}
    assert action.starts == {topic("orders"): Offset(0)}
    world.store()
    assert taken(world.beat("m", 4)).assignment == {topic("orders"): frozenset({0, 1, 2})}


def test_members_share_partitions_when_there_are_more_of_them() -> None:
    world = a_group(orders=1)
    answer = taken(world.beat("n", 0, "orders"))
    assert answer.assignment == {topic("orders"): frozenset({0})}
    assert taken(world.beat("m", 3)).member_epoch == 4
    assert world.group.members["m"].assigned == world.group.members["n"].assigned


def test_a_member_that_names_its_topics_is_sent_its_assignment_even_if_it_is_the_same() -> None:
    world = a_group(orders=1)
    assert taken(world.beat("m", 3, "orders")).assignment == {topic("orders"): frozenset({0})}
    assert world.group.epoch == 3


def test_a_member_loses_a_topic_that_it_no_longer_subscribes_to_at_once() -> None:
    world = a_group(bills=1, orders=1)
    answer = taken(world.beat("m", 3, "orders"))
    assert answer.assignment == {topic("orders"): frozenset({0})}


def test_a_rack_is_written_and_raises_no_epoch() -> None:
    world = a_group(orders=1)
    since = len(world.log)
    world.beat("m", 3, rack="r1")
    assert kinds(world, since) == [MEMBER]
    assert (world.group.epoch, world.group.members["m"].rack_id) == (3, "r1")


@pytest.mark.parametrize(("epoch", "is_fenced"), [(1, True), (2, False), (3, False), (4, True)])
def test_a_member_may_send_its_epoch_and_the_one_before_it(epoch: int, is_fenced: bool) -> None:
    world = a_group(orders=1)
    answer = world.beat("m", epoch)
    assert (isinstance(answer, Refusal) and answer.code == ErrorCode.FENCED_MEMBER_EPOCH) == is_fenced


def test_a_known_member_may_join_again() -> None:
    world = a_group(orders=1)
    answer = taken(world.beat("m", 0, "orders"))
    assert (answer.member_epoch, answer.assignment) == (3, {topic("orders"): frozenset({0})})


def test_an_unknown_member_is_refused_when_it_stays_and_when_it_leaves() -> None:
    world = a_group(orders=1)
    assert [refused(world.beat("n", epoch)) for epoch in (2, -1)] == [ErrorCode.UNKNOWN_MEMBER_ID] * 2


def test_a_group_has_no_more_members_than_allowed_and_those_that_it_has_may_join_again() -> None:
    world = ShareGroupWorld(members_max=1, orders=1)
    world.beat("m", 0, "orders")
    answer = world.beat("n", 0, "orders")
    assert refused(answer) == ErrorCode.GROUP_MAX_SIZE_REACHED
    taken(world.beat("m", 0, "orders"))


def test_a_member_that_leaves_is_taken_out_whatever_its_epoch_and_the_last_one_leaves_an_empty_group() -> None:
    world = a_group(orders=1)
    since = len(world.log)
    answer = taken(world.beat("m", -1))
    assert (answer.member_epoch, answer.heartbeat_interval_ms, answer.assignment) == (-1, 0, None)
    assert kinds(world, since) == [ASSIGNMENT, TARGET, MEMBER, GROUP_EPOCH, TARGET_EPOCH]
    assert (world.group.state, world.group.epoch, world.group.assignment_epoch) == (ShareGroupState.EMPTY, 4, 4)
    assert world.group.states is not None
    assert world.group.states.initialized


def test_the_others_get_what_a_member_had_with_their_next_heartbeat() -> None:
    world = a_group(orders=2)
    world.beat("n", 0, "orders")
    world.beat("n", -1)
    answer = taken(world.beat("m", 3))
    assert answer.assignment == {topic("orders"): frozenset({0, 1})} or answer.assignment is None
    assert world.group.members["m"].assigned == {topic("orders"): frozenset({0, 1})}


def test_targets_wait_for_the_assignment_interval() -> None:
    world = ShareGroupWorld(interval_ms=1_000, orders=1)
    world.beat("m", 0, "orders")
    world.store()
    assert taken(world.beat("m", 2)).member_epoch == 2
    world.now_ms += 1_000
    assert taken(world.beat("m", 2)).member_epoch == 3


def test_a_topic_is_given_up_at_once_even_where_the_target_waits_for_the_assignment_interval() -> None:
    world = a_group(bills=1, orders=1)
    world.settings = world.settings._replace(assignment_interval_ms=1_000)
    answer = taken(world.beat("m", 3, "orders"))
    assert (answer.member_epoch, answer.assignment) == (3, {topic("orders"): frozenset({0})})
    assert world.group.targets["m"].keys() == {topic("bills"), topic("orders")}


def test_a_session_that_expires_takes_the_member_out() -> None:
    world = a_group(orders=1)
    world.now_ms += SESSION_MS - 1
    world.tick()
    assert world.group.members
    world.now_ms += 1
    world.tick()
    assert (world.group.state, world.group.due_ms) == (ShareGroupState.EMPTY, None)


def test_a_stall_of_the_broker_fences_no_member_that_sends_a_heartbeat_afterwards() -> None:
    world = a_group(orders=1)
    world.now_ms += SESSION_MS + 5_000
    world.tick(late_ms=5_000)
    assert world.group.members
    taken(world.beat("m", 3))
    world.now_ms += 5_000
    world.tick()
    assert world.group.members


def test_a_stall_fences_those_without_a_heartbeat_in_the_grace_period() -> None:
    world = a_group(orders=1)
    world.now_ms += SESSION_MS + 5_000
    world.tick(late_ms=5_000)
    assert world.group.due_ms is not None
    world.now_ms = world.group.due_ms
    world.tick()
    assert not world.group.members


def test_a_topic_that_is_created_later_raises_the_epoch_and_is_initialized() -> None:
    world = ShareGroupWorld()
    world.beat("m", 0, "orders")
    assert world.group.states is None
    world.topics.put("orders", 1)
    assert taken(world.beat("m", 2)).member_epoch == 3
    world.store()
    assert taken(world.beat("m", 3)).assignment == {topic("orders"): frozenset({0})}


def test_a_deleted_topic_is_taken_away_and_its_states_are_forgotten() -> None:
    world = a_group(bills=1, orders=1)
    world.topics.delete("bills")
    world.apply(TopicsDeleted(frozenset({topic("bills")})))
    answer = taken(world.beat("m", 3))
    assert answer.assignment == {topic("orders"): frozenset({0})}
    assert world.group.states is not None
    assert list(world.group.states.initialized) == [topic("orders")]


def test_offsets_are_set_of_a_group_without_members_only_even_if_there_is_none() -> None:
    offsets = SetOffsets({topic("orders"): {0: Offset(7)}})
    world = ShareGroupWorld(orders=2)
    answer = world.apply(offsets).answer
    assert answer == StatesAnswer(1, {topic("orders"): frozenset({0})})
    assert kinds(world) == [STATES]
    assert refused(a_group(orders=1).apply(offsets).answer) == ErrorCode.NON_EMPTY_GROUP


def test_offsets_are_deleted_of_a_group_without_members_only_and_of_topics_that_have_any() -> None:
    world = a_group(bills=1, orders=2)
    assert refused(world.apply(DeleteOffsets((topic("orders"),))).answer) == ErrorCode.NON_EMPTY_GROUP
    world.beat("m", -1)
    answer = world.apply(DeleteOffsets((topic("orders"), topic("none")))).answer
    assert answer == StatesAnswer(4, {topic("orders"): frozenset({0, 1})})
    assert world.group.states is not None
    assert list(world.group.states.initialized) == [topic("bills")]
    assert world.group.states.deleting == {topic("orders"): "orders"}
    again = world.apply(DeleteOffsets((topic("orders"),))).answer
    assert again == answer
    world.apply(OffsetsDeleted(frozenset({topic("orders")})))
    assert not world.group.states.deleting or not world.loaded().states.deleting  # type: ignore[union-attr]


def test_a_topic_whose_states_are_deleted_is_initialized_when_a_member_reads_it_again() -> None:
    world = a_group(orders=1)
    world.beat("m", -1)
    world.apply(DeleteOffsets((topic("orders"),)))
    world.beat("n", 0, "orders")
    assert world.group.states is not None
    assert not world.group.states.deleting
    assert world.pending[-1].starts == {topic("orders"): None}


def test_a_group_is_removed_by_way_of_its_states() -> None:
    world = a_group(orders=2)
    assert refused(world.apply(BeginRemoval()).answer) == ErrorCode.NON_EMPTY_GROUP
    world.beat("m", -1)
    assert world.apply(BeginRemoval()).answer == StatesAnswer(4, {topic("orders"): frozenset({0, 1})})
    assert world.group.states == PartitionStates(deleting={topic("orders"): "orders"})
    assert [type(change).__name__ for change in machine.removal(world.group)] == [
        "TargetEpochChange",
        "StatesChange",
        "GroupEpochChange",
    ]
