"""aiokafka with partitions assigned by hand; its record codec is compiled, and its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from tests.compat.sent import CODECS, START_MS, Sent, records
from tests.outside.processes import BrokerProcess

MakeTopic = Callable[..., str]


@asynccontextmanager
async def started(client: Any) -> AsyncIterator[Any]:
    await client.start()
    try:
        yield client
    finally:
        await (client.close() if isinstance(client, AIOKafkaAdminClient) else client.stop())


async def read(consumer: AIOKafkaConsumer, count: int) -> list[Any]:
    async with asyncio.timeout(20):
        return [await consumer.getone() for _ in range(count)]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("idempotent", [True, False])
async def test_what_is_produced_is_consumed_unchanged(
    bootstrap: str, make_topic: MakeTopic, codec: str, *, idempotent: bool
) -> None:
    topic, sent = make_topic(), records(300)
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap,
        compression_type=None if codec == "none" else codec,
        enable_idempotence=idempotent,
        linger_ms=20,
    )
    async with started(producer):
        futures = [
            await producer.send(
                topic,
                record.value,
                record.key,
                partition=0,
                timestamp_ms=record.timestamp_ms,
                headers=record.headers,
            )
            for record in sent
        ]
        async with asyncio.timeout(20):
            offsets = [(await future).offset for future in futures]
    assert offsets == list(range(300))
    async with started(AIOKafkaConsumer(bootstrap_servers=bootstrap)) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek(TopicPartition(topic, 0), 0)
        got = await read(consumer, 300)
    assert [record.offset for record in got] == offsets
    assert [Sent(record.key, record.value, record.timestamp, list(record.headers)) for record in got] == sent


async def test_several_partitions_are_read_over_one_connection(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=5)
    async with started(AIOKafkaProducer(bootstrap_servers=bootstrap)) as producer:
        for number in range(100):
            await producer.send(topic, b"%d" % number, partition=number % 5)
        await producer.flush()
    async with started(AIOKafkaConsumer(bootstrap_servers=bootstrap)) as consumer:
        partitions = [TopicPartition(topic, partition) for partition in range(5)]
        consumer.assign(partitions)
        await consumer.seek_to_beginning(*partitions)
        got = await read(consumer, 100)
    assert sorted(int(record.value) for record in got) == list(range(100))


async def test_offsets_are_found_by_time_and_read_from(bootstrap: str, make_topic: MakeTopic) -> None:
    partition = TopicPartition(make_topic(), 0)
    async with started(AIOKafkaProducer(bootstrap_servers=bootstrap)) as producer:
        for number in range(30):
            await producer.send(partition.topic, b"%d" % number, partition=0, timestamp_ms=START_MS + number)
        await producer.flush()
    async with started(AIOKafkaConsumer(bootstrap_servers=bootstrap)) as consumer:
        consumer.assign([partition])
        found = await consumer.offsets_for_times({partition: START_MS + 17})
        assert found[partition].offset == 17
        consumer.seek(partition, found[partition].offset)
        assert [record.value for record in await read(consumer, 2)] == [b"17", b"18"]
        assert await consumer.end_offsets([partition]) == {partition: 30}
        assert await consumer.beginning_offsets([partition]) == {partition: 0}


async def test_topics_are_created_listed_and_deleted(bootstrap: str, topic: str) -> None:
    async with started(AIOKafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        await admin.create_topics([NewTopic(topic, num_partitions=2, replication_factor=1)])
        assert topic in await admin.list_topics()
        (described,) = await admin.describe_topics([topic])
        assert len(described["partitions"]) == 2
        await admin.delete_topics([topic])


async def test_a_client_works_on_after_the_broker_restarted(own_broker: BrokerProcess, topic: str) -> None:
    partition = TopicPartition(topic, 0)
    address = own_broker.bootstrap
    async with (
        started(AIOKafkaProducer(bootstrap_servers=address, enable_idempotence=True)) as producer,
        started(AIOKafkaConsumer(bootstrap_servers=address)) as consumer,
    ):
        await producer.send_and_wait(topic, b"before", partition=0)
        consumer.assign([partition])
        await consumer.seek_to_beginning(partition)
        assert [record.value for record in await read(consumer, 1)] == [b"before"]
        await asyncio.to_thread(own_broker.restart)
        async with asyncio.timeout(30):
            assert (await producer.send_and_wait(topic, b"after", partition=0)).offset == 1
        assert [record.value for record in await read(consumer, 1)] == [b"after"]
