"""Before the first metadata of a controller, requests that describe the cluster wait for it."""

from __future__ import annotations

from typing import Any

import pytest

from sordini.broker.groups.offsets_topic import OFFSETS_TOPIC
from sordini.broker.network.ports import DelayedResponse
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.describe_cluster import DescribeClusterRequest
from sordini.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from sordini.protocol.messages.find_coordinator import FindCoordinatorRequest
from sordini.protocol.messages.heartbeat import HeartbeatRequest
from sordini.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from sordini.replication.metadata_store import paths
from tests.support.unit_broker import ME, UnitBroker, a_broker, answer_of

TOPIC = "orders"
ONE_PARTITION = {"offsets.topic.num.partitions": "1"}
OF_GROUPS = FindCoordinatorRequest(coordinator_keys=["g"])
OF_TOPIC = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])
DESCRIPTIONS = [
    (ApiKey.METADATA, 12, OF_TOPIC),
    (ApiKey.FIND_COORDINATOR, 4, OF_GROUPS),
    (ApiKey.DESCRIBE_CLUSTER, 1, DescribeClusterRequest()),
    (ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, DescribeTopicPartitionsRequest(topics=[TopicRequest(name=TOPIC)])),
]


def delayed(broker: UnitBroker, key: ApiKey, version: int, request: Any) -> DelayedResponse:
    """The response to a request that must not be answered yet."""
    pending = broker.serve(key, version, request)
    assert isinstance(pending, DelayedResponse)
    broker.parts.dispatcher.slices.run_slice()
    assert not pending.is_answered
    return pending


@pytest.mark.parametrize(("key", "version", "request_"), DESCRIPTIONS, ids=[row[0].name for row in DESCRIPTIONS])
async def test_a_request_that_describes_the_cluster_is_answered_by_the_first_metadata(
    key: ApiKey, version: int, request_: Any
) -> None:
    async with a_broker(ONE_PARTITION) as broker:
        broker.parts.first_metadata.start_waiting()
        pending = delayed(broker, key, version, request_)
        await broker.lead(TOPIC)
        await broker.lead(OFFSETS_TOPIC)
        assert not pending.is_answered, "the metadata is received in two commands"
        broker.parts.first_metadata.finish()
        await broker.settled()
        answer = answer_of(pending, key, version)
        assert answer == broker.ask(key, version, request_)
        assert codes(answer) == {ErrorCode.NONE}


def codes(answer: Any) -> set[int]:
    rows = getattr(answer, "topics", None) or getattr(answer, "coordinators", None) or [answer]
    return {row.error_code for row in rows}


async def test_no_topic_is_created_for_a_coordinator_that_is_requested_before_the_first_metadata() -> None:
    async with a_broker(ONE_PARTITION) as broker:
        broker.parts.first_metadata.start_waiting()
        broker.parts.metadata.set_brokers(ME, [])  # None is known at the start.
        pending = delayed(broker, ApiKey.FIND_COORDINATOR, 4, OF_GROUPS)
        await broker.settled()
        assert await broker.session.exists(paths.topic(OFFSETS_TOPIC)) is None
        await broker.lead(OFFSETS_TOPIC)
        broker.parts.first_metadata.finish()
        await broker.settled()
        assert answer_of(pending, ApiKey.FIND_COORDINATOR, 4).coordinators[0].node_id == ME
        assert not broker.log.at("warning")


async def test_a_coordinator_whose_topic_is_in_no_metadata_is_answered_when_that_is_created() -> None:
    async with a_broker(ONE_PARTITION) as broker:
        broker.parts.first_metadata.start_waiting()
        pending = delayed(broker, ApiKey.FIND_COORDINATOR, 4, OF_GROUPS)
        broker.parts.first_metadata.finish()
        while await broker.session.exists(paths.topic(OFFSETS_TOPIC)) is None:
            await broker.run_round()
        assert not pending.is_answered
        await broker.lead(OFFSETS_TOPIC)
        await broker.settled()
        assert answer_of(pending, ApiKey.FIND_COORDINATOR, 4).coordinators[0].node_id == ME


async def test_requests_of_a_groups_member_are_answered_before_the_first_metadata() -> None:
    async with a_broker(ONE_PARTITION) as broker:
        broker.parts.first_metadata.start_waiting()
        answer = broker.ask(ApiKey.HEARTBEAT, 4, HeartbeatRequest(group_id="g", member_id="m"))
        assert answer.error_code in {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE}


async def test_a_delayed_request_whose_connection_closes_is_not_served() -> None:
    async with a_broker({"auto.create.topics.enable": "true"}) as broker:
        broker.parts.first_metadata.start_waiting()
        gone = delayed(broker, ApiKey.METADATA, 12, OF_TOPIC)
        gone.abandon()
        broker.parts.first_metadata.finish()
        await broker.settled()
        assert not gone.is_answered
        assert await broker.session.exists(paths.topic(TOPIC)) is None


async def test_nothing_is_delayed_once_the_metadata_was_awaited_or_is_not_awaited_at_all() -> None:
    async with a_broker() as broker:
        await broker.lead(TOPIC)
        for _ in range(2):
            assert {row.node_id for row in broker.ask(ApiKey.METADATA, 12, OF_TOPIC).brokers} == {ME}
            broker.parts.first_metadata.start_waiting()
            broker.parts.first_metadata.finish()
