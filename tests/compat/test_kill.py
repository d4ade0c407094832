"""A broker killed under load loses nothing it had acknowledged."""

from __future__ import annotations

import random
from contextlib import closing
from itertools import count

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition

from tests.outside.processes import BrokerProcess

KILLS = 20
_ACKNOWLEDGED_BETWEEN_KILLS = 200


def test_what_was_acknowledged_survives_twenty_kills_in_order_and_once(own_broker: BrokerProcess, topic: str) -> None:
    # The seed stands in a failure's output through the local variables; the kills' moments follow it.
    choose = random.Random(KILLS)
    load = Load(own_broker.bootstrap, topic)
    load.until_acknowledged(_ACKNOWLEDGED_BETWEEN_KILLS)
    for _ in range(KILLS):
        load.until_acknowledged(load.acknowledged_count + choose.randrange(1, _ACKNOWLEDGED_BETWEEN_KILLS))
        own_broker.kill()
        load.send_some()  # These wait in the client and reach the broker's next life.
        own_broker.start()
    load.finish()
    stored = read_all(own_broker.bootstrap, topic)
    assert stored == load.acknowledged, first_difference(stored, load.acknowledged)


class Load:
    """An idempotent producer of the numbers 0, 1, 2, ... that notes which were acknowledged, and where."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.acknowledged: dict[int, int] = {}  # Offset -> number.
        self._topic = topic
        self._numbers = count()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 1,
                "batch.num.messages": 50,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 50,
                "retry.backoff.ms": 20,
                "retry.backoff.max.ms": 50,
                "message.timeout.ms": 60_000,
                "compression.codec": "lz4",
            }
        )

    @property
    def acknowledged_count(self) -> int:
        return len(self.acknowledged)

    def send_some(self) -> None:
        for number in (next(self._numbers) for _ in range(20)):
            self._producer.produce(self._topic, b"%d" % number, partition=0, on_delivery=self._note)
        self._producer.poll(0)

    def until_acknowledged(self, wanted: int) -> None:
        """Keep the broker busy until that many numbers are known to be stored; many more are on the way."""
        for _ in range(10_000):
            if self.acknowledged_count >= wanted:
                return
            if len(self._producer) < 1_000:
                self.send_some()
            self._producer.poll(0.005)
        raise AssertionError(f"only {self.acknowledged_count} of {wanted} numbers were acknowledged")

    def finish(self) -> None:
        assert self._producer.flush(30) == 0, "records are still unacknowledged after 30 s"

    def _note(self, error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        number, offset = int(message.value() or b""), message.offset()
        # After a retry the first answer is lost and the repeated one may not know the offset any more.
        assert (offset or 0) >= 0, f"number {number} was acknowledged without an offset"
        self.acknowledged[offset or 0] = number


def read_all(bootstrap: str, topic: str) -> dict[int, int]:
    """Offset -> number of everything in partition 0."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.partition.eof": True}
    stored: dict[int, int] = {}
    with closing(Consumer(settings)) as consumer:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        while True:
            message = consumer.poll(15)
            assert message is not None, f"reading stopped after {len(stored)} records"
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                return stored
            stored[message.offset() or 0] = int(message.value() or b"")


def first_difference(stored: dict[int, int], acknowledged: dict[int, int]) -> str:
    offset = min(set(stored.items()) ^ set(acknowledged.items()))[0]
    return f"offset {offset}: stored {stored.get(offset)}, acknowledged {acknowledged.get(offset)}"
