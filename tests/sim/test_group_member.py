"""A member of the consumer protocol, by itself and beside the coordinator's own machine."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from sordini.broker.groups.consumer.machine import machine
from sordini.broker.groups.consumer.machine.assignors.by_name import ASSIGNORS
from sordini.broker.groups.consumer.machine.events import (
    ConsumerHeartbeat,
    ConsumerLimits,
    HeartbeatAnswer,
    Now,
    Refusal,
    StepContext,
    Tick,
    Topic,
)
from sordini.broker.groups.consumer.machine.state import ConsumerGroup, ConsumerGroupState
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from sordini.protocol.types import TopicId
from tests.sim.group_member import (
    BACKOFF_MS,
    Assigned,
    CoordinatorLost,
    Failed,
    GroupMember,
    Lost,
    Owned,
    Revoke,
    State,
)

TOPIC = TopicId(bytes(range(16)))
INTERVAL_MS = 3_000


def _owned(*numbers: int) -> Owned:
    return frozenset((TOPIC, number) for number in numbers)


def _answer(epoch: int, *numbers: int, has_assignment: bool = True) -> ConsumerGroupHeartbeatResponse:
    rows = [TopicPartitions(topic_id=TOPIC, partitions=list(numbers))] if numbers else []
    return ConsumerGroupHeartbeatResponse(
        member_epoch=epoch,
        heartbeat_interval_ms=INTERVAL_MS,
        assignment=Assignment(topic_partitions=rows) if has_assignment else None,
    )


def _refusal(code: ErrorCode) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=code, error_message="no")


def _member() -> GroupMember:
    return GroupMember("g", "m", frozenset({"t"}), 60_000, 0)


def _joined(*numbers: int) -> GroupMember:
    """A member that has these partitions, and has reported them."""
    member = _member()
    member.request(0)
    member.response(_answer(5, *numbers), 0)
    if numbers:
        assert member.request(0) is not None
        member.response(_answer(5, has_assignment=False), 0)
    return member


def _reported(request: ConsumerGroupHeartbeatRequest | None) -> set[int] | None:
    assert request is not None
    rows = request.topic_partitions
    return None if rows is None else {number for row in rows for number in row.partitions}


def test_a_join_says_everything_and_that_nothing_is_owned():
    request = _member().request(0)
    assert request is not None
    assert (request.member_epoch, request.rebalance_timeout_ms, request.subscribed_topic_names) == (0, 60_000, ["t"])
    assert _reported(request) == set()


def test_one_heartbeat_is_under_way_at_a_time():
    member = _member()
    assert member.request(0) is not None
    assert member.request(10_000) is None


def test_what_is_assigned_is_reported_at_once_and_then_nothing_until_the_interval_has_passed():
    member = _member()
    member.request(0)
    assert member.response(_answer(5, 0, 1), 10) == [Assigned(_owned(0, 1))]
    assert _reported(member.request(10)) == {0, 1}
    member.response(_answer(5, has_assignment=False), 20)
    assert member.request(20 + INTERVAL_MS - 1) is None
    later = member.request(20 + INTERVAL_MS)
    assert _reported(later) is None
    assert later is not None
    assert later.subscribed_topic_names is None


def test_new_partitions_are_taken_only_when_all_that_had_to_go_is_gone():
    member = _joined(0, 1)
    member.request(INTERVAL_MS)
    assert member.response(_answer(5, 1, 2), INTERVAL_MS) == [Revoke(_owned(0))]
    assert member.state is State.RECONCILING
    assert member.owned == _owned(0, 1)
    assert member.revoked(INTERVAL_MS) == [Assigned(_owned(2))]
    assert _reported(member.request(INTERVAL_MS)) == {1, 2}


def test_heartbeats_go_on_while_partitions_are_given_up_and_do_not_report_that_they_are():
    member = _joined(0, 1)
    member.request(INTERVAL_MS)
    member.response(_answer(5, 1), INTERVAL_MS)
    assert _reported(member.request(2 * INTERVAL_MS)) is None
    assert member.response(_answer(5, has_assignment=False), 2 * INTERVAL_MS) == []


def test_an_assignment_that_comes_while_partitions_are_given_up_is_followed_afterwards():
    member = _joined(0, 1)
    member.request(INTERVAL_MS)
    member.response(_answer(5, 1), INTERVAL_MS)
    member.request(2 * INTERVAL_MS)
    assert member.response(_answer(5, 2), 2 * INTERVAL_MS) == []
    assert member.revoked(2 * INTERVAL_MS) == [Revoke(_owned(1))]
    assert member.revoked(2 * INTERVAL_MS) == [Assigned(_owned(2))]


def test_after_a_missing_answer_everything_is_said_again():
    member = _joined(0)
    member.request(INTERVAL_MS)
    member.no_response(INTERVAL_MS)
    assert member.request(INTERVAL_MS + BACKOFF_MS - 1) is None
    request = member.request(INTERVAL_MS + BACKOFF_MS)
    assert _reported(request) == {0}
    assert request is not None
    assert (request.member_epoch, request.subscribed_topic_names, request.rebalance_timeout_ms) == (5, ["t"], 60_000)


@pytest.mark.parametrize(
    "code", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND]
)
def test_a_fenced_member_abandons_its_partitions_and_joins_again(code: ErrorCode):
    member = _joined(0)
    member.request(INTERVAL_MS)
    assert member.response(_refusal(code), INTERVAL_MS) == [Lost(_owned(0))]
    assert member.request(10 * INTERVAL_MS) is None
    member.abandoned(10 * INTERVAL_MS)
    request = member.request(10 * INTERVAL_MS)
    assert _reported(request) == set()
    assert request is not None
    assert request.member_epoch == 0


def test_a_member_that_is_fenced_while_it_gives_up_does_not_take_what_it_was_to_get():
    member = _joined(0)
    member.request(INTERVAL_MS)
    member.response(_answer(5, 1), INTERVAL_MS)
    member.request(2 * INTERVAL_MS)
    member.response(_refusal(ErrorCode.FENCED_MEMBER_EPOCH), 2 * INTERVAL_MS)
    assert member.revoked(2 * INTERVAL_MS) == []
    assert member.owned == _owned()


def test_a_lost_coordinator_is_found_again_and_one_that_loads_is_waited_for():
    member = _joined(0)
    member.request(INTERVAL_MS)
    assert member.response(_refusal(ErrorCode.NOT_COORDINATOR), INTERVAL_MS) == [CoordinatorLost()]
    assert _reported(member.request(INTERVAL_MS + BACKOFF_MS)) == {0}
    assert member.response(_refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), INTERVAL_MS + BACKOFF_MS) == []
    assert member.owned == _owned(0)


def test_a_member_that_the_group_does_not_take_fails():
    member = _member()
    member.request(0)
    events = member.response(_refusal(ErrorCode.GROUP_MAX_SIZE_REACHED), 0)
    assert events == [Lost(_owned()), Failed(ErrorCode.GROUP_MAX_SIZE_REACHED, "no")]
    assert member.request(10 * INTERVAL_MS) is None


def test_a_member_leaves_by_a_last_heartbeat_whether_it_is_answered_or_not():
    for is_answered in (True, False):
        member = _joined(0)
        member.leave(1)
        request = member.request(1)
        assert request is not None
        assert request.member_epoch == -1
        if is_answered:
            member.response(_answer(-1, has_assignment=False), 1)
        else:
            member.no_response(1)
        assert member.state is State.LEFT
        assert member.request(10 * INTERVAL_MS) is None


def _static() -> GroupMember:
    member = GroupMember("g", "m", frozenset({"t"}), 60_000, 0, "i")
    request = member.request(0)
    assert request is not None
    assert request.instance_id == "i"
    member.response(_answer(5), 0)
    return member


@pytest.mark.parametrize(("is_for_good", "epoch"), [(False, -2), (True, -1)])
def test_a_static_member_leaves_for_a_while_or_for_good(is_for_good: bool, epoch: int):
    member = _static()
    member.leave(10, is_for_good=is_for_good)
    request = member.request(10)
    assert request is not None
    assert (request.member_epoch, request.instance_id) == (epoch, "i")


def test_a_dynamic_member_always_leaves_for_good():
    member = _joined()
    member.leave(10, is_for_good=False)
    request = member.request(10)
    assert request is not None
    assert request.member_epoch == -1


@pytest.mark.parametrize("code", [ErrorCode.UNRELEASED_INSTANCE_ID, ErrorCode.FENCED_INSTANCE_ID])
def test_a_process_whose_instance_id_another_one_has_fails(code: ErrorCode):
    member = _static()
    member.request(INTERVAL_MS)
    assert member.response(_refusal(code), INTERVAL_MS) == [Lost(_owned()), Failed(code, "no")]


def test_a_coordinator_knows_all_of_a_member_when_nothing_is_under_way_or_to_be_given_up():
    member = _joined(0, 1)
    assert member.is_known
    request_ms = 2 * INTERVAL_MS
    assert member.request(request_ms) is not None
    assert not member.is_known
    member.no_response(request_ms)
    assert not member.is_known, "what the answer said is not known"
    member.request(request_ms + BACKOFF_MS)
    member.response(_answer(6, 0), request_ms + BACKOFF_MS)
    assert not member.is_known, "1 is to be given up"
    member.revoked(request_ms + BACKOFF_MS)
    assert member.is_known


def test_a_member_that_has_not_joined_leaves_without_a_word():
    member = _member()
    member.leave(0)
    assert member.state is State.LEFT


# Beside the coordinator's machine.


class _Topics:
    version = 1

    def get(self, name: str) -> Topic | None:
        return Topic(TOPIC, 4) if name == "t" else None

    def id_of(self, name: str) -> TopicId | None:
        return TOPIC

    def hash_of(self, name: str) -> int | None:
        return 1 if name == "t" else None

    def name_of(self, topic_id: TopicId) -> str | None:
        return "t"


class _Coordinator:
    def __init__(self) -> None:
        self.group = ConsumerGroup("g")
        self.now_ms = 0

    def answer(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        rows, names = request.topic_partitions, request.subscribed_topic_names
        event = ConsumerHeartbeat(
            request.member_id,
            request.member_epoch,
            None,
            None,
            request.rebalance_timeout_ms,
            None if names is None else frozenset(names),
            None,
            None,
            None if rows is None else {TopicId(row.topic_id): frozenset(row.partitions) for row in rows},
            "client",
            "host",
        )
        answer = self._step(event)
        if isinstance(answer, Refusal):
            return _refusal(answer.code)
        assert isinstance(answer, HeartbeatAnswer)
        numbers = [] if answer.assignment is None else sorted(answer.assignment.get(TOPIC, ()))
        return _answer(answer.member_epoch, *numbers, has_assignment=answer.assignment is not None)

    def expire(self) -> None:
        self._step(Tick(0))

    def _step(self, event: ConsumerHeartbeat | Tick) -> object:
        limits = ConsumerLimits(session_timeout_ms=10_000, assignment_interval_ms=0)
        around = StepContext(Now(self.now_ms, self.now_ms), limits, _Topics(), _assign)
        step = machine.step(self.group, event, around)
        self.group = step.group
        machine.check_invariants(self.group)
        return step.answer


def _assign(_: str, __: int, assignor: str, group: object) -> object:
    work = ASSIGNORS[assignor](group)
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value


def _beat(coordinator: _Coordinator, member: GroupMember, source: random.Random, loss: float) -> None:
    request = member.request(coordinator.now_ms)
    if request is None:
        return
    is_sent, is_answered = source.random() >= loss, source.random() >= loss
    response = coordinator.answer(request) if is_sent else None
    if response is None or not is_answered:
        member.no_response(coordinator.now_ms)
        return
    events = member.response(response, coordinator.now_ms)
    if any(isinstance(event, Lost) for event in events):
        member.abandoned(coordinator.now_ms)


def _exclusive(coordinator: _Coordinator, members: Iterable[GroupMember]) -> None:
    """What is consumed twice is so by a member that was fenced and does not know."""
    known = [m for m in members if m._member_id in coordinator.group.members]
    owned = [pair for member in known for pair in member.owned]
    assert len(owned) == len(set(owned))


@pytest.mark.parametrize("seed", range(150))
def test_members_share_all_partitions_whatever_was_lost_before(seed: int):
    source = random.Random(f"members {seed}")
    coordinator = _Coordinator()
    members = [GroupMember("g", f"m{number}", frozenset({"t"}), 20_000, 0) for number in range(3)]
    for _ in range(80):
        coordinator.now_ms += source.choice((100, 1_000, 3_000, 6_000))
        member = source.choice(members)
        if member.state is State.RECONCILING and source.random() < 0.5:
            member.revoked(coordinator.now_ms)
        _beat(coordinator, member, source, loss=0.3)
        coordinator.expire()
    for _ in range(60):
        coordinator.now_ms += 1_000
        for member in members:
            if member.state is State.RECONCILING:
                member.revoked(coordinator.now_ms)
            _beat(coordinator, member, source, loss=0.0)
        coordinator.expire()
        _exclusive(coordinator, members)
    assert coordinator.group.state is ConsumerGroupState.STABLE
    assert sorted(pair for member in members for pair in member.owned) == sorted(_owned(0, 1, 2, 3))
    assert {member.epoch for member in members} == {coordinator.group.epoch}
