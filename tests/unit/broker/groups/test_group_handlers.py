"""The requests of members and administrators of groups, version by version."""

from __future__ import annotations

import pytest

from sordini.broker.groups.offsets_topic import OFFSETS_TOPIC
from sordini.broker.network.ports import DelayedResponse
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.delete_groups import DeleteGroupsRequest
from sordini.protocol.messages.describe_groups import DescribeGroupsRequest
from sordini.protocol.messages.heartbeat import HeartbeatRequest
from sordini.protocol.messages.join_group import JoinGroupRequestProtocol
from sordini.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from sordini.protocol.messages.list_groups import ListGroupsRequest
from sordini.protocol.messages.sync_group import SyncGroupRequest
from sordini.testing.simulation.forgetful_disk import ForgetfulDisk
from tests.support.group_requests import (
    ONE_PARTITION,
    SUBSCRIBED_TO_ORDERS,
    a_coordinator,
    a_stable_group,
    commit,
    committed,
    heartbeat,
    join,
    join_request,
    leave,
    sync_request,
)
from tests.support.unit_broker import UnitBroker, a_broker

OPERATIONS = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11


def states(broker: UnitBroker, version: int = 5, **filters: list[str]) -> dict[str, str]:
    answer = broker.ask(ApiKey.LIST_GROUPS, version, ListGroupsRequest(**filters))
    assert answer.error_code == 0
    return {group.group_id: group.group_state for group in answer.groups}


@pytest.mark.parametrize("version", range(10))
async def test_members_of_every_version_form_a_group(version: int) -> None:
    async with a_coordinator() as broker:
        joined = join(broker, version=version)
        if version >= 4:
            assert joined.error_code == ErrorCode.MEMBER_ID_REQUIRED
            assert joined.protocol_name == (None if version >= 7 else "")
            joined = join(broker, joined.member_id, version=version)
        assert (joined.error_code, joined.generation_id, joined.protocol_name) == (0, 1, "range")
        assert joined.protocol_type == ("consumer" if version >= 7 else None)
        assert [(row.member_id, row.metadata) for row in joined.members] == [(joined.member_id, SUBSCRIBED_TO_ORDERS)]
        request = sync_request(joined)
        request.protocol_type, request.protocol_name = "consumer", "range"
        synced = broker.ask(ApiKey.SYNC_GROUP, min(version, 5), request)
        assert (synced.error_code, synced.assignment) == (0, b"all of it")
        assert synced.protocol_name == ("range" if version >= 5 else None)
        assert heartbeat(broker, joined, version=min(version, 4)) == ErrorCode.NONE


async def test_a_join_of_version_0_has_one_timeout_for_both() -> None:
    async with a_coordinator() as broker:
        join(broker, version=0, session_timeout_ms=7_000, rebalance_timeout_ms=99_000)
        group = broker.parts.groups.group("g")
        assert group is not None
        assert [member.rebalance_timeout_ms for member in group.members.values()] == [7_000]


async def test_groups_with_members_need_an_id() -> None:
    async with a_coordinator() as broker:
        assert join(broker, group_id="").error_code == ErrorCode.INVALID_GROUP_ID
        assert broker.ask(ApiKey.SYNC_GROUP, 0, SyncGroupRequest()).error_code == ErrorCode.INVALID_GROUP_ID
        assert broker.ask(ApiKey.HEARTBEAT, 0, HeartbeatRequest()).error_code == ErrorCode.INVALID_GROUP_ID
        assert broker.ask(ApiKey.LEAVE_GROUP, 0, LeaveGroupRequest()).error_code == ErrorCode.INVALID_GROUP_ID


async def test_from_version_5_on_a_sync_names_its_protocol() -> None:
    async with a_coordinator() as broker:
        joined = join(broker)
        request = sync_request(joined)
        answer = broker.ask(ApiKey.SYNC_GROUP, 5, request)
        assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        request.protocol_type, request.protocol_name = "consumer", "roundrobin"
        answer = broker.ask(ApiKey.SYNC_GROUP, 5, request)
        assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


async def test_a_member_of_another_protocol_type_is_refused() -> None:
    async with a_coordinator() as broker:
        a_stable_group(broker)
        other = [JoinGroupRequestProtocol(name="sticky", metadata=b"")]
        assert join(broker, protocols=other).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert join(broker, protocol_type="connect").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


async def test_a_member_leaves_in_old_and_new_versions() -> None:
    async with a_coordinator() as broker:
        joined = a_stable_group(broker)
        assert leave(broker, joined) == ErrorCode.NONE
        assert leave(broker, joined) == ErrorCode.UNKNOWN_MEMBER_ID
        static = join(broker, version=5, group_instance_id="rack-7")
        wanted = [MemberIdentity(group_instance_id="rack-7"), MemberIdentity(member_id="ghost")]
        answer = broker.ask(ApiKey.LEAVE_GROUP, 5, LeaveGroupRequest(group_id="g", members=wanted))
        left = [(row.member_id, row.group_instance_id, row.error_code) for row in answer.members]
        assert answer.error_code == 0
        assert left == [("", "rack-7", 0), ("ghost", None, ErrorCode.UNKNOWN_MEMBER_ID)]
        assert heartbeat(broker, static) == ErrorCode.UNKNOWN_MEMBER_ID


async def test_a_stable_group_is_described_with_metadata_and_assignments() -> None:
    async with a_coordinator() as broker:
        joined = a_stable_group(broker)
        request = DescribeGroupsRequest(groups=["g"], include_authorized_operations=True)
        [group] = broker.ask(ApiKey.DESCRIBE_GROUPS, 5, request).groups
        assert (group.error_code, group.group_state, group.protocol_type) == (0, "Stable", "consumer")
        assert (group.protocol_data, group.authorized_operations) == ("range", OPERATIONS)
        [member] = group.members
        assert (member.member_id, member.client_id, member.client_host) == (joined.member_id, "test", "/192.0.2.1")
        assert (member.member_metadata, member.member_assignment) == (SUBSCRIBED_TO_ORDERS, b"all of it")


async def test_a_rebalancing_group_is_described_without_metadata_and_assignments() -> None:
    async with a_coordinator() as broker:
        join(broker)
        [group] = broker.ask(ApiKey.DESCRIBE_GROUPS, 3, DescribeGroupsRequest(groups=["g"])).groups
        assert (group.group_state, group.protocol_data, group.authorized_operations) == (
            "CompletingRebalance",
            "",
            -(2**31),
        )
        assert [(member.member_metadata, member.member_assignment) for member in group.members] == [(b"", b"")]


@pytest.mark.parametrize(("version", "code"), [(0, 0), (5, 0), (6, ErrorCode.GROUP_ID_NOT_FOUND)])
async def test_an_unknown_group_is_described_as_dead(version: int, code: int) -> None:
    async with a_coordinator() as broker:
        [group] = broker.ask(ApiKey.DESCRIBE_GROUPS, version, DescribeGroupsRequest(groups=["ghost"])).groups
        assert (group.error_code, group.group_state, group.protocol_type, group.members) == (code, "Dead", "", [])
        assert group.error_message == ("Group ghost not found." if version >= 6 else None)


async def test_groups_of_another_coordinator_are_described_as_such() -> None:
    async with a_coordinator() as broker:
        broker.parts.replicas.resign_all()
        [group] = broker.ask(ApiKey.DESCRIBE_GROUPS, 5, DescribeGroupsRequest(groups=["g"])).groups
        assert (group.error_code, group.group_state) == (ErrorCode.NOT_COORDINATOR, "")


async def test_groups_are_listed_by_state_and_type() -> None:
    async with a_coordinator() as broker:
        a_stable_group(broker)
        commit(broker, {0: 1}, group_id="simple")
        assert states(broker) == {"g": "Stable", "simple": "Empty"}
        assert states(broker, states_filter=["stable"]) == {"g": "Stable"}
        assert states(broker, states_filter=["Empty", "Dead"]) == {"simple": "Empty"}
        assert states(broker, types_filter=["Classic"]).keys() == {"g", "simple"}
        assert states(broker, types_filter=["consumer"]) == {}
        answer = broker.ask(ApiKey.LIST_GROUPS, 5, ListGroupsRequest())
        assert {(group.group_id, group.protocol_type, group.group_type) for group in answer.groups} == {
            ("g", "consumer", "classic"),
            ("simple", "", "classic"),
        }


async def test_an_incomplete_list_of_groups_has_an_error_code() -> None:
    disk = ForgetfulDisk()
    async with a_coordinator(disk=disk) as broker:
        a_stable_group(broker)
    async with a_broker(ONE_PARTITION, disk.killed()) as broker:
        await broker.lead(OFFSETS_TOPIC)
        answer = broker.ask(ApiKey.LIST_GROUPS, 0, ListGroupsRequest())
        assert (answer.error_code, answer.groups) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [])
        await broker.settled()
        assert states(broker) == {"g": "Stable"}


async def test_only_groups_without_members_are_deleted() -> None:
    async with a_coordinator() as broker:
        joined = a_stable_group(broker)
        commit(broker, {0: 1}, joined)
        commit(broker, {0: 1}, group_id="simple")
        request = DeleteGroupsRequest(groups_names=["g", "simple", "ghost", "g"])
        answer = broker.ask(ApiKey.DELETE_GROUPS, 2, request)
        assert [(row.group_id, row.error_code) for row in answer.results] == [
            ("g", ErrorCode.NON_EMPTY_GROUP),
            ("simple", 0),
            ("ghost", ErrorCode.GROUP_ID_NOT_FOUND),
        ]
        assert committed(broker) == {("orders", 0): 1}
        leave(broker, joined)
        [result] = broker.ask(ApiKey.DELETE_GROUPS, 0, DeleteGroupsRequest(groups_names=["g"])).results
        assert result.error_code == 0
        assert committed(broker) == {}
        assert states(broker) == {}


@pytest.mark.parametrize("version", range(4))
async def test_from_version_3_on_a_message_explains_why_a_group_is_not_deleted(version: int) -> None:
    async with a_coordinator() as broker:
        a_stable_group(broker)
        commit(broker, {0: 1}, group_id="simple")
        request = DeleteGroupsRequest(groups_names=["g", "simple", "ghost"])
        held, gone, unknown = broker.ask(ApiKey.DELETE_GROUPS, version, request).results
        assert gone.error_message is None
        if version < 3:
            assert (held.error_message, unknown.error_message) == (None, None)
        else:
            assert "has members" in held.error_message
            assert "no such group" in unknown.error_message


async def test_deleting_nothing_is_answered() -> None:
    async with a_coordinator() as broker:
        assert broker.ask(ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest()).results == []


async def test_a_group_whose_deletion_failed_still_exists() -> None:
    async with a_coordinator() as broker:
        commit(broker, {0: 1}, group_id="simple")
        joined = a_stable_group(broker)
        commit(broker, {0: 1}, joined)
        leave(broker, joined)
        broker.disk.fail_while(lambda kind, _path: kind == "write", 28)
        answer = broker.ask(ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest(groups_names=["g", "simple"]))
        assert [row.error_code for row in answer.results] == [ErrorCode.NOT_COORDINATOR] * 2
        broker.disk.heal()
        assert committed(broker, "g") == committed(broker, "simple") == {("orders", 0): 1}
        answer = broker.ask(ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest(groups_names=["g", "simple"]))
        assert [row.error_code for row in answer.results] == [0, 0]


async def test_without_a_coordinator_every_request_is_refused() -> None:
    async with a_broker(ONE_PARTITION) as broker:
        assert join(broker).error_code == ErrorCode.NOT_COORDINATOR
        request = SyncGroupRequest(group_id="g", member_id="m")
        assert broker.ask(ApiKey.SYNC_GROUP, 3, request).error_code == ErrorCode.NOT_COORDINATOR
        answer = broker.ask(ApiKey.LEAVE_GROUP, 4, LeaveGroupRequest(group_id="g", members=[MemberIdentity()]))
        assert (answer.error_code, answer.members) == (ErrorCode.NOT_COORDINATOR, [])
        answer = broker.ask(ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest(groups_names=["g"]))
        assert [row.error_code for row in answer.results] == [ErrorCode.NOT_COORDINATOR]
        answer = broker.ask(ApiKey.DELETE_GROUPS, 3, DeleteGroupsRequest(groups_names=["g"]))
        assert "another broker" in answer.results[0].error_message
        assert states(broker) == {}


async def test_a_delayed_response_is_framed_as_an_immediate_one() -> None:
    async with a_coordinator() as broker:
        first = a_stable_group(broker)
        pending = broker.serve(ApiKey.JOIN_GROUP, 9, join_request(group_instance_id="rack-7"))
        assert isinstance(pending, DelayedResponse)
        join(broker, first.member_id)
        assert pending.is_answered
