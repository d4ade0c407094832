"""librdkafka's consumer as a member of a group, polled by the test: of a consumer group (KIP-848) unless told otherwise."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer, KafkaError, TopicPartition

PATIENCE_S = 30


class GroupConsumer:
    """A consumer, with what it has read, its errors, and how often it lost its partitions."""

    def __init__(self, bootstrap: str, group: str, topic: str, **settings: object) -> None:
        self.values: list[bytes | None] = []
        self.errors: list[KafkaError] = []
        self.losses = 0
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": 50,
                "log_level": 0,
                "error_cb": self.errors.append,
                **settings,
            }
        )
        self._consumer.subscribe([topic], on_lost=self._lost)

    def poll(self) -> None:
        record = self._consumer.poll(0.02)
        if record is None:
            return
        error = record.error()
        if error is None:
            self.values.append(record.value())
        else:
            self.errors.append(error)

    @property
    def member_id(self) -> str:
        return str(self._consumer.memberid())

    @property
    def partitions(self) -> list[int]:
        return sorted(partition.partition for partition in self._consumer.assignment())

    def close(self) -> None:
        self._consumer.close()

    def _lost(self, _consumer: Consumer, _partitions: list[TopicPartition]) -> None:
        self.losses += 1


@contextmanager
def joined(bootstrap: str, group: str, topic: str, **settings: object) -> Iterator[GroupConsumer]:
    """A member for a block, at the end of which it leaves its group."""
    made = GroupConsumer(bootstrap, group, topic, **settings)
    try:
        yield made
    finally:
        made.close()


def poll_until(members: list[GroupConsumer], holds: Callable[[], bool]) -> None:
    """Poll members until something holds."""
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end, [(member.partitions, member.values, member.errors) for member in members]
        for member in members:
            member.poll()
        if not members:
            time.sleep(0.02)
