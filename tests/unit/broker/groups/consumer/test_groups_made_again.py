"""A group that is deleted and made again, or becomes one of the other kind, while something of the former is on its way."""

from __future__ import annotations

import pytest

from sordini.broker.groups.consumer import groups
from sordini.broker.network.ports import DelayedResponse
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.delete_groups import DeleteGroupsRequest
from sordini.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from sordini.protocol.messages.list_groups import ListGroupsRequest
from tests.support.consumer_group_world import subscription
from tests.support.group_requests import (
    a_coordinator,
    a_stable_group,
    commit,
    commit_later,
    committed,
    join,
    join_request,
    leave,
)
from tests.support.unit_broker import ME, OTHER, UnitBroker, answer_of
from tests.unit.broker.groups.consumer.test_groups import (
    AT_ONCE,
    beat,
    beat_later,
    deleted,
    described,
    indexes,
    padded,
)
from tests.unit.broker.groups.test_coordinator import in_sync


def delete_later(broker: UnitBroker) -> DelayedResponse:
    pending = broker.serve(ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest(groups_names=["g"]))
    assert isinstance(pending, DelayedResponse)
    return pending


def deletion_code(pending: DelayedResponse) -> int:
    code: int = answer_of(pending, ApiKey.DELETE_GROUPS, 2).results[0].error_code
    return code


async def test_a_target_of_a_deleted_group_is_not_that_of_a_new_one_of_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with a_coordinator(AT_ONCE) as broker:
        for _ in range(5):
            beat(broker, "a")
            beat(broker, "a", -1)
        monkeypatch.setattr(groups, "STEPS_AT_ONCE", 1)
        beat(broker, "a")
        beat(broker, "a", -1)
        assert deleted(broker) == ErrorCode.NONE
        joined = beat(broker, "b")
        await broker.settled()
        group = described(broker)
        assert group.assignment_epoch <= group.group_epoch
        assert indexes(beat(broker, "b", joined.member_epoch)) == [0, 1, 2]


async def test_the_deletion_of_a_classic_group_is_answered_though_a_consumer_group_takes_its_place() -> None:
    async with a_coordinator(AT_ONCE) as broker:
        leave(broker, a_stable_group(broker))
        await in_sync(broker, ME, OTHER, epoch=1)
        deleting, joining = delete_later(broker), beat_later(broker, "a")
        await in_sync(broker, ME, epoch=2)
        assert deletion_code(deleting) == ErrorCode.NONE
        assert answer_of(joining, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1).error_code == ErrorCode.NONE
        assert [member.member_id for member in described(broker).members] == ["a"]


async def test_a_member_that_joins_while_the_offsets_of_a_group_without_a_record_are_deleted_stays() -> None:
    async with a_coordinator() as broker:
        commit(broker, {0: 5})
        await in_sync(broker, ME, OTHER, epoch=1)
        deleting = delete_later(broker)
        joining = broker.serve(ApiKey.JOIN_GROUP, 3, join_request())
        await in_sync(broker, ME, epoch=2)
        assert deletion_code(deleting) == ErrorCode.NONE
        if isinstance(joining, DelayedResponse):
            joined = answer_of(joining, ApiKey.JOIN_GROUP, 3)
            assert joined.error_code == ErrorCode.NONE
        listed = broker.ask(ApiKey.LIST_GROUPS, 5, ListGroupsRequest()).groups
        assert [group.group_id for group in listed] == ["g"]


async def test_the_late_deletion_of_a_simple_group_takes_nothing_of_the_consumer_group_of_its_name() -> None:
    async with a_coordinator(AT_ONCE) as broker:
        commit(broker, {0: 5})
        await in_sync(broker, ME, OTHER, epoch=1)
        deleting, joining = delete_later(broker), beat_later(broker, "a")
        await in_sync(broker, ME, epoch=2)
        assert deletion_code(deleting) == ErrorCode.NONE
        assert answer_of(joining, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1).error_code == ErrorCode.NONE
        assert broker.parts.groups.memory.held_bytes > 1_800
        broker.clock.ms += 45_000
        for _ in range(3):
            broker.timers.fire()
            broker.clock.ms += 100
        assert described(broker).group_state == "Empty"


async def test_a_commit_that_precedes_the_deletion_of_its_group_leaves_no_group_behind() -> None:
    async with a_coordinator(AT_ONCE) as broker:
        beat(broker, "a")
        beat(broker, "a", -1)
        await in_sync(broker, ME, OTHER, epoch=1)
        commit_later(broker, {0: 5})
        deleting = delete_later(broker)
        await in_sync(broker, ME, epoch=2)
        assert deletion_code(deleting) == ErrorCode.NONE
        assert broker.ask(ApiKey.LIST_GROUPS, 5, ListGroupsRequest()).groups == []
        assert broker.parts.groups.memory.held_bytes == 0


async def test_a_classic_join_for_which_there_is_no_memory_leaves_the_offsets_of_a_consumer_group_readable() -> None:
    async with a_coordinator({**AT_ONCE, "sordini.group.memory.bytes.max": "8000"}) as broker:
        beat(broker, "a")
        beat(broker, "a", -1)
        assert commit(broker, {0: 5}) == [0]
        protocols = padded(subscription(["orders"], {}), 20_000)
        assert join(broker, protocols=protocols).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
        assert committed(broker) == {("orders", 0): 5}


async def test_many_members_leave_a_consumer_group_whose_records_are_not_committed_yet() -> None:
    async with a_coordinator(AT_ONCE) as broker:
        beat(broker, "a")
        await in_sync(broker, ME, OTHER, epoch=1)
        leaving = [MemberIdentity(member_id=name) for name in ("a", *(f"m{number}" for number in range(60)))]
        pending = broker.serve(ApiKey.LEAVE_GROUP, 5, LeaveGroupRequest(group_id="g", members=leaving))
        assert isinstance(pending, DelayedResponse)
        for _ in range(20):
            await broker.run_round()
        await in_sync(broker, ME, epoch=2)
        await broker.settled()
        codes = [member.error_code for member in answer_of(pending, ApiKey.LEAVE_GROUP, 5).members]
        assert codes == [ErrorCode.NONE, *[ErrorCode.UNKNOWN_MEMBER_ID] * 60]
