"""The Java client in every state at once, until its standard input ends; see python_clients.py."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import jpype

PAUSE_S = 0.25
POLL_MS = 500
BYTES = "org.apache.kafka.common.serialization.ByteArray"


def again_and_again(work: Callable[[], None]) -> None:
    while True:
        with contextlib.suppress(jpype.JException):  # An application would go on.
            work()
        time.sleep(PAUSE_S)


class Java:
    def __init__(self, bootstrap: str, state: dict[str, Any], *, is_old: bool) -> None:
        self._bootstrap = bootstrap
        self._state = state
        self._is_old = is_old

    def run(self) -> None:
        jpype.java.lang.Thread.attachAsDaemon()
        again_and_again(getattr(self, self._state["kind"]))

    def _made(self, name: str, **pairs: str) -> Any:
        properties = jpype.JClass("java.util.Properties")()
        properties.put("bootstrap.servers", self._bootstrap)
        properties.put("client.id", self._state["client_id"])
        for key, value in pairs.items():
            properties.put(key.replace("_", "."), value)
        return jpype.JClass(name)(properties)

    def _consumer(self, **pairs: str) -> Any:
        pairs |= {"key_deserializer": f"{BYTES}Deserializer", "value_deserializer": f"{BYTES}Deserializer"}
        return self._made("org.apache.kafka.clients.consumer.KafkaConsumer", auto_offset_reset="earliest", **pairs)

    def _producer(self, **pairs: str) -> Any:
        pairs |= {"key_serializer": f"{BYTES}Serializer", "value_serializer": f"{BYTES}Serializer"}
        return self._made("org.apache.kafka.clients.producer.KafkaProducer", **pairs)

    def assign(self) -> None:
        consumer = self._consumer(enable_auto_commit="false")
        partition = jpype.JClass("org.apache.kafka.common.TopicPartition")
        assigned = jpype.java.util.ArrayList()
        for topic in self._state["topics"]:
            assigned.add(partition(topic, 0))
        consumer.assign(assigned)
        consumer.seekToBeginning(assigned)
        again_and_again(lambda: self._poll(consumer))

    def subscribe(self) -> None:
        consumer = self._consumer(group_id=self._state["id"])
        subscribed = jpype.java.util.ArrayList()
        for topic in self._state["topics"]:
            subscribed.add(topic)
        consumer.subscribe(subscribed)
        again_and_again(lambda: self._poll(consumer))

    def _poll(self, consumer: Any) -> None:
        while True:
            consumer.poll(POLL_MS if self._is_old else jpype.java.time.Duration.ofMillis(POLL_MS))

    def produce(self) -> None:
        producer = self._producer(max_block_ms="30000")
        record = jpype.JClass("org.apache.kafka.clients.producer.ProducerRecord")
        value = jpype.JArray(jpype.JByte)(b"value")
        again_and_again(lambda: producer.send(record(self._state["topics"][0], value)).get())

    def transact(self) -> None:
        producer = self._producer(transactional_id=self._state["id"], max_block_ms="30000")
        again_and_again(producer.initTransactions)


def main() -> None:
    task = json.loads(sys.argv[1])
    flags = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
    jpype.startJVM(*flags, classpath=task["jars"])
    for state in task["states"]:
        client = Java(task["bootstrap"], state, is_old=task["is_old"])
        threading.Thread(target=client.run, daemon=True).start()
    sys.stdin.read()
    jpype.java.lang.Runtime.getRuntime().halt(0)


if __name__ == "__main__":
    main()
