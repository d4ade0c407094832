"""Share groups (KIP-932) on a partition of __consumer_offsets: what is written, committed, loaded and limited."""

from __future__ import annotations

import errno
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from sordini.broker.groups.offsets_topic import OFFSETS_TOPIC
from sordini.broker.network.ports import DelayedResponse
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from sordini.protocol.messages.delete_groups import DeleteGroupsRequest
from sordini.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from sordini.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from sordini.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.support.group_requests import a_coordinator
from tests.support.unit_broker import ME, OTHER, UnitBroker, answer_of
from tests.unit.broker.groups.test_coordinator import in_sync

SETTINGS = {
    "group.share.assignment.interval.ms": "0",
    "group.share.min.assignment.interval.ms": "0",
    "share.coordinator.state.topic.num.partitions": "1",
}
BEAT = ApiKey.SHARE_GROUP_HEARTBEAT


@asynccontextmanager
async def a_share_coordinator(memory: str = "1000000") -> AsyncIterator[UnitBroker]:
    """It leads the stored states as well."""
    async with a_coordinator({**SETTINGS, "sordini.group.memory.bytes.max": memory}) as broker:
        await broker.lead("__share_group_state")
        await broker.settled()
        yield broker


async def rounds(broker: UnitBroker) -> None:
    """Until groups are loaded or gone; stored states may wait for a coordinator that is not there."""
    for _ in range(50):
        await broker.run_round()


def beat_request(member: str, epoch: int, **fields: Any) -> ShareGroupHeartbeatRequest:
    whole: dict[str, Any] = {"subscribed_topic_names": ["orders"]} if epoch == 0 else {}
    named = {"group_id": "g", "member_id": member, "member_epoch": epoch}
    return ShareGroupHeartbeatRequest(**{**named, **whole, **fields})


def beat(broker: UnitBroker, member: str = "a", epoch: int = 0, **fields: Any) -> Any:
    """The answer to a heartbeat that is answered at once; a member of epoch 0 joins."""
    return broker.ask(BEAT, 1, beat_request(member, epoch, **fields))


def beat_later(broker: UnitBroker, member: str = "a", epoch: int = 0) -> DelayedResponse:
    pending = broker.serve(BEAT, 1, beat_request(member, epoch))
    assert isinstance(pending, DelayedResponse)
    return pending


def described(broker: UnitBroker) -> Any:
    answer = broker.ask(ApiKey.SHARE_GROUP_DESCRIBE, 1, ShareGroupDescribeRequest(group_ids=["g"]))
    return answer.groups[0]


async def test_a_step_that_cannot_be_written_has_not_happened() -> None:
    async with a_share_coordinator() as broker:
        beat(broker, "a")
        before = described(broker)
        broker.disk.fail_while(lambda call, _path: call == "write", errno.ENOSPC)
        assert beat(broker, "b").error_code == ErrorCode.NOT_COORDINATOR
        assert beat(broker, "a", -1).error_code == ErrorCode.NOT_COORDINATOR
        broker.disk.heal()
        assert described(broker) == before
        assert beat(broker, "b").error_code == ErrorCode.NONE
        assert {member.member_id for member in described(broker).members} == {"a", "b"}


async def test_what_waits_for_the_in_sync_replicas_is_refused_when_the_leadership_ends() -> None:
    async with a_share_coordinator() as broker:
        beat(broker, "a")
        await in_sync(broker, ME, OTHER, epoch=1)
        joining = beat_later(broker, "b")
        assert joining.parts is None
        broker.parts.replicas.resign_all()
        await rounds(broker)
        assert answer_of(joining, BEAT, 1).error_code == ErrorCode.NOT_COORDINATOR
        assert beat(broker, "a", 2).error_code == ErrorCode.NOT_COORDINATOR


async def test_a_group_that_is_loaded_again_has_its_members() -> None:
    async with a_share_coordinator() as broker:
        epoch = beat(broker, "a", rack_id="r").member_epoch
        before = described(broker)
        broker.parts.replicas.resign_all()
        await broker.lead("orders", 3, epoch=1)
        await broker.lead(OFFSETS_TOPIC, epoch=1)
        await rounds(broker)
        assert described(broker) == before
        assert beat(broker, "a", epoch).error_code == ErrorCode.NONE
        assert beat(broker, "a", 99).error_code == ErrorCode.FENCED_MEMBER_EPOCH


async def test_a_member_for_which_there_is_no_memory_is_refused_and_those_that_are_there_stay() -> None:
    async with a_share_coordinator(memory="20000") as broker:
        epoch = beat(broker, "a").member_epoch
        codes = [beat(broker, f"m{number}").error_code for number in range(40)]
        assert codes[0] == ErrorCode.NONE
        assert codes[-1] == ErrorCode.GROUP_MAX_SIZE_REACHED
        assert broker.parts.groups.memory.held_bytes <= 20_000
        larger = [f"{'t' * 200}-{number}" for number in range(100)]
        answer = beat(broker, "a", epoch, subscribed_topic_names=larger)
        assert answer.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
        assert beat(broker, "a", epoch).error_code == ErrorCode.NONE


async def test_memory_is_released_with_the_leadership() -> None:
    async with a_share_coordinator() as broker:
        for member in "abc":
            beat(broker, member)
        assert broker.parts.groups.memory.held_bytes > 0
        broker.parts.replicas.resign_all()
        await rounds(broker)
        assert broker.parts.groups.memory.held_bytes == 0


def set_offsets() -> AlterShareGroupOffsetsRequest:
    row = AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=0)
    topic = AlterShareGroupOffsetsRequestTopic(topic_name="orders", partitions=[row])
    return AlterShareGroupOffsetsRequest(group_id="g", topics=[topic])


def delete_offsets() -> DeleteShareGroupOffsetsRequest:
    return DeleteShareGroupOffsetsRequest(
        group_id="g", topics=[DeleteShareGroupOffsetsRequestTopic(topic_name="orders")]
    )


@pytest.mark.parametrize(
    ("key", "version", "request_of"),
    [
        (ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, set_offsets),
        (ApiKey.DELETE_SHARE_GROUP_OFFSETS, 0, delete_offsets),
        (ApiKey.DELETE_GROUPS, 2, lambda: DeleteGroupsRequest(groups_names=["g"])),
    ],
)
async def test_a_coordinator_that_moves_while_states_are_changed_answers_so(
    key: ApiKey, version: int, request_of: Callable[[], Any]
) -> None:
    async with a_share_coordinator() as broker:
        beat(broker, "a")
        await rounds(broker)
        beat(broker, "a", -1)
        changing = broker.serve(key, version, request_of())
        assert isinstance(changing, DelayedResponse)
        partition = broker.parts.replicas.partition(OFFSETS_TOPIC, 0)
        broker.parts.groups.runtime.resigned(partition)
        await rounds(broker)
        answer = answer_of(changing, key, version)
        codes = [answer.error_code] if hasattr(answer, "error_code") else [row.error_code for row in answer.results]
        assert codes == [ErrorCode.NOT_COORDINATOR]
