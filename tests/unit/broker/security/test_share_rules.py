"""What a peer needs for each request of share groups: the operations are those of Apache Kafka 4.4 (KIP-932)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from sordini.broker.network.ports import DelayedResponse
from sordini.broker.network.principal import Principal
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages import (
    alter_share_group_offsets as alter,
)
from sordini.protocol.messages import (
    delete_share_group_offsets as delete,
)
from sordini.protocol.messages import (
    describe_share_group_offsets as describe,
)
from sordini.protocol.messages import (
    describe_share_in_flight as in_flight,
)
from sordini.protocol.messages import (
    share_acknowledge,
    share_fetch,
    share_group_describe,
    share_group_heartbeat,
)
from sordini.protocol.messages.common import AcknowledgementBatch
from sordini.protocol.served_apis import ALL_APIS
from sordini.replication.metadata_store.acl_model import AclOperation
from tests.support.unit_broker import UnitBroker, answer_of, topic_id_of
from tests.unit.broker.security.test_rules import NO_GROUP, NO_TOPIC, Kind, Op, allow, answered, codes, guarded

GROUP, MEMBER = "workers", "a-member-of-the-client"
NOT_THERE = ErrorCode.GROUP_ID_NOT_FOUND
ACCEPTED = AcknowledgementBatch(first_offset=0, last_offset=0, acknowledge_types=[1])
TOPICS = ("open", "shut")
ASSIGNMENT_INTERVAL_MS = 1_000
Rows = dict[str, int]
"""The error code of each topic's row."""


def heartbeat_of(*topics: str, epoch: int = 0) -> Any:
    return share_group_heartbeat.ShareGroupHeartbeatRequest(
        group_id=GROUP, member_id=MEMBER, member_epoch=epoch, subscribed_topic_names=list(topics)
    )


def fetch_of(*topics: str, epoch: int = 0) -> Any:
    rows = [
        share_fetch.FetchTopic(topic_id=topic_id_of(name), partitions=[share_fetch.FetchPartition()]) for name in topics
    ]
    return share_fetch.ShareFetchRequest(
        group_id=GROUP, member_id=MEMBER, share_session_epoch=epoch, max_records=10, max_bytes=1_000, topics=rows
    )


def acknowledge_of(*topics: str, epoch: int) -> Any:
    rows = [
        share_acknowledge.AcknowledgeTopic(
            topic_id=topic_id_of(name),
            partitions=[share_acknowledge.AcknowledgePartition(acknowledgement_batches=[ACCEPTED])],
        )
        for name in topics
    ]
    return share_acknowledge.ShareAcknowledgeRequest(
        group_id=GROUP, member_id=MEMBER, share_session_epoch=epoch, topics=rows
    )


def offsets_of(*topics: str) -> Any:
    rows = [describe.DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=[0]) for name in topics]
    group = describe.DescribeShareGroupOffsetsRequestGroup(group_id=GROUP, topics=rows or None)
    return describe.DescribeShareGroupOffsetsRequest(groups=[group])


def alteration_of(*topics: str) -> Any:
    rows = [
        alter.AlterShareGroupOffsetsRequestTopic(
            topic_name=name, partitions=[alter.AlterShareGroupOffsetsRequestPartition(start_offset=0)]
        )
        for name in topics
    ]
    return alter.AlterShareGroupOffsetsRequest(group_id=GROUP, topics=rows)


def deletion_of(*topics: str) -> Any:
    rows = [delete.DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in topics]
    return delete.DeleteShareGroupOffsetsRequest(group_id=GROUP, topics=rows)


def in_flight_of(*topics: str) -> Any:
    rows = [in_flight.ShareInFlightTopic(name=name, partitions=[0]) for name in topics]
    return in_flight.DescribeShareInFlightRequest(group_id=GROUP, topics=rows)


def description() -> Any:
    return share_group_describe.ShareGroupDescribeRequest(group_ids=[GROUP])


@asynccontextmanager
async def a_guarded_broker() -> AsyncIterator[UnitBroker]:
    async with guarded(**{"share.coordinator.state.topic.num.partitions": "1"}) as broker:
        await broker.lead("__share_group_state")
        yield broker


async def asked(broker: UnitBroker, key: ApiKey, request: Any) -> Any:
    return await answered(broker, key, ALL_APIS[key].max_version, request)


async def as_root(broker: UnitBroker, key: ApiKey, request: Any) -> Any:
    alice, broker.peer.principal = broker.peer.principal, Principal("User", "root")
    try:
        return await asked(broker, key, request)
    finally:
        broker.peer.principal = alice


def by_name(topics: Any) -> Rows:
    """Of rows that have partitions, the first one's code."""
    found = {}
    for topic in topics:
        row = topic.partitions[0] if hasattr(topic, "partitions") else topic
        name = getattr(topic, "topic_name", None) or getattr(topic, "name", None)
        found[name or next(one for one in TOPICS if topic_id_of(one) == topic.topic_id)] = row.error_code
    return found


OF_A_GROUP = {
    ApiKey.SHARE_GROUP_HEARTBEAT: (heartbeat_of("open"), Op.READ),
    ApiKey.SHARE_GROUP_DESCRIBE: (description(), Op.DESCRIBE),
    ApiKey.SHARE_FETCH: (fetch_of("open"), Op.READ),
    ApiKey.SHARE_ACKNOWLEDGE: (acknowledge_of("open", epoch=1), Op.READ),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: (offsets_of("open"), Op.DESCRIBE),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: (alteration_of("open"), Op.READ),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: (deletion_of("open"), Op.DELETE),
    ApiKey.DESCRIBE_SHARE_IN_FLIGHT: (in_flight_of("open"), Op.DESCRIBE),
}


@pytest.mark.parametrize("key", OF_A_GROUP, ids=lambda key: key.name)
async def test_a_share_groups_requests_need_their_operation_on_the_group(key: ApiKey) -> None:
    request, operation = OF_A_GROUP[key]
    # Who may read or delete may describe.
    others = {Op.DESCRIBE_CONFIGS} if operation is Op.DESCRIBE else {Op.READ, Op.DELETE, Op.DESCRIBE} - {operation}
    async with a_guarded_broker() as broker:
        for topic in TOPICS:
            allow(broker, Kind.TOPIC, topic, Op.READ, Op.DESCRIBE)
        assert NO_GROUP in codes(await asked(broker, key, request))
        allow(broker, Kind.GROUP, GROUP, *others)
        assert NO_GROUP in codes(await asked(broker, key, request))
        allow(broker, Kind.GROUP, GROUP, operation)
        assert NO_GROUP not in codes(await asked(broker, key, request))


async def test_a_heartbeat_needs_describe_on_each_topic_and_is_refused_as_a_whole() -> None:
    async with a_guarded_broker() as broker:
        allow(broker, Kind.GROUP, GROUP, Op.READ)
        allow(broker, Kind.TOPIC, "open", Op.DESCRIBE)
        refused = await asked(broker, ApiKey.SHARE_GROUP_HEARTBEAT, heartbeat_of("open", "shut"))
        assert refused.error_code == NO_TOPIC
        (group,) = (await asked(broker, ApiKey.SHARE_GROUP_DESCRIBE, description())).groups
        assert group.error_code == NOT_THERE, "it has not joined"
        joined = await asked(broker, ApiKey.SHARE_GROUP_HEARTBEAT, heartbeat_of("open"))
        assert joined.error_code == 0
        assert joined.member_epoch > 0


async def test_a_share_group_with_a_topic_that_may_not_be_described_is_not_described() -> None:
    async with a_guarded_broker() as broker:
        await joined_by_root(broker)
        allow(broker, Kind.GROUP, GROUP, Op.DESCRIBE)
        allow(broker, Kind.TOPIC, "open", Op.DESCRIBE)
        (group,) = (await asked(broker, ApiKey.SHARE_GROUP_DESCRIBE, description())).groups
        assert (group.error_code, group.group_id, group.members) == (NO_TOPIC, GROUP, [])
        allow(broker, Kind.TOPIC, "shut", Op.DESCRIBE)
        (group,) = (await asked(broker, ApiKey.SHARE_GROUP_DESCRIBE, description())).groups
        assert (group.error_code, [member.member_id for member in group.members]) == (0, [MEMBER])


async def joined_by_root(broker: UnitBroker) -> None:
    """A member of another peer has both topics, and their states are initialized."""
    epoch = 0
    for _ in range(5):
        answer = await as_root(broker, ApiKey.SHARE_GROUP_HEARTBEAT, heartbeat_of(*TOPICS, epoch=epoch))
        assert answer.error_code == 0
        epoch = answer.member_epoch
        await broker.run_round()
        broker.clock.ms += ASSIGNMENT_INTERVAL_MS
        broker.timers.fire()


async def test_a_share_session_answers_for_topics_that_may_not_be_read_and_serves_the_others() -> None:
    async with a_guarded_broker() as broker:
        await joined_by_root(broker)
        allow(broker, Kind.GROUP, GROUP, Op.READ)
        allow(broker, Kind.TOPIC, "open", Op.READ)
        opened = await asked(broker, ApiKey.SHARE_FETCH, fetch_of(*TOPICS))
        assert by_name(opened.responses)["shut"] == NO_TOPIC
        allow(broker, Kind.TOPIC, "open", Op.WRITE)
        following = await asked(broker, ApiKey.SHARE_FETCH, fetch_of(epoch=1))
        assert (following.error_code, by_name(following.responses).get("open")) == (0, NO_TOPIC)
        allow(broker, Kind.TOPIC, "open", Op.READ)
        following = await asked(broker, ApiKey.SHARE_FETCH, fetch_of(epoch=2))
        assert by_name(following.responses).get("open", 0) == 0


async def test_a_topic_that_becomes_known_while_a_fetch_waits_is_not_read_by_it() -> None:
    """The request's rule did not see its name, and a right to read `open` is none to read every new topic."""
    async with a_guarded_broker() as broker:
        await joined_by_root(broker)
        allow(broker, Kind.GROUP, GROUP, Op.READ)
        allow(broker, Kind.TOPIC, "open", Op.READ)
        request = fetch_of("open", "late")
        request.max_wait_ms = 500
        pending = broker.serve(ApiKey.SHARE_FETCH, 2, request)
        assert isinstance(pending, DelayedResponse)
        await broker.lead("late")
        broker.timers.fire()
        rows = {topic.topic_id: topic.partitions[0] for topic in answer_of(pending, ApiKey.SHARE_FETCH, 2).responses}
        assert rows[topic_id_of("late")].error_code == ErrorCode.UNKNOWN_TOPIC_ID
        assert rows[topic_id_of("open")].error_code == 0
        following = await asked(broker, ApiKey.SHARE_FETCH, fetch_of(epoch=1))
        assert NO_TOPIC in codes(following), "the next one is checked by name"


async def test_an_acknowledgement_of_a_topic_that_may_not_be_read_is_refused_by_itself() -> None:
    async with a_guarded_broker() as broker:
        await joined_by_root(broker)
        allow(broker, Kind.GROUP, GROUP, Op.READ)
        for topic in TOPICS:
            allow(broker, Kind.TOPIC, topic, Op.READ)
        assert (await asked(broker, ApiKey.SHARE_FETCH, fetch_of(*TOPICS))).error_code == 0
        allow(broker, Kind.TOPIC, "shut", Op.DESCRIBE)
        answer = await asked(broker, ApiKey.SHARE_ACKNOWLEDGE, acknowledge_of(*TOPICS, epoch=1))
        assert answer.error_code == 0
        assert by_name(answer.responses) == {"open": ErrorCode.INVALID_RECORD_STATE, "shut": NO_TOPIC}


async def test_offsets_of_topics_that_may_not_be_described_are_refused_or_left_out_of_all() -> None:
    async with a_guarded_broker() as broker:
        await joined_by_root(broker)
        allow(broker, Kind.GROUP, GROUP, Op.DESCRIBE)
        allow(broker, Kind.TOPIC, "open", Op.DESCRIBE)
        (group,) = (await asked(broker, ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, offsets_of(*TOPICS))).groups
        assert (group.error_code, by_name(group.topics)) == (0, {"open": 0, "shut": NO_TOPIC})
        (group,) = (await asked(broker, ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, offsets_of())).groups
        assert by_name(group.topics) == {"open": 0}


@pytest.mark.parametrize(
    ("key", "request_", "operation"),
    [
        (ApiKey.ALTER_SHARE_GROUP_OFFSETS, alteration_of(*TOPICS), Op.READ),
        (ApiKey.DELETE_SHARE_GROUP_OFFSETS, deletion_of(*TOPICS), Op.DELETE),
    ],
    ids=["alter", "delete"],
)
async def test_offsets_are_changed_of_topics_that_may_be_read(
    key: ApiKey, request_: Any, operation: AclOperation
) -> None:
    async with a_guarded_broker() as broker:
        await as_root(broker, ApiKey.ALTER_SHARE_GROUP_OFFSETS, alteration_of(*TOPICS))
        allow(broker, Kind.GROUP, GROUP, operation)
        allow(broker, Kind.TOPIC, "open", Op.READ)
        allow(broker, Kind.TOPIC, "shut", Op.DESCRIBE)
        answer = await asked(broker, key, request_)
        assert (answer.error_code, by_name(answer.responses)) == (0, {"open": 0, "shut": NO_TOPIC})
        (group,) = (await as_root(broker, ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, offsets_of())).groups
        assert "shut" in by_name(group.topics)


async def test_records_in_flight_are_those_of_topics_that_may_be_described() -> None:
    async with a_guarded_broker() as broker:
        allow(broker, Kind.GROUP, GROUP, Op.DESCRIBE)
        allow(broker, Kind.TOPIC, "open", Op.DESCRIBE)
        answer = await asked(broker, ApiKey.DESCRIBE_SHARE_IN_FLIGHT, in_flight_of(*TOPICS))
        assert by_name(answer.topics) == {"open": 0, "shut": NO_TOPIC}
