"""DescribeGroupHistory of share groups (KIP-932): what is answered, kept, counted, and given up."""

from __future__ import annotations

from typing import Any

import pytest

from sordini.broker.groups.machine.rebalance_cause import RebalanceCause
from sordini.broker.groups.offsets_topic import OFFSETS_TOPIC
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.messages.delete_groups import DeleteGroupsRequest
from sordini.protocol.messages.describe_group_history import DescribeGroupHistoryRequest
from tests.support.unit_broker import UnitBroker
from tests.unit.broker.groups.share.test_groups import a_share_coordinator, beat, rounds


def history(broker: UnitBroker, version: int = 2) -> Any:
    return broker.ask(ApiKey.DESCRIBE_GROUP_HISTORY, version, DescribeGroupHistoryRequest(group_id="g"))


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_a_member_that_came_and_went_is_in_the_answer_of_each_version(version: int) -> None:
    async with a_share_coordinator() as broker:
        beat(broker, "a")
        broker.clock.ms += 250
        beat(broker, "a", -1)
        answer = history(broker, version)
        causes = [RebalanceCause(cause.cause).name for row in answer.rebalances for cause in row.causes]
        assert causes == ["MEMBER_JOINED", "MEMBER_LEFT"]
        assert [(row.generation_before, row.generation_after) for row in answer.rebalances] == [(1, 2), (2, 3)]
        kinds = {(row.is_consumer, row.is_share) for row in answer.rebalances}
        assert kinds == {(version > 0, version > 1)}


async def test_rebalances_of_share_groups_are_counted_by_cause_with_the_duration_of_the_last_one() -> None:
    async with a_share_coordinator() as broker:
        beat(broker, "a")
        beat(broker, "a", -1)
        completed = broker.parts.groups.rebalances.completed
        assert completed == {RebalanceCause.MEMBER_JOINED: 1, RebalanceCause.MEMBER_LEFT: 1}
        assert dict(broker.parts.groups.last_rebalances()) == {"g": 0}


async def test_a_new_coordinator_of_a_share_group_begins_with_what_is_in_progress() -> None:
    async with a_share_coordinator() as broker:
        beat(broker, "a")
        beat(broker, "b")  # `a` has not got this target.
        broker.parts.replicas.resign_all()
        await broker.lead(OFFSETS_TOPIC, epoch=1)
        await rounds(broker)
        (row,) = history(broker).rebalances
        assert [cause.cause for cause in row.causes] == [RebalanceCause.GROUP_LOADED]
        assert row.ended_at_ms == -1


async def test_a_share_group_that_is_deleted_or_whose_coordinator_resigns_leaves_no_history() -> None:
    async with a_share_coordinator() as broker:
        memory = broker.parts.groups.memory
        beat(broker, "a")
        beat(broker, "a", -1)
        assert memory.reclaimable_bytes > 0
        pending = broker.serve(ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest(groups_names=["g"]))
        await broker.settled()
        assert pending is not None
        assert memory.reclaimable_bytes == 0
        beat(broker, "a")
        assert memory.reclaimable_bytes > 0
        broker.parts.replicas.resign_all()
        assert memory.reclaimable_bytes == 0


async def test_histories_of_share_groups_use_an_eighth_of_the_groups_memory_at_most() -> None:
    async with a_share_coordinator(memory="100000") as broker:
        memory = broker.parts.groups.memory
        for number in range(20):
            beat(broker, f"m{number}")
            beat(broker, f"m{number}", -1)
            assert 0 < memory.reclaimable_bytes <= 100_000 // 8
        assert history(broker).rebalances[-1].generation_after == 41


async def test_a_step_of_a_share_group_that_cannot_be_written_is_not_in_the_history() -> None:
    async with a_share_coordinator() as broker:
        beat(broker, "a")
        broker.disk.fail_while(lambda call, _path: call == "write", 28)
        beat(broker, "a", -1)
        broker.disk.heal()
        assert [row.generation_after for row in history(broker).rebalances] == [2]


async def test_a_steady_heartbeat_of_a_share_group_adds_nothing() -> None:
    async with a_share_coordinator() as broker:
        epoch = beat(broker, "a").member_epoch
        before, held = history(broker), broker.parts.groups.memory.held_bytes
        for _ in range(5):
            broker.clock.ms += 1_000
            assert beat(broker, "a", epoch).error_code == 0
        assert (history(broker), broker.parts.groups.memory.held_bytes) == (before, held)
