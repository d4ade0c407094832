"""An idempotent producer with acks=all, and afterwards a reader that compares: `python -m tests.docker.load BOOTSTRAP TOPIC`.

It produces numbers until its standard input ends, then reads the topic and prints one line of JSON: how many were
acknowledged, and which of these were read not at all or more than once.
"""

from __future__ import annotations

import json
import select
import sys
import time
from collections import Counter

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition

SECONDS_MAX = 600.0
DELIVERY_SECONDS_MAX = 120
ROUND_S = 0.1
RECORDS_PER_ROUND = 50


def produce(bootstrap: str, topic: str) -> list[int]:
    """The numbers that were acknowledged. A number that was not may be in the topic or not."""
    acknowledged: list[int] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is None:
            acknowledged.append(int(message.value() or b""))

    settings = {
        "bootstrap.servers": bootstrap,
        "enable.idempotence": True,
        "message.timeout.ms": DELIVERY_SECONDS_MAX * 1000,
    }
    producer, deadline = Producer(settings), time.monotonic() + SECONDS_MAX
    for number in range(round(SECONDS_MAX / ROUND_S) * RECORDS_PER_ROUND):
        producer.produce(topic, str(number), on_delivery=delivered)
        if number % RECORDS_PER_ROUND == 0:
            producer.poll(0)
            # Its end says stop; waiting for it also sets the pace.
            if select.select([sys.stdin], [], [], ROUND_S)[0] or time.monotonic() > deadline:
                break
    producer.flush(DELIVERY_SECONDS_MAX)
    return acknowledged


def read(bootstrap: str, topic: str) -> Counter[int]:
    """How often each number is in the topic."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "load",
        "enable.partition.eof": True,
        "enable.auto.commit": False,
    }
    consumer, found = Consumer(settings), Counter[int]()
    partitions = list(consumer.list_topics(topic, 30).topics[topic].partitions)
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
    ended: set[int] = set()
    deadline = time.monotonic() + SECONDS_MAX
    while len(ended) < len(partitions):
        if time.monotonic() > deadline:
            raise TimeoutError(f"only partitions {sorted(ended)} of {topic} were read to their end")
        message = consumer.poll(1)
        if message is None:
            continue
        if (error := message.error()) is None:
            found[int(message.value() or b"")] += 1
        elif error.code() == KafkaError._PARTITION_EOF:
            ended.add(message.partition() or 0)
    consumer.close()
    return found


def main(bootstrap: str, topic: str) -> None:
    acknowledged = produce(bootstrap, topic)
    found = read(bootstrap, topic)
    outcome = {
        "acknowledged": len(acknowledged),
        "lost": [number for number in acknowledged if not found[number]],
        "doubled": [number for number, count in found.items() if count > 1],
    }
    sys.stdout.write(json.dumps(outcome))


if __name__ == "__main__":
    main(*sys.argv[1:])
