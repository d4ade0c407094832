"""Consume, transform, produce: each record of the source is in the sink once, whatever was aborted on the way.

One program for each client library. It reads the source in pieces; for each piece it sends the results and the offsets
in one transaction. Every second piece is aborted once, after all was sent, and read again from the committed offsets.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.structs import TopicPartition as AioTopicPartition
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.compat.groups.waiting import eventually
from tests.outside.processes import DevProcess
from tests.outside.tools import JavaTools

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
    from kafka import TopicPartition as PyTopicPartition
    from kafka.structs import OffsetAndMetadata

RECORDS = 24
PIECE = 6
PARTITION = 0


@pytest.fixture
def source_and_sink(bootstrap: str, admin: KafkaAdminClient, topic: str) -> tuple[str, str]:
    return fill(bootstrap, admin, topic)


def fill(bootstrap: str, admin: KafkaAdminClient, name: str, replicas: int = 1) -> tuple[str, str]:
    """The source has its records, the sink is empty."""
    source, sink = f"{name}-source", f"{name}-sink"
    shape = {"num_partitions": 1, "replication_factor": replicas, "configs": {}}
    admin.create_topics({source: shape, sink: shape}, wait_for_metadata=True)
    with closing(KafkaProducer(bootstrap_servers=bootstrap)) as producer:
        for number in range(RECORDS):
            producer.send(source, b"%d" % number, partition=PARTITION)
        producer.flush(timeout=15)
    return source, sink


def kafka_python(bootstrap: str, source: str, sink: str) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=f"{sink}-kafka-python")
    settings = {"group_id": sink, "enable_auto_commit": False, "auto_offset_reset": "earliest"}
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, isolation_level="read_committed", **settings)
    partition = PyTopicPartition(source, PARTITION)
    consumer.subscribe([source])
    with closing(producer), closing(consumer):
        producer.init_transactions()
        done, attempts = 0, 0
        while done < RECORDS:
            piece = []
            while not piece:
                piece = consumer.poll(1_000, max_records=PIECE).get(partition, [])
            attempts += 1
            producer.begin_transaction()
            for record in piece:
                producer.send(sink, b"made of " + record.value, partition=PARTITION)
            next_offset = piece[-1].offset + 1
            offsets = {partition: OffsetAndMetadata(next_offset, "", -1)}
            producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
            if attempts % 2:
                producer.flush()
                producer.abort_transaction()
                consumer.seek(partition, consumer.committed(partition) or 0)
            else:
                producer.commit_transaction()
                done = next_offset


def confluent(bootstrap: str, source: str, sink: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"{sink}-confluent"})
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": sink,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([source])
    producer.init_transactions(30)
    try:
        done, attempts = 0, 0
        while done < RECORDS:
            piece = [message for message in consumer.consume(PIECE, 2) if message.error() is None]
            if not piece:
                continue
            attempts += 1
            producer.begin_transaction()
            for message in piece:
                producer.produce(sink, b"made of " + message.value(), partition=PARTITION)
            next_offset = piece[-1].offset() + 1
            position = TopicPartition(source, PARTITION, next_offset)
            producer.send_offsets_to_transaction([position], consumer.consumer_group_metadata(), 30)
            if attempts % 2:
                producer.flush(15)
                producer.abort_transaction(30)
                [committed] = consumer.committed([TopicPartition(source, PARTITION)], 15)
                consumer.seek(TopicPartition(source, PARTITION, max(committed.offset, 0)))
            else:
                producer.commit_transaction(30)
                done = next_offset
    finally:
        consumer.close()


def aiokafka(bootstrap: str, source: str, sink: str) -> None:
    asyncio.run(with_aiokafka(bootstrap, source, sink))


async def with_aiokafka(bootstrap: str, source: str, sink: str) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=f"{sink}-aiokafka")
    consumer = AIOKafkaConsumer(
        source,
        bootstrap_servers=bootstrap,
        group_id=sink,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    )
    partition = AioTopicPartition(source, PARTITION)
    await producer.start()
    await consumer.start()
    try:
        done, attempts = 0, 0
        while done < RECORDS:
            piece = (await consumer.getmany(timeout_ms=1_000, max_records=PIECE)).get(partition, [])
            if not piece:
                continue
            attempts += 1
            await producer.begin_transaction()
            for record in piece:
                await producer.send_and_wait(sink, b"made of " + record.value, partition=PARTITION)
            next_offset = piece[-1].offset + 1
            await producer.send_offsets_to_transaction({partition: next_offset}, sink)
            if attempts % 2:
                await producer.abort_transaction()
                consumer.seek(partition, await consumer.committed(partition) or 0)
            else:
                await producer.commit_transaction()
                done = next_offset
    finally:
        await consumer.stop()
        await producer.stop()


def read_all(bootstrap: str, sink: str, isolation: str) -> list[bytes]:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, isolation_level=isolation, auto_offset_reset="earliest")
    partition = PyTopicPartition(sink, PARTITION)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    end = consumer.end_offsets([partition])[partition]
    found: list[bytes] = []
    with closing(consumer):
        while consumer.position(partition) < end:
            found += [record.value for record in consumer.poll(1_000).get(partition, [])]
    return found


@pytest.mark.parametrize("program", [kafka_python, confluent, aiokafka], ids=lambda program: program.__name__)
def test_each_record_of_the_source_is_in_the_sink_once(
    bootstrap: str,
    admin: KafkaAdminClient,
    source_and_sink: tuple[str, str],
    program: Callable[[str, str, str], None],
) -> None:
    source, sink = source_and_sink
    program(bootstrap, source, sink)
    check(bootstrap, admin, sink)


def test_three_brokers_verify_mark_and_commit_for_one_another(tmp_path: Path, topic: str) -> None:
    """Two programs with each library, side by side: coordinators and partitions are on any of the three brokers."""

    def run(program: Callable[[str, str, str], None], name: str) -> None:
        with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
            source, sink = fill(bootstrap, admin, name, replicas=3)
            program(bootstrap, source, sink)
            check(bootstrap, admin, sink)

    with DevProcess(tmp_path / "dev", "--override", "min.insync.replicas=2") as dev:
        bootstrap = f"127.0.0.1:{dev.ports[0]}"
        programs = (kafka_python, confluent, aiokafka) * 2
        with ThreadPoolExecutor(len(programs)) as pool:
            each = [pool.submit(run, program, f"{topic}-{number}") for number, program in enumerate(programs)]
            for one in each:
                one.result()
        log = dev.output()
        assert "not verified" not in log
        assert "Traceback" not in log


def check(bootstrap: str, admin: KafkaAdminClient, sink: str) -> None:
    """The sink has each record once, and the offsets are those of the last transaction that was committed."""
    expected = [b"made of %d" % number for number in range(RECORDS)]
    eventually(lambda: read_all(bootstrap, sink, "read_committed") == expected, "the sink has each record once")
    assert len(read_all(bootstrap, sink, "read_uncommitted")) > RECORDS, "nothing was aborted"
    committed = admin.list_group_offsets([sink])
    [position] = [found.offset for found in _offsets_of(committed, sink).values()]
    assert position == RECORDS


def _offsets_of(answer: object, group: str) -> dict[object, OffsetAndMetadata]:
    """The client's answer is by group in newer versions."""
    assert isinstance(answer, dict)
    found: dict[object, OffsetAndMetadata] = answer.get(group, answer)
    return found


def test_the_java_producer_writes_in_transactions(tool: JavaTools, bootstrap: str, topic: str) -> None:
    """Produce version 11, the newest without transactions of version 2."""
    shape = ["--num-records", "5000", "--record-size", "100", "--throughput", "20000"]
    settings = [f"bootstrap.servers={bootstrap}", "acks=all"]
    transactions = ["--transactional-id", topic, "--transaction-duration-ms", "50"]
    printed = tool("ProducerPerformance", "--topic", topic, *shape, *transactions, "--producer-props", *settings)
    assert "5000 records sent" in printed
    eventually(lambda: len(read_all(bootstrap, topic, "read_committed")) == 5_000, "all transactions are committed")
