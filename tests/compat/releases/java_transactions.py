"""A program: transactions of the Java producer, of any release.

    python java_transactions.py '{"bootstrap": ..., "topic": ..., "id": ..., "group": ..., "jars": [...], "ends": ["commit", ...]}'

Each transaction writes one record to each of two partitions and commits an offset of "group"; then it ends as it is said.
One line of JSON comes of each: what an administrator sees after it.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from typing import Any

import jpype

PARTITIONS = 2
PATIENCE_S = 30


class Program:
    """The producer, and an administrator who looks on."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings
        self._producer = self._client(
            "org.apache.kafka.clients.producer.KafkaProducer",
            {
                "transactional.id": settings["id"],
                "key.serializer": "org.apache.kafka.common.serialization.StringSerializer",
                "value.serializer": "org.apache.kafka.common.serialization.StringSerializer",
                "linger.ms": "0",
            },
        )
        admin = jpype.JClass("org.apache.kafka.clients.admin.Admin")
        self._admin = admin.create(self._properties({}))

    def run(self) -> None:
        self._producer.initTransactions()
        for number, end in enumerate(self._settings["ends"]):
            self._transaction(number, end)
            sys.stdout.write(json.dumps(self._seen()) + "\n")
            sys.stdout.flush()
        self._producer.close()
        self._admin.close()

    def _transaction(self, number: int, end: str) -> None:
        record = jpype.JClass("org.apache.kafka.clients.producer.ProducerRecord")
        self._producer.beginTransaction()
        sent = [
            self._producer.send(
                record(self._settings["topic"], jpype.java.lang.Integer(index), None, f"{end}-{number}-{index}")
            )
            for index in range(PARTITIONS)
        ]
        self._commit_offset(number + 1)
        if end == "commit":
            self._producer.commitTransaction()
        else:
            for one in sent:
                one.get()
            self._producer.abortTransaction()

    def _commit_offset(self, offset: int) -> None:
        position = jpype.JClass("org.apache.kafka.clients.consumer.OffsetAndMetadata")(offset)
        metadata = jpype.JClass("org.apache.kafka.clients.consumer.ConsumerGroupMetadata")(self._settings["group"])
        self._producer.sendOffsetsToTransaction(jpype.java.util.Map.of(self._partition(0), position), metadata)

    def _seen(self) -> dict[str, Any]:
        """After the completion, which the producer does not wait for."""
        ids = jpype.java.util.List.of(self._settings["id"])
        until = time.monotonic() + PATIENCE_S
        while True:
            transaction = self._admin.describeTransactions(ids).description(self._settings["id"]).get()
            if str(transaction.state()).startswith("Complete") or time.monotonic() > until:
                break
            time.sleep(0.05)
        return {
            "state": str(transaction.state()),
            "epoch": int(transaction.producerEpoch()),
            "partitions": [self._epochs(index) for index in range(PARTITIONS)],
            "offset": self._offset(),
        }

    def _offset(self) -> int:
        listed = self._admin.listConsumerGroupOffsets(self._settings["group"]).partitionsToOffsetAndMetadata().get()
        return int(listed.get(self._partition(0)).offset())

    def _partition(self, index: int) -> Any:
        return jpype.JClass("org.apache.kafka.common.TopicPartition")(self._settings["topic"], index)

    def _epochs(self, index: int) -> list[int]:
        partition = self._partition(index)
        described = self._admin.describeProducers(jpype.java.util.List.of(partition))
        return [int(one.producerEpoch()) for one in described.partitionResult(partition).get().activeProducers()]

    def _client(self, name: str, settings: dict[str, str]) -> Any:
        return jpype.JClass(name)(self._properties(settings))

    def _properties(self, settings: dict[str, str]) -> Any:
        found = jpype.java.util.Properties()
        for key, value in ({"bootstrap.servers": self._settings["bootstrap"]} | settings).items():
            found.setProperty(key, value)
        return found


def main() -> None:
    settings = json.loads(sys.argv[1])
    flags = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
    jpype.startJVM(*flags, classpath=settings["jars"])
    Program(settings).run()


if __name__ == "__main__":
    main()
