"""One Python client library in every state at once, until it is ended.

python python_clients.py '{"client": "aiokafka", "bootstrap": ..., "states": [{"name": ..., "kind": ..., ...}]}'

It runs with the oldest releases as well as with the newest. What fails is tried again after a pause, as an application
would; the library's own pauses are what is measured.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

PAUSE_S = 0.25
POLL_S = 0.5

State = dict[str, Any]


def again_and_again(work: Callable[[], None]) -> None:
    while True:
        # Whatever the library raises, an application would go on.
        with contextlib.suppress(Exception):
            work()
        time.sleep(PAUSE_S)


class KafkaPython:
    def __init__(self, bootstrap: str, state: State) -> None:
        self._common = {"bootstrap_servers": bootstrap, "client_id": state["client_id"]}
        self._state = state

    def run(self) -> None:
        again_and_again(getattr(self, self._state["kind"]))

    def assign(self) -> None:
        from kafka import KafkaConsumer, TopicPartition

        consumer = KafkaConsumer(**self._common, group_id=None, auto_offset_reset="earliest")
        consumer.assign([TopicPartition(topic, 0) for topic in self._state["topics"]])
        again_and_again(lambda: self._poll(consumer))

    def subscribe(self) -> None:
        from kafka import KafkaConsumer

        consumer = KafkaConsumer(**self._common, group_id=self._state["id"], auto_offset_reset="earliest")
        consumer.subscribe(self._state["topics"])
        again_and_again(lambda: self._poll(consumer))

    @staticmethod
    def _poll(consumer: Any) -> None:
        while True:
            consumer.poll(timeout_ms=int(POLL_S * 1000))

    def produce(self) -> None:
        from kafka import KafkaProducer

        producer = KafkaProducer(**self._common)
        again_and_again(lambda: producer.send(self._state["topics"][0], b"value").get(timeout=30))

    def transact(self) -> None:
        from kafka import KafkaProducer

        producer = KafkaProducer(**self._common, transactional_id=self._state["id"])
        again_and_again(producer.init_transactions)


class Confluent:
    def __init__(self, bootstrap: str, state: State) -> None:
        self._common = {"bootstrap.servers": bootstrap, "client.id": state["client_id"], "log_level": 0}
        self._state = state

    def run(self) -> None:
        again_and_again(getattr(self, self._state["kind"]))

    def assign(self) -> None:
        from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

        consumer = Consumer({**self._common, "group.id": "unused", "enable.auto.commit": False})
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING) for topic in self._state["topics"]])
        again_and_again(lambda: self._poll(consumer))

    def subscribe(self) -> None:
        from confluent_kafka import Consumer

        consumer = Consumer({**self._common, "group.id": self._state["id"]})
        consumer.subscribe(self._state["topics"])
        again_and_again(lambda: self._poll(consumer))

    @staticmethod
    def _poll(consumer: Any) -> None:
        while True:
            consumer.poll(POLL_S)

    def produce(self) -> None:
        from confluent_kafka import Producer

        producer = Producer(self._common)

        def send() -> None:
            producer.produce(self._state["topics"][0], b"value")
            producer.flush(POLL_S)

        again_and_again(send)

    def transact(self) -> None:
        from confluent_kafka import Producer

        producer = Producer({**self._common, "transactional.id": self._state["id"]})
        again_and_again(lambda: producer.init_transactions(30))


class AioKafka:
    def __init__(self, bootstrap: str, state: State) -> None:
        self._common = {"bootstrap_servers": bootstrap, "client_id": state["client_id"]}
        self._state = state

    def run(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        while True:
            with contextlib.suppress(Exception):
                await getattr(self, self._state["kind"])()
            await asyncio.sleep(PAUSE_S)

    async def assign(self) -> None:
        from aiokafka import AIOKafkaConsumer, TopicPartition

        consumer = AIOKafkaConsumer(**self._common, group_id=None, auto_offset_reset="earliest")
        await consumer.start()
        consumer.assign([TopicPartition(topic, 0) for topic in self._state["topics"]])
        await self._poll(consumer)

    async def subscribe(self) -> None:
        from aiokafka import AIOKafkaConsumer

        topics, group = self._state["topics"], self._state["id"]
        consumer = AIOKafkaConsumer(*topics, **self._common, group_id=group, auto_offset_reset="earliest")
        try:
            await consumer.start()
            await self._poll(consumer)
        finally:
            await consumer.stop()

    @staticmethod
    async def _poll(consumer: Any) -> None:
        while True:
            with contextlib.suppress(Exception):
                await consumer.getmany(timeout_ms=int(POLL_S * 1000))
                continue
            await asyncio.sleep(PAUSE_S)

    async def produce(self) -> None:
        from aiokafka import AIOKafkaProducer

        producer = AIOKafkaProducer(**self._common)
        await producer.start()
        try:
            await producer.send_and_wait(self._state["topics"][0], b"value")
        finally:
            await producer.stop()

    async def transact(self) -> None:
        from aiokafka import AIOKafkaProducer

        producer = AIOKafkaProducer(**self._common, transactional_id=self._state["id"])
        try:
            await producer.start()
        finally:
            await producer.stop()


KINDS: dict[str, Any] = {"kafka-python": KafkaPython, "aiokafka": AioKafka, "confluent-kafka": Confluent}


def main() -> None:
    task = json.loads(sys.argv[1])
    logging.disable(logging.CRITICAL)
    kind = KINDS[task["library"]]
    for state in task["states"]:
        threading.Thread(target=kind(task["bootstrap"], state).run, daemon=True).start()
    sys.stdin.read()  # Until the test closes it, or ends.


if __name__ == "__main__":
    main()
