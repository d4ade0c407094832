"""A topic is deleted in use: delayed operations are answered, and what was read stays readable until sent."""

from __future__ import annotations

from typing import Any

import pytest

from sordini.broker.network.ports import DelayedResponse, Parts
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from sordini.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from sordini.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from sordini.storage.file_slice import FileSlice
from tests.support.builders import a_batch, an_idempotent_batch
from tests.support.controlled_broker import GovernedBroker, a_governed_broker
from tests.support.unit_broker import UnitBroker, answer_of, read_answer, topic_id_of

FETCH, PRODUCE = ApiKey.FETCH, ApiKey.PRODUCE
FILE_DELETE_DELAY_MS = 60_000


async def delete(whole: GovernedBroker, name: str = "orders") -> int:
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=3_600_000)
    answer = await whole.ask(ApiKey.DELETE_TOPICS, 6, request)
    await whole.settled()
    code: int = answer.responses[0].error_code
    return code


def a_fetch(offset: int, *, max_wait_ms: int = 500) -> FetchRequest:
    fetch_partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1_000_000)
    topic = FetchTopic(topic="orders", topic_id=topic_id_of("orders"), partitions=[fetch_partition])
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=1_000_000, topics=[topic])


def produced(broker: UnitBroker, batch: bytes) -> tuple[int, int]:
    data = TopicProduceData(name="orders", partition_data=[PartitionProduceData(index=0, records=batch)])
    answer = broker.ask(PRODUCE, 9, ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[data]))
    row = answer.responses[0].partition_responses[0]
    return row.error_code, row.base_offset


@pytest.mark.parametrize("version", [11, 13])
async def test_a_delayed_fetch_is_answered_when_its_topic_is_deleted(version: int) -> None:
    async with a_governed_broker() as whole:
        await whole.make("orders")
        waiting = whole.broker.serve(FETCH, version, a_fetch(0))
        assert isinstance(waiting, DelayedResponse)
        assert not waiting.is_answered
        assert await delete(whole) == 0
        (row,) = answer_of(waiting, FETCH, version).responses[0].partitions
        assert row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert whole.broker.timers.waiting == [], "and its time is never up"


def slices_of(parts: Any) -> list[FileSlice]:
    return [part for part in parts if isinstance(part, FileSlice)]


async def test_records_on_their_way_to_a_consumer_arrive_though_their_topic_is_gone_and_then_let_go_of_it() -> None:
    async with a_governed_broker() as whole:
        broker = whole.broker
        await whole.make("orders")
        before = broker.disk.open_files
        produced(broker, a_batch())
        parts: Parts | DelayedResponse | None = broker.serve(FETCH, 11, a_fetch(0))
        assert isinstance(parts, list)
        assert len(slices_of(parts)) == 1
        assert await delete(whole) == 0
        await broker.logs.tick(broker.clock.now_ms())
        await broker.logs.tick(broker.clock.now_ms() + FILE_DELETE_DELAY_MS)
        assert not any("orders" in path for path in broker.disk.tree()), "no name of it is left"
        (row,) = read_answer(FETCH, 11, parts).responses[0].partitions
        assert bytes(row.records)[61:] == a_batch()[61:]
        assert broker.disk.open_files < before, "the last reader closed the file"


async def test_a_fetch_that_waits_for_two_topics_gives_what_the_other_one_has() -> None:
    async with a_governed_broker() as whole:
        await whole.make("orders")
        await whole.make("bills")
        request = a_fetch(0)
        request.topics.append(
            FetchTopic(topic="bills", partitions=[FetchPartition(partition=0, partition_max_bytes=1_000_000)])
        )
        waiting = whole.broker.serve(FETCH, 11, request)
        assert isinstance(waiting, DelayedResponse)
        assert await delete(whole, "bills") == 0
        answer = answer_of(waiting, FETCH, 11)
        codes = {topic.topic: topic.partitions[0].error_code for topic in answer.responses}
        assert codes == {"orders": 0, "bills": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert not whole.broker.parts.replicas.partition("orders", 0).purgatory


async def test_a_producer_gets_an_error_for_a_deleted_topic_and_may_produce_to_a_new_one() -> None:
    async with a_governed_broker() as whole:
        await whole.make("orders")
        assert produced(whole.broker, an_idempotent_batch(sequence=0)) == (0, 0)
        assert await delete(whole) == 0
        assert produced(whole.broker, an_idempotent_batch(sequence=3))[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await whole.make("orders")
        assert produced(whole.broker, an_idempotent_batch(sequence=0)) == (0, 0), "nothing of the old one is known"


async def test_a_topic_that_is_deleted_is_gone_from_the_store_with_its_partitions_and_its_settings() -> None:
    async with a_governed_broker() as whole:
        await whole.make("orders", (1,), (1,), retention_ms="5")
        assert await delete(whole) == 0
        session = whole.broker.session
        assert await session.children("/brokers/topics") == []
        assert await session.children("/config/topics") == []
        assert await session.children("/admin/delete_topics") == []
        assert await delete(whole) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
