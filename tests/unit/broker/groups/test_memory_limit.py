"""The limit of what all groups keep in memory."""

from __future__ import annotations

import random
from typing import Any

import pytest

from sordini.broker.groups.machine.memory_limit import GroupMemoryLimit, ShardMemoryUsage
from sordini.broker.groups.machine.offset_table import OffsetTable
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.delete_groups import DeleteGroupsRequest
from sordini.protocol.messages.join_group import JoinGroupRequestProtocol
from sordini.testing.simulation.forgetful_disk import ForgetfulDisk
from tests.support.group_requests import (
    a_coordinator,
    a_stable_group,
    commit,
    committed,
    heartbeat,
    join,
    join_request,
    leave,
)
from tests.support.unit_broker import UnitBroker

SMALL = {"sordini.group.memory.bytes.max": "100000"}


def account(broker: UnitBroker) -> GroupMemoryLimit:
    return broker.parts.groups.memory


def recounted(broker: UnitBroker) -> int:
    """The size of everything that is kept, computed from scratch."""
    fresh = ShardMemoryUsage(GroupMemoryLimit(1 << 60))
    for shard in broker.parts.groups.runtime.shards():
        for group in shard.state.classic.groups.values():
            fresh.group_changed(None, group, None)
        for history in shard.state.histories._histories.values():
            fresh.change(history.held_bytes)
        for table in shard.state._offsets._tables.values():
            fresh.change(OffsetTable().added_bytes(dict(table.items())))
    return fresh.held_bytes


def large(size: int) -> list[JoinGroupRequestProtocol]:
    return [JoinGroupRequestProtocol(name="range", metadata=bytes(size))]


async def test_metadata_of_all_groups_is_limited_in_sum_and_existing_members_stay() -> None:
    async with a_coordinator(SMALL) as broker:
        member = a_stable_group(broker, "honest")
        codes = [join(broker, group_id=f"group {n}", protocols=large(20_000)).error_code for n in range(10)]
        assert codes.count(0) == 4
        assert set(codes) == {0, ErrorCode.GROUP_MAX_SIZE_REACHED}
        assert account(broker).held_bytes <= 100_000
        assert heartbeat(broker, member, "honest") == 0
        assert join(broker, member.member_id, group_id="honest").error_code == 0
        assert len(broker.parts.groups.groups()) == 5, "nothing is kept of those that were refused"


async def test_a_member_may_rejoin_with_less_metadata_but_not_with_more_than_fits() -> None:
    async with a_coordinator(SMALL) as broker:
        member = join(broker, protocols=large(60_000))
        assert member.error_code == 0
        more = join(broker, member.member_id, protocols=large(120_000))
        assert more.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
        assert join(broker, member.member_id, protocols=large(50_000)).error_code == 0


async def test_released_memory_is_available_to_others() -> None:
    async with a_coordinator(SMALL) as broker:
        for number in range(10):
            member = join(broker, group_id=f"group {number}", protocols=large(60_000))
            assert member.error_code == 0
            assert leave(broker, member, f"group {number}") == 0


async def test_unused_member_ids_are_limited_in_bytes() -> None:
    async with a_coordinator(SMALL) as broker:
        codes = [join(broker, version=5, group_id=f"group {n}").error_code for n in range(100)]
        assert codes.count(ErrorCode.MEMBER_ID_REQUIRED) > 10
        assert codes[-1] == ErrorCode.GROUP_MAX_SIZE_REACHED
        assert account(broker).held_bytes <= 100_000


async def test_offsets_of_invented_groups_are_limited_and_existing_ones_can_be_replaced() -> None:
    async with a_coordinator(SMALL) as broker:
        assert commit(broker, {0: 1}, group_id="honest") == [0]
        codes = [commit(broker, {0: 1, 1: 1, 2: 1}, group_id=f"group {n}") for n in range(100)]
        assert codes[0] == [0, 0, 0]
        assert codes[-1] == [ErrorCode.INVALID_COMMIT_OFFSET_SIZE] * 3
        assert account(broker).held_bytes <= 100_000
        assert commit(broker, {0: 2}, group_id="honest") == [0]
        assert committed(broker, "honest") == {("orders", 0): 2}
        assert committed(broker, "group 99") == {}


@pytest.mark.parametrize("bytes_max", range(20_000, 24_000, 250))
async def test_a_commit_is_admitted_only_with_room_for_its_group_too(bytes_max: int) -> None:
    async with a_coordinator({"sordini.group.memory.bytes.max": str(bytes_max)}) as broker:
        codes = [commit(broker, {0: 1}, group_id=f"group {n}") for n in range(20)]
        assert [0] in codes
        assert [ErrorCode.INVALID_COMMIT_OFFSET_SIZE] in codes
        assert account(broker).held_bytes <= bytes_max
        assert account(broker).held_bytes == recounted(broker)


async def test_what_was_kept_before_a_restart_is_kept_after_it_even_with_a_lower_limit() -> None:
    disk = ForgetfulDisk()
    async with a_coordinator({}, disk) as broker:
        for number in range(20):
            assert commit(broker, {0: number}, group_id=f"group {number}") == [0]
    async with a_coordinator({"sordini.group.memory.bytes.max": "1000"}, disk.killed()) as broker:
        assert [committed(broker, f"group {number}") for number in range(20)] == [
            {("orders", 0): number} for number in range(20)
        ]
        assert account(broker).held_bytes == recounted(broker)
        assert commit(broker, {0: 7}, group_id="group 0") == [0]


@pytest.mark.parametrize("seed", range(4))
async def test_the_used_memory_is_what_is_kept_after_any_requests(seed: int) -> None:
    chance = random.Random(seed)
    async with a_coordinator() as broker:
        members: dict[str, Any] = {}
        for _ in range(150):
            group = f"group {chance.randrange(4)}"
            match chance.randrange(6):
                case 0:
                    broker.serve(
                        ApiKey.JOIN_GROUP, 3, join_request(group_id=group, protocols=large(chance.randrange(900)))
                    )
                case 1:
                    members[group] = join(broker, version=5, group_id=group)
                case 2 if group in members:
                    broker.serve(ApiKey.JOIN_GROUP, 5, join_request(members[group].member_id, group_id=group))
                case 3:
                    commit(broker, {chance.randrange(3): 1}, group_id=group)
                case 4 if group in members:
                    leave(broker, members.pop(group), group)
                case _:
                    broker.serve(ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest(groups_names=[group]))
            assert account(broker).held_bytes == recounted(broker)
        held = account(broker).held_bytes
        assert held > 0
        for shard in broker.parts.groups.runtime.shards():
            broker.parts.groups.runtime.resigned(shard.partition)
        assert account(broker).held_bytes == 0
