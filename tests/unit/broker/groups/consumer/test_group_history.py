"""DescribeGroupHistory of consumer groups (KIP-848): what is answered, kept, counted, and given up."""

from __future__ import annotations

from typing import Any

import pytest

from sordini.broker.groups.machine.rebalance_cause import RebalanceCause
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.messages.delete_groups import DeleteGroupsRequest
from sordini.protocol.messages.describe_group_history import DescribeGroupHistoryRequest
from tests.support.group_requests import a_coordinator
from tests.support.unit_broker import UnitBroker
from tests.unit.broker.groups.consumer.test_groups import AT_ONCE, beat, loaded_again


def history(broker: UnitBroker, version: int = 1) -> Any:
    return broker.ask(ApiKey.DESCRIBE_GROUP_HISTORY, version, DescribeGroupHistoryRequest(group_id="g"))


def a_group_that_was_one_member(broker: UnitBroker) -> None:
    """`a` leaves after 250 ms, and `b` joins 400 ms later."""
    beat(broker, "a")
    broker.clock.ms += 250
    beat(broker, "a", -1)
    broker.clock.ms += 400
    beat(broker, "b")


@pytest.mark.parametrize("version", [0, 1])
async def test_targets_are_described_with_causes_and_the_time_without_an_owner(version: int) -> None:
    async with a_coordinator(AT_ONCE) as broker:
        a_group_that_was_one_member(broker)
        rows = history(broker, version).rebalances
        causes = [RebalanceCause(cause.cause).name for row in rows for cause in row.causes]
        assert causes == ["MEMBER_JOINED", "MEMBER_LEFT", "MEMBER_JOINED"]
        assert [(row.generation_before, row.generation_after) for row in rows] == [(1, 2), (2, 3), (3, 4)]
        assert [(move.source, move.target) for move in rows[1].moves] == [("a", None)] * 3
        assert {(move.source, move.target) for move in rows[2].moves} == {(None, "b")}
        assert rows[2].partitions_known
        gaps = {move.without_owner_ms for move in rows[2].moves}
        assert (gaps, rows[2].is_consumer) == (({400}, True) if version else ({-1}, False))


async def test_rebalances_are_counted_by_cause_with_the_duration_of_the_last_one() -> None:
    async with a_coordinator(AT_ONCE) as broker:
        a_group_that_was_one_member(broker)
        completed = broker.parts.groups.rebalances.completed
        assert completed == {RebalanceCause.MEMBER_JOINED: 2, RebalanceCause.MEMBER_LEFT: 1}
        assert dict(broker.parts.groups.last_rebalances()) == {"g": 0}


async def test_a_new_coordinator_begins_with_the_rebalance_that_it_finds_in_progress() -> None:
    async with a_coordinator(AT_ONCE) as broker:
        beat(broker, "a")
        beat(broker, "b")  # `a` has not reached this target.
        await loaded_again(broker)
        (row,) = history(broker).rebalances
        assert [cause.cause for cause in row.causes] == [RebalanceCause.GROUP_LOADED]
        assert row.ended_at_ms == -1


async def test_a_consumer_group_that_is_deleted_or_whose_coordinator_resigns_leaves_no_history() -> None:
    async with a_coordinator(AT_ONCE) as broker:
        memory = broker.parts.groups.memory
        beat(broker, "a")
        beat(broker, "a", -1)
        assert memory.reclaimable_bytes > 0
        broker.ask(ApiKey.DELETE_GROUPS, 1, DeleteGroupsRequest(groups_names=["g"]))
        assert memory.reclaimable_bytes == memory.held_bytes == 0
        beat(broker, "a")
        assert memory.reclaimable_bytes > 0
        broker.parts.replicas.resign_all()
        assert memory.reclaimable_bytes == memory.held_bytes == 0


async def test_histories_of_consumer_groups_use_an_eighth_of_the_groups_memory_at_most() -> None:
    async with a_coordinator({**AT_ONCE, "sordini.group.memory.bytes.max": "100000"}) as broker:
        memory = broker.parts.groups.memory
        for number in range(20):
            beat(broker, f"m{number}")
            beat(broker, f"m{number}", -1)
            assert 0 < memory.reclaimable_bytes <= 100_000 // 8
        assert history(broker).rebalances[-1].generation_after == 41


async def test_a_step_that_cannot_be_written_is_not_in_the_history() -> None:
    async with a_coordinator(AT_ONCE) as broker:
        beat(broker, "a")
        broker.disk.fail_while(lambda call, _path: call == "write", 28)
        beat(broker, "a", -1)
        broker.disk.heal()
        assert [row.generation_after for row in history(broker).rebalances] == [2]


async def test_a_steady_heartbeat_adds_nothing() -> None:
    async with a_coordinator(AT_ONCE) as broker:
        epoch = beat(broker, "a").member_epoch
        before, held = history(broker), broker.parts.groups.memory.held_bytes
        for _ in range(5):
            broker.clock.ms += 1_000
            assert beat(broker, "a", epoch).error_code == 0
        assert (history(broker), broker.parts.groups.memory.held_bytes) == (before, held)
