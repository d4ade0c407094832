"""DescribeGroupHistory: what the coordinator answers, to whom it is announced, and what its memory may cost."""

from __future__ import annotations

from typing import Any

import pytest

from sordini.broker.groups.machine.partition_moves import Move
from sordini.broker.groups.machine.rebalance_cause import RebalanceCause
from sordini.broker.network.ports import DelayedResponse
from sordini.protocol.api_keys import FIRST_OWN_KEY, ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.api_versions import ApiVersionsRequest
from sordini.protocol.messages.delete_groups import DeleteGroupsRequest
from sordini.protocol.messages.describe_group_history import DescribeGroupHistoryRequest
from sordini.protocol.messages.join_group import JoinGroupRequestProtocol
from sordini.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from sordini.protocol.served_apis import APIS, TELEMETRY_APIS
from sordini.testing.simulation.forgetful_disk import ForgetfulDisk
from tests.scenarios.test_group_history import assignment
from tests.support.group_requests import a_coordinator, a_stable_group, join, join_request, leave, sync_request
from tests.support.unit_broker import UnitBroker, answer_of


def history(broker: UnitBroker, group_id: str = "g", last: int = -1) -> Any:
    return broker.ask(
        ApiKey.DESCRIBE_GROUP_HISTORY, 0, DescribeGroupHistoryRequest(group_id=group_id, rebalances_max=last)
    )


def rebalance_again(broker: UnitBroker, member_id: str, group_id: str = "g", share: bytes = b"") -> Any:
    joined = join(broker, member_id, group_id=group_id)
    broker.ask(ApiKey.SYNC_GROUP, 2, sync_request(joined, group_id, **{member_id: share or assignment("orders/0")}))
    return joined


async def test_the_rebalances_of_a_group_are_described_with_cause_member_and_moves() -> None:
    async with a_coordinator() as broker:
        since_ms = broker.clock.now_ms()
        joined = join(broker)
        broker.clock.ms += 250
        broker.ask(ApiKey.SYNC_GROUP, 2, sync_request(joined, **{joined.member_id: assignment("orders/0/2")}))
        answer = history(broker)
        assert (answer.error_code, answer.group_id, answer.remembered_max) == (0, "g", 50)
        assert answer.since_at_ms <= since_ms
        (row,) = answer.rebalances
        assert (row.generation_before, row.generation_after, row.protocol_name) == (0, 1, "range")
        assert row.ended_at_ms - row.began_at_ms == row.duration_ms == 250
        ((cause, name, client_id),) = [(c.cause, c.member_id, c.client_id) for c in row.causes]
        assert (cause, name, client_id) == (1, joined.member_id, "test")
        assert [(m.member_id, m.partitions, m.waited_ms) for m in row.members] == [(joined.member_id, 2, 250)]
        moves = [Move(move.topic, move.partition, move.source, move.target) for move in row.moves]
        assert moves == [Move("orders", index, None, joined.member_id) for index in (0, 2)]


async def test_a_rebalance_in_progress_is_the_last_one_and_has_not_ended() -> None:
    async with a_coordinator() as broker:
        join(broker)
        (row,) = history(broker).rebalances
        assert (row.ended_at_ms, row.duration_ms, row.generation_after) == (-1, -1, 1)


async def test_only_the_newest_are_sent_if_so_requested_and_older_ones_are_forgotten() -> None:
    async with a_coordinator({"sordini.group.rebalance.history.max": "3"}) as broker:
        member_id = a_stable_group(broker).member_id
        for _ in range(4):
            rebalance_again(broker, member_id)
        assert [row.generation_after for row in history(broker).rebalances] == [3, 4, 5]
        assert [row.generation_after for row in history(broker, last=2).rebalances] == [4, 5]
        assert history(broker, last=0).rebalances == []
        assert len(history(broker, last=1000).rebalances) == 3


async def test_a_limit_of_zero_remembers_nothing_and_still_counts() -> None:
    async with a_coordinator({"sordini.group.rebalance.history.max": "0"}) as broker:
        a_stable_group(broker)
        answer = history(broker)
        assert (answer.error_code, answer.remembered_max, list(answer.rebalances)) == (0, 0, [])
        assert sum(broker.parts.groups.rebalances.completed.values()) == 1
        assert dict(broker.parts.groups.last_rebalances()) == {"g": 0}
        assert broker.parts.groups.memory.reclaimable_bytes == 0


async def test_the_reason_that_a_client_gives_is_part_of_the_cause() -> None:
    async with a_coordinator() as broker:
        answer = join(broker, version=8, group_instance_id="i", reason="first start")
        assert answer.error_code == 0
        assert history(broker).rebalances[0].causes[0].detail == "first start"


async def test_a_member_leaves_with_its_reason_and_is_removed_by_another_client() -> None:
    async with a_coordinator() as broker:
        for client_id, cause in (("test", RebalanceCause.MEMBER_LEFT), ("admin", RebalanceCause.REMOVED_BY_ADMIN)):
            leaving = MemberIdentity(member_id=a_stable_group(broker).member_id, reason=f"as {client_id}")
            request = LeaveGroupRequest(group_id="g", members=[leaving])
            assert broker.ask(ApiKey.LEAVE_GROUP, 5, request, client_id=client_id).members[0].error_code == 0
            last = history(broker).rebalances[-1].causes[0]
            assert (last.cause, last.detail) == (cause, f"as {client_id}")


async def test_a_group_that_does_not_exist_has_no_history_and_neither_has_one_of_another_coordinator() -> None:
    async with a_coordinator() as broker:
        assert history(broker, "unknown").error_code == ErrorCode.GROUP_ID_NOT_FOUND
        broker.parts.replicas.resign_all()
        assert history(broker).error_code == ErrorCode.NOT_COORDINATOR


async def test_a_new_coordinator_begins_a_new_history() -> None:
    disk = ForgetfulDisk()
    async with a_coordinator(disk=disk) as broker:
        a_stable_group(broker)
    async with a_coordinator(disk=disk.killed()) as broker:
        answer = history(broker)
        assert (answer.error_code, list(answer.rebalances)) == (0, [])


async def test_a_group_that_is_loaded_with_too_many_members_rebalances_for_that() -> None:
    disk = ForgetfulDisk()
    async with a_coordinator(disk=disk) as broker:
        first = a_stable_group(broker)
        pending = broker.serve(ApiKey.JOIN_GROUP, 3, join_request())
        leader = join(broker, first.member_id)
        assert isinstance(pending, DelayedResponse)
        second = answer_of(pending, ApiKey.JOIN_GROUP, 3)
        assert leader.generation_id == second.generation_id
        shares = {leader.member_id: b"one", second.member_id: b"two"}
        assert broker.ask(ApiKey.SYNC_GROUP, 2, sync_request(leader, **shares)).assignment == b"one"
    async with a_coordinator({"group.max.size": "1"}, disk.killed()) as broker:
        (row,) = history(broker).rebalances
        assert [cause.cause for cause in row.causes] == [RebalanceCause.GROUP_TOO_LARGE]


async def test_a_coordinator_that_resigned_holds_no_history() -> None:
    async with a_coordinator() as broker:
        a_stable_group(broker)
        assert broker.parts.groups.memory.reclaimable_bytes > 0
        broker.parts.replicas.resign_all()
        assert broker.parts.groups.memory.reclaimable_bytes == broker.parts.groups.memory.held_bytes == 0
        assert not broker.parts.groups.rebalances.shards


async def test_a_deleted_group_leaves_no_history_behind() -> None:
    async with a_coordinator() as broker:
        leave(broker, a_stable_group(broker))
        assert broker.parts.groups.memory.reclaimable_bytes > 0
        broker.ask(ApiKey.DELETE_GROUPS, 1, DeleteGroupsRequest(groups_names=["g"]))
        assert broker.parts.groups.memory.reclaimable_bytes == broker.parts.groups.memory.held_bytes == 0
        assert not dict(broker.parts.groups.last_rebalances())


@pytest.mark.parametrize(("name", "is_ours"), [("sordini", True), ("apache-kafka-java", False), ("sordini-2", False)])
async def test_only_our_own_clients_learn_of_the_request(name: str, *, is_ours: bool) -> None:
    async with a_coordinator() as broker:
        request = ApiVersionsRequest(client_software_name=name, client_software_version="1")
        keys = {row.api_key for row in broker.ask(ApiKey.API_VERSIONS, 3, request).api_keys}
        assert keys >= APIS.keys() - TELEMETRY_APIS
        assert (ApiKey.DESCRIBE_GROUP_HISTORY in keys) == is_ours
        assert (max(keys) >= FIRST_OWN_KEY) == is_ours
        assert {
            row.api_key for row in broker.ask(ApiKey.API_VERSIONS, 0, request).api_keys
        } == APIS.keys() - TELEMETRY_APIS


async def test_histories_use_an_eighth_of_the_groups_memory_at_most() -> None:
    async with a_coordinator({"sordini.group.memory.bytes.max": "100000"}) as broker:
        memory = broker.parts.groups.memory
        members = [(group, a_stable_group(broker, group).member_id) for group in ("g", "h", "i")]
        for _ in range(20):
            for group, member_id in members:
                rebalance_again(broker, member_id, group)
                assert memory.reclaimable_bytes <= 100_000 // 8
        newest = rebalance_again(broker, members[2][1], "i")
        assert history(broker, "i").rebalances[-1].generation_after == newest.generation_id


async def test_histories_are_given_up_before_a_member_is_refused() -> None:
    async with a_coordinator({"sordini.group.memory.bytes.max": "100000"}) as broker:
        memory = broker.parts.groups.memory
        member_id = a_stable_group(broker).member_id
        for _ in range(5):
            rebalance_again(broker, member_id)
        held = memory.held_bytes - memory.reclaimable_bytes
        assert memory.reclaimable_bytes > 5_000
        large = [JoinGroupRequestProtocol(name="range", metadata=bytes(100_000 - held - 5_000))]
        assert join(broker, group_id="large", protocols=large).error_code == 0
        assert memory.held_bytes <= 100_000
        assert history(broker).rebalances == []
        assert memory.rejected_count == 0
