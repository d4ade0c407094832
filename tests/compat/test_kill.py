"""A broker killed under load loses nothing it had acknowledged. `SORDINI_KILLS` makes it more kills."""

from __future__ import annotations

import os
from collections import deque
from contextlib import closing
from itertools import count
from random import Random
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from tests.outside.processes import BrokerProcess

KILLS = int(os.environ.get("SORDINI_KILLS", "4"))
_ACKNOWLEDGED_BETWEEN_KILLS = 300


def test_what_was_acknowledged_survives_kills_in_order_and_once(own_broker: BrokerProcess, topic: str) -> None:
    choose = Random(KILLS)
    with closing(Load(own_broker.bootstrap, topic)) as load:
        for _ in range(KILLS):
            load.until_acknowledged(choose.randrange(1, _ACKNOWLEDGED_BETWEEN_KILLS))
            own_broker.kill()  # Many are on their way now; the client sends those again to the next life.
            own_broker.start()
        load.until_acknowledged(1)
        load.finish()
    stored = read_all(own_broker.bootstrap, topic)
    assert stored == load.acknowledged, first_difference(stored, load.acknowledged)


class Load:
    """An idempotent producer of the numbers 0, 1, 2, ... that notes at which offset each was acknowledged."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.acknowledged: dict[int, int] = {}  # Offset -> number.
        self._topic = topic
        self._numbers = count()
        self._on_their_way: deque[tuple[int, Any]] = deque()
        self._producer = KafkaProducer(
            bootstrap_servers=bootstrap,
            linger_ms=1,
            batch_size=500,  # Several batches in flight, so that a kill tears a window of them.
            compression_type="gzip",
            retry_backoff_ms=10,
            reconnect_backoff_ms=10,
            reconnect_backoff_max_ms=50,
        )

    def until_acknowledged(self, more: int) -> None:
        """Keep the broker busy until that many more numbers are known to be stored."""
        wanted = len(self.acknowledged) + more
        while len(self.acknowledged) < wanted:
            while len(self._on_their_way) < 500:
                number = next(self._numbers)
                future = self._producer.send(self._topic, b"%d" % number, partition=0)
                self._on_their_way.append((number, future))
            self._take_oldest()

    def finish(self) -> None:
        while self._on_their_way:
            self._take_oldest()

    def close(self) -> None:
        self._producer.close(timeout=5)

    def _take_oldest(self) -> None:
        number, future = self._on_their_way.popleft()
        offset = future.get(timeout=30).offset
        assert offset >= 0, f"number {number} was acknowledged without an offset"
        self.acknowledged[offset] = number


def read_all(bootstrap: str, topic: str) -> dict[int, int]:
    """Offset -> number of everything in partition 0."""
    partition = TopicPartition(topic, 0)
    stored: dict[int, int] = {}
    with closing(KafkaConsumer(bootstrap_servers=bootstrap, consumer_timeout_ms=15_000)) as consumer:
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        end = consumer.end_offsets([partition])[partition]
        for record in consumer:
            assert record.offset not in stored, f"offset {record.offset} was read twice"
            stored[record.offset] = int(record.value)
            if record.offset == end - 1:
                break
    return stored


def first_difference(stored: dict[int, int], acknowledged: dict[int, int]) -> str:
    offset = min(set(stored.items()) ^ set(acknowledged.items()))[0]
    return f"offset {offset}: stored {stored.get(offset)}, acknowledged {acknowledged.get(offset)}"
