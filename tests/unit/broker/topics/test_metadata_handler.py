"""Metadata: built from the cache, cached as bytes, and auto-creation of topics."""

from __future__ import annotations

import pytest

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from sordini.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from sordini.protocol.types import NO_TOPIC_ID, BrokerId
from tests.support.unit_broker import ADDRESS, ME, UnitBroker, a_broker, a_peer, topic_id_of

METADATA = ApiKey.METADATA


def of(*names: str, **fields: object) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names], **fields)


def topics_of(answer: MetadataResponse) -> list[tuple[str | None, int]]:
    return [(topic.name, topic.error_code) for topic in answer.topics]


def kept(broker: UnitBroker) -> int:
    return len(broker.parts.metadata._responses)


NOT_THERE = 9
"""A broker that is not live."""


@pytest.mark.parametrize("version", range(14))
async def test_brokers_topics_and_leaders_are_in_every_version(version: int) -> None:
    async with a_broker() as broker:
        await broker.lead("orders", 2, epoch=3)
        answer = broker.ask(METADATA, version, of("orders"))
        assert [(row.node_id, row.host, row.port) for row in answer.brokers] == [(ME, *ADDRESS)]
        assert topics_of(answer) == [("orders", 0)]
        found = [(row.partition_index, row.leader_id, row.replica_nodes) for row in answer.topics[0].partitions]
        assert found == [(0, ME, [ME]), (1, ME, [ME])]


async def test_all_topics_are_a_null_list_and_in_version_0_an_empty_one() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        await broker.lead("bills")
        for version, request in ((0, of()), (1, MetadataRequest(topics=None)), (12, MetadataRequest(topics=None))):
            assert topics_of(broker.ask(METADATA, version, request)) == [("orders", 0), ("bills", 0)]
        assert topics_of(broker.ask(METADATA, 1, of())) == []


async def test_a_response_is_built_once_until_a_change() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        first = broker.serve(METADATA, 12, of("orders"))
        assert kept(broker) == 1
        assert broker.serve(METADATA, 12, of("orders")) == first
        await broker.lead("orders", epoch=1)
        assert kept(broker) == 0
        assert broker.ask(METADATA, 12, of("orders")).topics[0].partitions[0].leader_epoch == 1


async def test_responses_differ_by_version_listener_and_requested_topics() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        for version in (9, 12):
            broker.ask(METADATA, version, of("orders"))
            broker.ask(METADATA, version, of("orders", include_topic_authorized_operations=True))
        assert kept(broker) == 4
        broker.peer = a_peer("ELSEWHERE")
        answer = broker.ask(METADATA, 12, of("orders"))
        assert answer.brokers == [], "no broker is reached through that listener"


async def test_a_topic_named_a_thousand_times_is_answered_once_and_cached_under_a_short_key() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        assert topics_of(broker.ask(METADATA, 12, of(*["orders"] * 1_000))) == [("orders", 0)]
        (key,) = broker.parts.metadata._responses
        assert len(key[2]) == 1


async def test_an_unknown_topic_is_auto_created_if_enabled_and_its_response_is_not_cached() -> None:
    async with a_broker() as broker:
        answer = broker.ask(METADATA, 12, of("orders", allow_auto_topic_creation=True))
        assert topics_of(answer) == [("orders", ErrorCode.LEADER_NOT_AVAILABLE)]
        assert kept(broker) == 0
        assert topics_of(broker.ask(METADATA, 3, of("bills")))[0][1] != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for task in broker.tasks:
            task.cancel()


async def test_an_unknown_topic_is_not_created_for_a_client_that_forbids_it() -> None:
    async with a_broker() as broker:
        answer = broker.ask(METADATA, 12, of("orders", "../x", "", "a\nb", allow_auto_topic_creation=False))
        unknown, invalid = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION
        assert [code for _, code in topics_of(answer)] == [unknown, invalid, invalid, invalid]
        assert not broker.tasks


async def test_by_id_a_topic_is_known_or_not() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        wanted = [MetadataRequestTopic(name=None, topic_id=topic_id_of(name)) for name in ("orders", "nothing")]
        answer = broker.ask(METADATA, 12, MetadataRequest(topics=wanted))
        assert topics_of(answer) == [("orders", 0), (None, ErrorCode.UNKNOWN_TOPIC_ID)]


async def test_requests_by_id_before_version_12_and_without_name_or_id_are_rejected() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        for version, topic in (
            (10, MetadataRequestTopic(name=None, topic_id=topic_id_of("orders"))),
            (12, MetadataRequestTopic(name=None)),
        ):
            answer = broker.ask(METADATA, version, MetadataRequest(topics=[topic]))
            assert [code for _, code in topics_of(answer)] == [ErrorCode.INVALID_REQUEST]


async def test_a_partition_without_a_leader_is_reported_as_such() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        known = broker.parts.metadata.topics["orders"]
        known.partitions[0] = known.partitions[0]._replace(leader=-1)
        (row,) = broker.ask(METADATA, 12, of("orders")).topics[0].partitions
        assert (row.error_code, row.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)


async def test_no_topic_is_created_or_reported_as_unknown_before_the_first_metadata() -> None:
    async with a_broker({"auto.create.topics.enable": "true"}) as broker:
        broker.parts.metadata.awaits_first_topics = True
        (row,) = broker.ask(METADATA, 12, of("orders")).topics
        assert row.error_code == ErrorCode.LEADER_NOT_AVAILABLE
        assert await broker.session.exists("/brokers/topics/orders") is None


async def test_a_leader_that_is_not_among_the_brokers_of_the_response_is_not_reported() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        broker.parts.metadata.set_brokers(ME, [])
        (row,) = broker.ask(METADATA, 12, of("orders")).topics[0].partitions
        assert (row.error_code, row.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)


@pytest.mark.parametrize(
    ("version", "code", "replicas"), [(0, ErrorCode.REPLICA_NOT_AVAILABLE, [ME]), (1, ErrorCode.NONE, [ME, NOT_THERE])]
)
async def test_version_0_names_only_replicas_that_are_among_the_brokers_of_the_response(
    version: int, code: ErrorCode, replicas: list[int]
) -> None:
    async with a_broker() as broker:
        await broker.lead("orders", isr=(ME, BrokerId(NOT_THERE)))
        (row,) = broker.ask(METADATA, version, of("orders")).topics[0].partitions
        assert (row.error_code, row.leader_id) == (code, ME)
        assert (row.replica_nodes, row.isr_nodes) == (replicas, replicas)


async def test_in_version_0_a_partition_without_a_leader_is_reported_as_such_whichever_replicas_are_there() -> None:
    async with a_broker() as broker:
        await broker.lead("orders", isr=(ME, BrokerId(NOT_THERE)))
        known = broker.parts.metadata.topics["orders"]
        known.partitions[0] = known.partitions[0]._replace(leader=BrokerId(NOT_THERE))
        (row,) = broker.ask(METADATA, 0, of("orders")).topics[0].partitions
        assert (row.error_code, row.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
        assert row.replica_nodes == [ME]


@pytest.mark.parametrize(("version", "code"), [(5, ErrorCode.LEADER_NOT_AVAILABLE), (6, ErrorCode.LISTENER_NOT_FOUND)])
async def test_a_leader_without_the_clients_listener_is_not_reported(version: int, code: ErrorCode) -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        broker.peer = a_peer("ELSEWHERE")
        (row,) = broker.ask(METADATA, version, of("orders")).topics[0].partitions
        assert (row.error_code, row.leader_id) == (code, -1)


@pytest.mark.parametrize(("protocol", "has_ids"), [("2.7", False), ("2.8-IV0", True), ("3.9", True)])
async def test_topics_have_ids_from_protocol_2_8_on(protocol: str, *, has_ids: bool) -> None:
    async with a_broker({"inter.broker.protocol.version": protocol}) as broker:
        await broker.lead("orders")
        (topic,) = broker.ask(METADATA, 12, of("orders")).topics
        assert topic.topic_id == (topic_id_of("orders") if has_ids else NO_TOPIC_ID)
        unknown = MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=topic_id_of("orders"))])
        (row,) = broker.ask(METADATA, 12, unknown).topics
        assert row.error_code == (ErrorCode.NONE if has_ids else ErrorCode.UNKNOWN_TOPIC_ID)


@pytest.mark.parametrize(("protocol", "has_ids"), [("2.7", False), ("2.8-IV0", True)])
async def test_topics_are_created_with_ids_from_protocol_2_8_on(protocol: str, *, has_ids: bool) -> None:
    async with a_broker({"inter.broker.protocol.version": protocol}) as broker:
        wanted = CreatableTopic(name="orders", num_partitions=1, replication_factor=1)
        request = CreateTopicsRequest(topics=[wanted], timeout_ms=1)
        await broker.ask_later(ApiKey.CREATE_TOPICS, 7, request)
        data, _ = await broker.session.get("/brokers/topics/orders")
        assert (b'"topic_id"' in data) is has_ids
        assert (b'"version":3' in data) is has_ids
