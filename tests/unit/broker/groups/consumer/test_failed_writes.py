"""Consumer groups whose records cannot be appended for a while: nothing that no request asks for again is lost."""

from __future__ import annotations

import asyncio
import errno

import pytest

from sordini.broker.groups.consumer import groups
from sordini.protocol.errors import ErrorCode
from tests.support.group_requests import a_coordinator
from tests.support.unit_broker import UnitBroker
from tests.unit.broker.groups.consumer.test_groups import AT_ONCE, beat, described, indexes


def fill_disk(broker: UnitBroker) -> None:
    broker.disk.fail_while(lambda call, _path: call == "write", errno.ENOSPC)


async def test_a_target_that_could_not_be_written_is_written_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "STEPS_AT_ONCE", 1)
    async with a_coordinator(AT_ONCE) as broker:
        assert indexes(beat(broker, "a")) == []
        fill_disk(broker)
        await broker.settled()
        assert described(broker).group_state == "Assigning"
        broker.disk.heal()
        broker.timers.fire()
        await broker.settled()
        assert indexes(beat(broker, "a", 1)) == [0, 1, 2]


async def test_what_cannot_be_written_for_long_is_tried_less_and_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "STEPS_AT_ONCE", 1)
    async with a_coordinator(AT_ONCE) as broker:
        beat(broker, "a")
        before = list(broker.timers.waiting)
        fill_disk(broker)
        await broker.settled()
        waits = []
        for _ in range(8):
            [retry] = [timer for timer in broker.timers.waiting if timer not in before]
            waits.append(retry.seconds)
            retry.cancel()
            retry.action()
        assert waits == [1, 2, 4, 8, 16, 30, 30, 30]


async def test_topics_of_a_regular_expression_that_could_not_be_written_are_written_later() -> None:
    async with a_coordinator(AT_ONCE) as broker:
        beat(broker, "a", subscribed_topic_names=None, subscribed_topic_regex="ord.*")
        fill_disk(broker)
        await broker.settled()
        broker.disk.heal()
        broker.timers.fire()
        await broker.settled()
        assert indexes(beat(broker, "a", 1)) == [0, 1, 2]


async def test_a_member_whose_fencing_could_not_be_written_is_fenced_later_though_no_other_sends_heartbeats() -> None:
    async with a_coordinator(AT_ONCE) as broker:
        beat(broker, "a")
        fill_disk(broker)
        broker.clock.ms += 45_000
        broker.timers.fire()
        group = broker.parts.groups.consumer_group("g")
        assert group is not None
        assert list(group.members) == ["a"]
        broker.disk.heal()
        for _ in range(4):  # What is tried again is late, so that it has a grace period.
            broker.clock.ms += 1_000
            broker.timers.fire()
        assert described(broker).group_state == "Empty"


async def test_a_target_for_a_join_that_could_not_be_written_is_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_coordinator(AT_ONCE) as broker:
        beat(broker, "a")
        monkeypatch.setattr(groups, "STEPS_AT_ONCE", 1)
        fill_disk(broker)
        assert beat(broker, "b").error_code == ErrorCode.NOT_COORDINATOR
        broker.disk.heal()
        await broker.settled()
        group = described(broker)
        assert (group.assignment_epoch, group.group_epoch) == (2, 2)


async def test_what_could_not_be_written_is_given_up_with_the_leadership(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "STEPS_AT_ONCE", 1)
    async with a_coordinator(AT_ONCE) as broker:
        beat(broker, "a")
        fill_disk(broker)
        await broker.settled()
        broker.parts.replicas.resign_all()
        broker.disk.heal()
        broker.timers.fire()
        await asyncio.sleep(0)
        assert beat(broker, "a", 1).error_code == ErrorCode.NOT_COORDINATOR
