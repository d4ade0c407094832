"""The leader that is named beside NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH, and its address (KIP-951)."""

from __future__ import annotations

from typing import Any

import pytest

from sordini.broker.network.ports import DelayedResponse
from sordini.broker.records.known_leaders import KnownLeaders
from sordini.broker.requests.call import Call, VersionedApi
from sordini.broker.topics.metadata_cache import BrokerMetadata, PartitionMetadata
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from sordini.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from sordini.protocol.types import BrokerId, LeaderEpoch
from tests.support.builders import a_batch
from tests.support.unit_broker import ME, OTHER, UnitBroker, a_broker, answer_of, topic_id_of

THIRD = BrokerId(3)
E = ErrorCode
HERE = BrokerMetadata(ME, {"PLAINTEXT": ("broker.example", 9092)}, None)
THERE = BrokerMetadata(OTHER, {"PLAINTEXT": ("other.example", 9092), "CLIENTS": ("other.example", 9094)}, "rack-2")


def a_produce(version: int, *partitions: int, topic: str = "orders", acks: int = -1) -> ProduceRequest:
    rows = [PartitionProduceData(index=index, records=memoryview(a_batch())) for index in partitions or (0,)]
    data = TopicProduceData(name=topic, topic_id=topic_id_of(topic), partition_data=rows)
    return ProduceRequest(acks=acks, timeout_ms=20_000, topic_data=[data])


def a_fetch(*partitions: int, topic: str = "orders", epoch: int = -1) -> FetchRequest:
    rows = [
        FetchPartition(partition=index, current_leader_epoch=epoch, partition_max_bytes=1_000)
        for index in partitions or (0,)
    ]
    asked = FetchTopic(topic=topic, topic_id=topic_id_of(topic), partitions=rows)
    return FetchRequest(max_wait_ms=1_000, min_bytes=1, max_bytes=1_000, topics=[asked])


def know(broker: UnitBroker, *others: BrokerMetadata) -> None:
    broker.parts.metadata.set_brokers(ME, [HERE, *others])
    broker.parts.metadata.changed()


def named(answer: Any) -> tuple[list[Any], list[Any]]:
    """The error and the leader of each row, and the addresses."""
    rows = [
        row
        for topic in answer.responses
        for row in getattr(topic, "partition_responses", getattr(topic, "partitions", []))
    ]
    leaders = [
        (row.error_code, row.current_leader and (row.current_leader.leader_id, row.current_leader.leader_epoch))
        for row in rows
    ]
    nodes = [(node.node_id, node.host, node.port, node.rack) for node in answer.node_endpoints]
    return leaders, nodes


OTHERS_NODE = (OTHER, "other.example", 9092, "rack-2")


@pytest.mark.parametrize("version", range(3, 14))
async def test_a_produce_of_a_partition_that_is_led_elsewhere_names_the_leader_from_version_10_on(version: int) -> None:
    async with a_broker() as broker:
        await broker.follow("orders", epoch=7)
        know(broker, THERE)
        leaders, nodes = named(broker.ask(ApiKey.PRODUCE, version, a_produce(version)))
        hints = version >= 10
        assert leaders == [(E.NOT_LEADER_OR_FOLLOWER, (OTHER, 7) if hints else None)]
        assert nodes == ([OTHERS_NODE] if hints else [])


@pytest.mark.parametrize("version", range(12, 19))
async def test_a_fetch_of_a_partition_that_is_led_elsewhere_names_the_leader_from_version_16_on(version: int) -> None:
    async with a_broker() as broker:
        await broker.lead("orders", epoch=7)
        know(broker, THERE)
        fenced = named(broker.ask(ApiKey.FETCH, version, a_fetch(epoch=6)))
        await broker.follow("orders", epoch=8)
        know(broker, THERE)
        behind = named(broker.ask(ApiKey.FETCH, version, a_fetch(epoch=7)))
        unknown = named(broker.ask(ApiKey.FETCH, version, a_fetch(epoch=9)))
        hints = version >= 16
        assert fenced == (
            [(E.FENCED_LEADER_EPOCH, (ME, 7) if hints else None)],
            [(ME, "broker.example", 9092, None)] if hints else [],
        )
        assert behind == ([(E.FENCED_LEADER_EPOCH, (OTHER, 8) if hints else None)], [OTHERS_NODE] if hints else [])
        assert unknown == ([(E.UNKNOWN_LEADER_EPOCH, None)], [])


async def test_a_partition_without_a_replica_here_has_the_leader_of_the_metadata() -> None:
    async with a_broker() as broker:
        for index, leader in ((0, OTHER), (1, BrokerId(-1)), (2, THIRD)):
            led = PartitionMetadata(leader, LeaderEpoch(4), (OTHER,), (OTHER,), ())
            broker.parts.metadata.set_partition("orders", topic_id_of("orders"), index, led)
        know(broker, THERE)
        leaders, nodes = named(broker.ask(ApiKey.PRODUCE, 12, a_produce(12, 0, 1, 2, 9)))
        assert leaders == [
            (E.NOT_LEADER_OR_FOLLOWER, (OTHER, 4)),
            (E.NOT_LEADER_OR_FOLLOWER, (-1, 4)),  # Without a leader, as the next, whose leader is not live.
            (E.NOT_LEADER_OR_FOLLOWER, (THIRD, 4)),
            (E.UNKNOWN_TOPIC_OR_PARTITION, None),
        ]
        assert nodes == [OTHERS_NODE]
        assert named(broker.ask(ApiKey.FETCH, 17, a_fetch(0)))[0] == [(E.NOT_LEADER_OR_FOLLOWER, (OTHER, 4))]


async def test_a_leader_is_named_once_with_the_address_of_the_listener_or_rule_by_which_the_client_came() -> None:
    async with a_broker() as broker:
        await broker.follow("orders", 3)
        know(broker, THERE)
        broker.peer.listener = broker.peer.endpoint_name = "CLIENTS"
        assert named(broker.ask(ApiKey.PRODUCE, 13, a_produce(13, 0, 1, 2)))[1] == [
            (OTHER, "other.example", 9094, "rack-2")
        ]
        broker.peer.endpoint_name = "outside"
        know(broker, THERE)
        broker.parts.metadata.set_rule_addresses({OTHER: {"outside": ("tunnel.example", 19094)}})
        assert named(broker.ask(ApiKey.PRODUCE, 12, a_produce(12)))[1] == [(OTHER, "tunnel.example", 19094, "rack-2")]
        broker.peer.listener = broker.peer.endpoint_name = "INTERNAL"
        leaders, nodes = named(broker.ask(ApiKey.PRODUCE, 12, a_produce(12)))
        assert (leaders, nodes) == ([(E.NOT_LEADER_OR_FOLLOWER, (OTHER, 0))], []), "it is not reached by that listener"


@pytest.mark.parametrize("partitions", [(0,), (0, 1)])
@pytest.mark.parametrize("version", [9, 10, 13])
async def test_a_produce_that_waits_for_followers_when_the_leader_changes_is_answered_with_the_new_one(
    version: int, partitions: tuple[int, ...]
) -> None:
    """In the general way, and in the prepared one, which has learned the request then."""
    async with a_broker() as broker:
        await broker.lead("orders", 2, isr=(ME, OTHER), epoch=1)
        pending = [broker.serve(ApiKey.PRODUCE, version, a_produce(version, *partitions)) for _ in range(2)]
        assert bool(broker.parts.dispatcher.prepared.by_prefix) == (len(partitions) == 1)
        know(broker, THERE)
        await broker.follow("orders", 2, epoch=2)
        hint = (OTHER, 2) if version >= 10 else None
        for one in pending:
            assert isinstance(one, DelayedResponse)
            leaders, nodes = named(answer_of(one, ApiKey.PRODUCE, version))
            assert leaders == [(E.NOT_LEADER_OR_FOLLOWER, hint)] * len(partitions)
            assert nodes == ([OTHERS_NODE] if hint else [])


async def test_a_produce_that_times_out_names_no_leader() -> None:
    async with a_broker() as broker:
        await broker.lead("orders", isr=(ME, OTHER))
        know(broker, THERE)
        pending = [broker.serve(ApiKey.PRODUCE, 12, a_produce(12)) for _ in range(2)]
        broker.timers.fire()
        for one in pending:
            assert isinstance(one, DelayedResponse)
            assert named(answer_of(one, ApiKey.PRODUCE, 12)) == ([(E.REQUEST_TIMED_OUT, None)], [])


async def test_a_fetch_that_waits_when_the_leader_changes_is_answered_with_the_new_one() -> None:
    async with a_broker() as broker:
        await broker.lead("orders", epoch=1)
        pending = [broker.serve(ApiKey.FETCH, 17, a_fetch()) for _ in range(2)]
        know(broker, THERE)
        await broker.follow("orders", epoch=2)
        for one in pending:
            assert isinstance(one, DelayedResponse)
            leaders, nodes = named(answer_of(one, ApiKey.FETCH, 17))
            assert (leaders, nodes) == ([(E.NOT_LEADER_OR_FOLLOWER, (OTHER, 2))], [OTHERS_NODE])


async def test_rows_that_were_refused_before_the_handler_are_still_added() -> None:
    async with a_broker() as broker:
        await broker.follow("orders", epoch=3)
        know(broker, THERE)
        dispatcher = broker.parts.dispatcher
        broker.ask(ApiKey.PRODUCE, 12, a_produce(12))
        (api,) = [one for one in dispatcher.versioned_apis if one.api.key is ApiKey.PRODUCE]
        assert isinstance(api, VersionedApi)
        call = Call(api, broker.peer, 77, "test", None)
        denied = TopicProduceResponse(
            name="secret",
            partition_responses=[PartitionProduceResponse(index=0, error_code=E.TOPIC_AUTHORIZATION_FAILED)],
        )

        def with_denied(response: ProduceResponse) -> ProduceResponse:
            response.responses.append(denied)
            return response

        call.amend = with_denied
        KnownLeaders(broker.parts.replicas, broker.parts.metadata).name_in_produce(call)
        row = PartitionProduceResponse(index=0, error_code=E.NOT_LEADER_OR_FOLLOWER)
        answer = call.amend(ProduceResponse(responses=[TopicProduceResponse(name="orders", partition_responses=[row])]))
        assert named(answer) == (
            [(E.NOT_LEADER_OR_FOLLOWER, (OTHER, 3)), (E.TOPIC_AUTHORIZATION_FAILED, None)],
            [OTHERS_NODE],
        )
