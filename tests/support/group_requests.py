"""Requests of consumers and administrators to a coordinator, for a `UnitBroker`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from sordini.broker.groups.offsets_topic import OFFSETS_TOPIC
from sordini.broker.network.ports import DelayedResponse
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.heartbeat import HeartbeatRequest
from sordini.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from sordini.protocol.messages.leave_group import LeaveGroupRequest
from sordini.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from sordini.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from sordini.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from sordini.testing.simulation.forgetful_disk import ForgetfulDisk
from tests.support.unit_broker import UnitBroker, a_broker, answer_of

ONE_PARTITION = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1"}
SUBSCRIBED_TO_ORDERS = b"\x00\x00\x00\x00\x00\x01\x00\x06orders\xff\xff\xff\xff"


@asynccontextmanager
async def a_coordinator(
    entries: Mapping[str, str] | None = None, disk: ForgetfulDisk | None = None, epoch: int = 0
) -> AsyncIterator[UnitBroker]:
    """A broker that leads `orders` and the one partition of __consumer_offsets, with the disk's content of it.

    `epoch` is the leader epoch of __consumer_offsets.
    """
    async with a_broker({**ONE_PARTITION, **(entries or {})}, disk) as broker:
        await broker.lead("orders", 3)
        await broker.lead(OFFSETS_TOPIC, epoch=epoch)
        await broker.settled()
        yield broker


def join_request(member_id: str = "", **fields: Any) -> JoinGroupRequest:
    defaults: dict[str, Any] = {
        "group_id": "g",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000,
        "protocol_type": "consumer",
        "protocols": [JoinGroupRequestProtocol(name="range", metadata=SUBSCRIBED_TO_ORDERS)],
    }
    return JoinGroupRequest(member_id=member_id, **{**defaults, **fields})


def join(broker: UnitBroker, member_id: str = "", version: int = 3, **fields: Any) -> Any:
    """The answer to a join that is answered at once."""
    return broker.ask(ApiKey.JOIN_GROUP, version, join_request(member_id, **fields))


def sync_request(joined: Any, group_id: str = "g", **assignments: bytes) -> SyncGroupRequest:
    given = assignments or {joined.member_id: b"all of it"}
    return SyncGroupRequest(
        group_id=group_id,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        assignments=[SyncGroupRequestAssignment(member_id=name, assignment=part) for name, part in given.items()],
    )


def a_stable_group(broker: UnitBroker, group_id: str = "g") -> Any:
    """A group of one member, which has its assignment; the answer to its join."""
    joined = join(broker, group_id=group_id)
    assert joined.error_code == 0
    assert broker.ask(ApiKey.SYNC_GROUP, 2, sync_request(joined, group_id)).assignment == b"all of it"
    return joined


def heartbeat(broker: UnitBroker, joined: Any, group_id: str = "g", version: int = 3) -> ErrorCode:
    request = HeartbeatRequest(group_id=group_id, generation_id=joined.generation_id, member_id=joined.member_id)
    return ErrorCode(broker.ask(ApiKey.HEARTBEAT, version, request).error_code)


def leave(broker: UnitBroker, joined: Any, group_id: str = "g") -> ErrorCode:
    request = LeaveGroupRequest(group_id=group_id, member_id=joined.member_id)
    return ErrorCode(broker.ask(ApiKey.LEAVE_GROUP, 2, request).error_code)


def commit_request(
    offsets: Mapping[int, int], joined: Any = None, *, topic: str = "orders", group_id: str = "g", **fields: Any
) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=-1 if joined is None else joined.generation_id,
        member_id="" if joined is None else joined.member_id,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
                    for index, offset in offsets.items()
                ],
            )
        ],
        **fields,
    )


def commit(
    broker: UnitBroker, offsets: Mapping[int, int], joined: Any = None, version: int = 7, **fields: Any
) -> list[int]:
    """The codes of a commit that is answered at once."""
    return codes(broker.ask(ApiKey.OFFSET_COMMIT, version, commit_request(offsets, joined, **fields)))


def commit_later(broker: UnitBroker, offsets: Mapping[int, int], **fields: Any) -> DelayedResponse:
    pending = broker.serve(ApiKey.OFFSET_COMMIT, 7, commit_request(offsets, **fields))
    assert isinstance(pending, DelayedResponse)
    return pending


def commit_codes(pending: DelayedResponse) -> list[int]:
    return codes(answer_of(pending, ApiKey.OFFSET_COMMIT, 7))


def codes(answer: Any) -> list[int]:
    return [partition.error_code for topic in answer.topics for partition in topic.partitions]


def fetch(broker: UnitBroker, *indexes: int, group_id: str = "g", topic: str = "orders") -> Any:
    """One group's answer, as version 8 has it; every partition when none is named."""
    topics = [OffsetFetchRequestTopics(name=topic, partition_indexes=list(indexes))] if indexes else None
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=topics)])
    return broker.ask(ApiKey.OFFSET_FETCH, 8, request).groups[0]


def committed(broker: UnitBroker, group_id: str = "g") -> dict[tuple[str, int], int]:
    """All committed offsets of a group."""
    answer = fetch(broker, group_id=group_id)
    assert answer.error_code == 0
    return {
        (topic.name, partition.partition_index): partition.committed_offset
        for topic in answer.topics
        for partition in topic.partitions
    }


def old_fetch(broker: UnitBroker, version: int, *indexes: int, group_id: str = "g") -> Any:
    """The answer of a version before requests for several groups."""
    topics = [OffsetFetchRequestTopic(name="orders", partition_indexes=list(indexes))]
    return broker.ask(ApiKey.OFFSET_FETCH, version, OffsetFetchRequest(group_id=group_id, topics=topics))
