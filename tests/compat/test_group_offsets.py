"""Committed offsets: read back by another consumer, kept through restarts and kills of the broker."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import closing
from itertools import islice
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import Consumer
from confluent_kafka import KafkaError as RdError
from confluent_kafka import TopicPartition as RdPartition
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from tests.compat.groups.waiting import eventually
from tests.outside.processes import BrokerProcess

MakeTopic = Callable[..., str]


def fill(bootstrap: str, topic: str, start: int, end: int) -> None:
    """The numbers start ... end - 1 as values in partition 0."""
    with closing(KafkaProducer(bootstrap_servers=bootstrap)) as producer:
        for number in range(start, end):
            producer.send(topic, b"%d" % number, partition=0)
        producer.flush(timeout=15)


def python_consumer(bootstrap: str, topic: str, **settings: Any) -> KafkaConsumer:
    common = {"group_id": f"group-{topic}", "auto_offset_reset": "earliest", "enable_auto_commit": False}
    common |= {"consumer_timeout_ms": 15_000}
    consumer = KafkaConsumer(topic, bootstrap_servers=bootstrap, **{**common, **settings})
    consumer.topics()  # A member that knows no partitions when it leads its first generation forgets about them.
    return consumer


def python_values(consumer: KafkaConsumer, count: int) -> list[int]:
    return [int(record.value) for record in islice(consumer, count)]


def rd_consumer(bootstrap: str, topic: str, **settings: Any) -> Consumer:
    common = {"group.id": f"group-{topic}", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": bootstrap, "reconnect.backoff.max.ms": 200, **common, **settings})
    consumer.subscribe([topic])
    return consumer


def rd_values(consumer: Consumer, count: int) -> list[int]:
    got: list[int] = []

    def has_all() -> bool:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            got.append(int(message.value() or b""))
        return len(got) == count

    eventually(has_all, f"{count} records arrive")
    return got


def aio_consumer(bootstrap: str, topic: str, **settings: Any) -> AIOKafkaConsumer:
    common = {"group_id": f"group-{topic}", "auto_offset_reset": "earliest", "enable_auto_commit": False}
    return AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, **{**common, **settings})


async def aio_values(consumer: AIOKafkaConsumer, count: int) -> list[int]:
    async with asyncio.timeout(20):
        return [int((await consumer.getone()).value) for _ in range(count)]


def test_kafka_python_goes_on_where_its_group_had_committed(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    partition = TopicPartition(topic, 0)
    fill(bootstrap, topic, 0, 20)
    with closing(python_consumer(bootstrap, topic)) as consumer:
        assert python_values(consumer, 5) == [0, 1, 2, 3, 4]
        consumer.commit()
        assert python_values(consumer, 5) == [5, 6, 7, 8, 9]  # Read, never committed.
    with closing(python_consumer(bootstrap, topic)) as consumer:
        assert python_values(consumer, 3) == [5, 6, 7]
        assert consumer.committed(partition) == 5
        consumer.seek(partition, 15)
        assert python_values(consumer, 2) == [15, 16]
        consumer.commit({partition: OffsetAndMetadata(17, "seen by kafka-python", -1)})
        assert consumer.committed(partition, metadata=True)[:2] == (17, "seen by kafka-python")
        assert consumer.end_offsets([partition])[partition] - consumer.committed(partition) == 3
        assert consumer.highwater(partition) - consumer.position(partition) == 3
    with closing(python_consumer(bootstrap, topic)) as consumer:
        assert python_values(consumer, 3) == [17, 18, 19]


def test_kafka_python_commits_beside_its_reading(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    partition = TopicPartition(topic, 0)
    fill(bootstrap, topic, 0, 10)
    answers: list[Any] = []
    with closing(python_consumer(bootstrap, topic)) as consumer:
        assert python_values(consumer, 4) == [0, 1, 2, 3]
        consumer.commit_async({partition: OffsetAndMetadata(4, "", -1)}, lambda *answer: answers.append(answer))
        eventually(lambda: bool(consumer.poll(timeout_ms=50)) or bool(answers), "the commit is answered")
        eventually(lambda: len(answers) == 1 or bool(consumer.poll(timeout_ms=50)), "the commit is answered")
        assert not isinstance(answers[0][1], Exception)
        assert consumer.committed(partition) == 4
    # The library commits by itself if it is configured so: at the latest when it closes.
    with closing(python_consumer(bootstrap, topic, enable_auto_commit=True)) as consumer:
        assert python_values(consumer, 6) == [4, 5, 6, 7, 8, 9]
    with closing(KafkaConsumer(bootstrap_servers=bootstrap, group_id=f"group-{topic}")) as consumer:
        assert consumer.committed(partition) == 10


async def test_aiokafka_goes_on_where_its_group_had_committed(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    partition = AioPartition(topic, 0)
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        for number in range(20):
            await producer.send(topic, b"%d" % number, partition=0)
    async with aio_consumer(bootstrap, topic) as consumer:
        assert await aio_values(consumer, 5) == [0, 1, 2, 3, 4]
        await consumer.commit()
        assert await aio_values(consumer, 5) == [5, 6, 7, 8, 9]  # Read, never committed.
    async with aio_consumer(bootstrap, topic) as consumer:
        assert await aio_values(consumer, 3) == [5, 6, 7]
        assert await consumer.committed(partition) == 5
        consumer.seek(partition, 15)
        assert await aio_values(consumer, 2) == [15, 16]
        await consumer.commit({partition: (17, "seen by aiokafka")})
        assert consumer.highwater(partition) - await consumer.position(partition) == 3
    async with aio_consumer(bootstrap, topic, enable_auto_commit=True) as consumer:
        assert await aio_values(consumer, 2) == [17, 18]
    async with aio_consumer(bootstrap, topic) as consumer:
        assert await aio_values(consumer, 1) == [19]


def test_confluent_kafka_goes_on_where_its_group_had_committed(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    fill(bootstrap, topic, 0, 20)
    with closing(rd_consumer(bootstrap, topic)) as consumer:
        assert rd_values(consumer, 5) == [0, 1, 2, 3, 4]
        consumer.commit(asynchronous=False)
        assert rd_values(consumer, 5) == [5, 6, 7, 8, 9]  # Read, never committed.
    with closing(rd_consumer(bootstrap, topic)) as consumer:
        assert rd_values(consumer, 3) == [5, 6, 7]
        consumer.seek(RdPartition(topic, 0, 15))
        assert rd_values(consumer, 2) == [15, 16]
        noted = RdPartition(topic, 0, 17, metadata="seen by librdkafka")
        (accepted,) = consumer.commit(offsets=[noted], asynchronous=False) or []
        assert (accepted.offset, accepted.error) == (17, None)
        (read_back,) = consumer.committed([RdPartition(topic, 0)], timeout=15)
        assert (read_back.offset, read_back.metadata) == (17, "seen by librdkafka")
        _, end = consumer.get_watermark_offsets(RdPartition(topic, 0), timeout=15)
        assert end - read_back.offset == 3
    with closing(rd_consumer(bootstrap, topic)) as consumer:
        assert rd_values(consumer, 3) == [17, 18, 19]


def test_confluent_kafka_commits_beside_its_reading(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    fill(bootstrap, topic, 0, 10)
    answered: list[tuple[RdError | None, list[RdPartition]]] = []
    reported = {"on_commit": lambda error, partitions: answered.append((error, partitions))}
    with closing(rd_consumer(bootstrap, topic, **reported)) as consumer:
        assert rd_values(consumer, 4) == [0, 1, 2, 3]
        consumer.commit(offsets=[RdPartition(topic, 0, 4)], asynchronous=True)
        eventually(lambda: consumer.poll(0.05) is None and bool(answered), "the commit is answered")
    (error, partitions), *_ = answered
    assert error is None
    assert [(one.partition, one.offset, one.error) for one in partitions] == [(0, 4, None)]
    with closing(rd_consumer(bootstrap, topic, **{"enable.auto.commit": True})) as consumer:
        assert rd_values(consumer, 6)[0] == 4
    with closing(rd_consumer(bootstrap, topic)) as consumer:
        (read_back,) = consumer.committed([RdPartition(topic, 0)], timeout=15)
        assert read_back.offset == 10


@pytest.mark.parametrize("way", ["an orderly stop", "kill -9"])
def test_members_go_on_after_the_broker_returned_and_read_nothing_twice(
    own_broker: BrokerProcess, topic: str, way: str
) -> None:
    address = own_broker.bootstrap
    fill(address, topic, 0, 10)
    # Consumers that live on through it; each in a group of its own.
    python = python_consumer(address, topic, group_id="python", reconnect_backoff_max_ms=200)
    with closing(python), closing(rd_consumer(address, topic, **{"group.id": "rd"})) as rd:
        assert python_values(python, 10) == rd_values(rd, 10) == list(range(10))
        python.commit()
        rd.commit(asynchronous=False)
        own_broker.stop() if way == "an orderly stop" else own_broker.kill()
        own_broker.start()
        fill(address, topic, 10, 20)
        assert python_values(python, 10) == rd_values(rd, 10) == list(range(10, 20))
        python.commit()
        rd.commit(asynchronous=False)
    for group in ("python", "rd"):
        with closing(KafkaConsumer(bootstrap_servers=address, group_id=group)) as consumer:
            assert consumer.committed(TopicPartition(topic, 0)) == 20


def test_no_commit_that_was_answered_is_lost_when_the_broker_is_killed(own_broker: BrokerProcess, topic: str) -> None:
    address, partition = own_broker.bootstrap, TopicPartition(topic, 0)
    fill(address, topic, 0, 1)
    for life in range(3):
        with closing(Committer(address, partition, start=1_000 * life)) as committer:
            committer.until_answered(100)
            own_broker.kill()  # In the middle of the next commit.
        answered, asked = committer.outcome()
        own_broker.start()
        with closing(KafkaConsumer(bootstrap_servers=address, group_id="killed")) as consumer:
            assert answered <= consumer.committed(partition) <= asked


class Committer:
    """A consumer without a membership that commits start, start + 1, ... one after the other, on a thread."""

    def __init__(self, bootstrap: str, partition: TopicPartition, start: int) -> None:
        self._start = start
        self.answered = start - 1
        self._asked = start - 1
        self._consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id="killed", enable_auto_commit=False)
        self._partition = partition
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._asked += 1
            try:
                self._consumer.commit({self._partition: OffsetAndMetadata(self._asked, "", -1)}, timeout_ms=1_000)
            except KafkaError:
                if self.answered < self._start:
                    continue  # The coordinator is not there yet.
                return  # The broker went away, which is the point.
            self.answered = self._asked

    def until_answered(self, count: int) -> None:
        eventually(lambda: self.answered >= self._start + count, "enough commits are answered")

    def outcome(self) -> tuple[int, int]:
        """The last offset whose commit was answered, and the last that was asked for; after `close`."""
        return self.answered, self._asked

    def close(self) -> None:
        self._stopping.set()
        self._thread.join(10)
        self._consumer.close(autocommit=False, timeout_ms=1_000)
