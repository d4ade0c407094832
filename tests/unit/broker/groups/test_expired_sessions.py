"""Answers that depend on a member's session: what is due by then is done before they are given."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import ceil
from typing import Any

import pytest

from sordini.broker.network.ports import DelayedResponse
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.delete_groups import DeleteGroupsRequest
from sordini.protocol.messages.describe_groups import DescribeGroupsRequest
from sordini.protocol.messages.list_groups import ListGroupsRequest
from sordini.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.support.group_requests import a_coordinator, a_stable_group, heartbeat, join_request
from tests.support.unit_broker import Timer, UnitBroker, answer_of

ABOUT_SESSIONS: dict[ApiKey, tuple[int, Any, Callable[[Any], Any], Any, Any]] = {
    ApiKey.DELETE_GROUPS: (
        2,
        DeleteGroupsRequest(groups_names=["g"]),
        lambda answer: answer.results[0].error_code,
        ErrorCode.NON_EMPTY_GROUP,
        ErrorCode.NONE,
    ),
    ApiKey.DESCRIBE_GROUPS: (
        5,
        DescribeGroupsRequest(groups=["g"]),
        lambda answer: answer.groups[0].group_state,
        "Stable",
        "Empty",
    ),
    ApiKey.LIST_GROUPS: (
        4,
        ListGroupsRequest(states_filter=["Empty"]),
        lambda answer: [row.group_id for row in answer.groups],
        [],
        ["g"],
    ),
    ApiKey.OFFSET_DELETE: (
        0,
        OffsetDeleteRequest(
            group_id="g",
            topics=[
                OffsetDeleteRequestTopic(name="orders", partitions=[OffsetDeleteRequestPartition(partition_index=0)])
            ],
        ),
        lambda answer: answer.topics[0].partitions[0].error_code,
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        ErrorCode.NONE,
    ),
    ApiKey.JOIN_GROUP: (
        3,
        join_request(group_instance_id=None),
        lambda answer: answer.error_code,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.NONE,
    ),
}
"""Request, the part of its answer that depends on the member, and that part with the member and without it."""


class Time:
    """A broker's clock and timers, each of which fires at its own time: a loop without stalls."""

    def __init__(self, broker: UnitBroker) -> None:
        """Created when all timers have just been set."""
        self._broker = broker
        self._due_ms: dict[Timer, int] = {}
        self._note_timers()

    def _note_timers(self) -> None:
        for timer in self._broker.timers.waiting:
            self._due_ms.setdefault(timer, self._broker.clock.ms + ceil(timer.seconds * 1000))

    async def passes(self, pending: DelayedResponse) -> None:
        """Let time pass until the answer is given."""
        for _ in range(20):
            await asyncio.sleep(0)
            if pending.is_answered:
                return
            self._note_timers()
            first = min(self._broker.timers.waiting, key=lambda timer: self._due_ms[timer])
            self._broker.clock.ms = max(self._broker.clock.ms, self._due_ms[first])
            first.cancel()
            first.action()
        raise AssertionError("it was never answered")


@pytest.mark.parametrize("late_ms", [0, 1, 49])
@pytest.mark.parametrize("key", ABOUT_SESSIONS)
async def test_a_session_that_is_due_expires_before_a_dependent_request_is_answered(key: ApiKey, late_ms: int) -> None:
    version, request, of_interest, _, after = ABOUT_SESSIONS[key]
    async with a_coordinator({"group.max.size": "1"}) as broker:
        a_stable_group(broker)
        broker.timers.fire()
        time = Time(broker)
        broker.clock.ms += 10_000 + late_ms
        pending = broker.serve(key, version, request)
        assert isinstance(pending, DelayedResponse)
        await time.passes(pending)
        assert of_interest(answer_of(pending, key, version)) == after


@pytest.mark.parametrize("key", ABOUT_SESSIONS)
async def test_a_member_whose_heartbeat_is_in_the_socket_is_in_the_answer(key: ApiKey) -> None:
    version, request, of_interest, before, _ = ABOUT_SESSIONS[key]
    async with a_coordinator({"group.max.size": "1"}) as broker:
        joined = a_stable_group(broker)
        broker.timers.fire()
        time = Time(broker)
        broker.clock.ms += 30_000  # Three sessions long nothing ran.
        pending = broker.serve(key, version, request)
        assert isinstance(pending, DelayedResponse)
        assert heartbeat(broker, joined) == ErrorCode.NONE
        await time.passes(pending)
        assert of_interest(answer_of(pending, key, version)) == before


@pytest.mark.parametrize("key", ABOUT_SESSIONS)
async def test_while_nothing_is_due_the_answer_is_immediate(key: ApiKey) -> None:
    version, request, of_interest, before, _ = ABOUT_SESSIONS[key]
    async with a_coordinator({"group.max.size": "1"}) as broker:
        a_stable_group(broker)
        assert of_interest(broker.ask(key, version, request)) == before
