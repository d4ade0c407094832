"""What is written before a directory changes hands: something of all that ends up in files."""

from __future__ import annotations

import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from tests.compat.sent import CODECS
from tests.support.confluent_admin import admin_of

SECONDS_MAX: Final = 30
SMALL_FILES: Final = {"segment.bytes": "16384", "index.interval.bytes": "512"}
TOPICS: Final[dict[str, tuple[int, dict[str, str]]]] = {
    "codecs": (len(CODECS), SMALL_FILES),
    "stamped": (1, {**SMALL_FILES, "message.timestamp.type": "LogAppendTime"}),
    # Compacted in name only: a cleaner that came by would change what two brokers are compared by.
    "keyed": (2, {**SMALL_FILES, "cleanup.policy": "compact", "min.compaction.lag.ms": "86400000"}),
    "trimmed": (1, SMALL_FILES),
    # Keys of 3.9.1 which 2.7.2 does not know.
    "once": (2, {"message.timestamp.before.max.ms": "9223372036854775807", "compression.gzip.level": "5"}),
    "money": (2, SMALL_FILES),
}
GROUPS: Final = ("by-hand", "members", "in-transactions")
RECORDS: Final = 400


def create_topics(bootstrap: str) -> None:
    admin = admin_of({"bootstrap.servers": bootstrap})
    wanted = [NewTopic(name, partitions, 1, config=config) for name, (partitions, config) in TOPICS.items()]
    for future in admin.create_topics(wanted).values():
        future.result(SECONDS_MAX)


def send(bootstrap: str, topic: str, partition: int, records: Iterable[dict[str, Any]], **settings: Any) -> list[int]:
    """Send to one partition in small batches; the offsets that were acknowledged."""
    offsets: list[int] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        offsets.append(message.offset())

    small = {"bootstrap.servers": bootstrap, "batch.num.messages": 8, "linger.ms": 2}
    producer = Producer(small | settings)
    for record in records:
        producer.produce(topic, partition=partition, on_delivery=delivered, **record)
    assert producer.flush(SECONDS_MAX) == 0
    return offsets


def some(random: Random, count: int = RECORDS) -> list[dict[str, Any]]:
    """Records with and without keys, values and headers."""
    now_ms = time.time_ns() // 1_000_000 - 60_000
    return [
        {
            "key": None if number % 5 == 0 else b"key-%d" % random.randrange(20),
            "value": None if number % 7 == 0 else random.randbytes(random.randrange(120)).hex().encode(),
            "headers": [("h", b"%d" % number), ("empty", b""), ("null", None)][: number % 4],
            # Not in order, as producers send them.
            "timestamp": now_ms + number * 10 - random.randrange(50),
        }
        for number in range(count)
    ]


def write(bootstrap: str, seed: int) -> None:
    """Records of every shape, deleted ones, and committed offsets."""
    random = Random(seed)
    wanted: list[tuple[str, int, list[dict[str, Any]], dict[str, Any]]] = [
        ("codecs", partition, some(random), {"compression.type": codec, "enable.idempotence": False})
        for partition, codec in enumerate(CODECS)
    ]
    wanted.append(("stamped", 0, some(random), {}))
    for partition in range(2):
        keyed = [{**record, "key": record["key"] or b"other"} for record in some(random, 200)]
        wanted.append(("keyed", partition, keyed, {"acks": 1}))
        wanted.append(("once", partition, some(random, 50), {"enable.idempotence": True}))
        wanted.append(("money", partition, some(random, 60), {}))
    wanted.append(("trimmed", 0, some(random), {}))
    # Side by side: an idempotent producer may take half a second until it has an id.
    with ThreadPoolExecutor(len(wanted)) as pool:
        *_, sent = pool.map(lambda one: send(bootstrap, *one[:3], **one[3]), wanted)
    # Past whole segments, and to the middle of one.
    delete_records(bootstrap, "trimmed", sent[len(sent) * 3 // 4])
    commit(bootstrap, seed)
    commit_as_member(bootstrap)


def delete_records(bootstrap: str, topic: str, before: int) -> None:
    admin = admin_of({"bootstrap.servers": bootstrap})
    for future in admin.delete_records([TopicPartition(topic, 0, before)]).values():
        future.result(SECONDS_MAX)


def commit(bootstrap: str, seed: int) -> None:
    """Offsets without a member, with metadata."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "by-hand"})
    wanted = [TopicPartition("codecs", part, 3 * part + seed, metadata=f"round {seed}") for part in range(3)]
    consumer.commit(offsets=wanted, asynchronous=False)
    consumer.close()


def commit_as_member(bootstrap: str) -> None:
    """A member reads what its group has not read yet, commits, and leaves."""
    settings = {"group.id": "members", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
    consumer.subscribe(["once"])
    got: list[Message] = []
    while len(got) < 100:
        message = consumer.poll(SECONDS_MAX)
        assert message is not None, f"only {len(got)} records arrived"
        assert message.error() is None, message.error()
        got.append(message)
    consumer.commit(asynchronous=False)
    consumer.close()


def transactions(bootstrap: str, seed: int) -> None:
    """Committed and aborted ones, and one that stays open with records of others after it."""
    random = Random(seed)
    producer = transactional(bootstrap, "settled")
    for is_committed in (True, False, True, False):
        producer.begin_transaction()
        for partition in range(2):
            for record in some(random, 25):
                producer.produce("money", partition=partition, **record)
        producer.flush(SECONDS_MAX)
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "in-transactions"})
        position = [TopicPartition("once", 0, 10 * seed + (1 if is_committed else 2))]
        producer.send_offsets_to_transaction(position, consumer.consumer_group_metadata(), SECONDS_MAX)
        consumer.close()
        if is_committed:
            producer.commit_transaction(SECONDS_MAX)
        else:
            producer.abort_transaction(SECONDS_MAX)
    left_open = transactional(bootstrap, "left-open")
    left_open.begin_transaction()
    left_open.produce("money", value=b"never settled", partition=1)
    left_open.flush(SECONDS_MAX)
    send(bootstrap, "money", 1, some(random, 20))


def transactional(bootstrap: str, name: str, timeout_ms: int = 600_000, **settings: Any) -> Producer:
    """A producer of that transactional id; what it left open before is aborted."""
    own = {"bootstrap.servers": bootstrap, "transactional.id": name, "transaction.timeout.ms": timeout_ms}
    # Ours closes the connection once after an abort with offsets; a client that bootstraps again then takes longer.
    own["metadata.recovery.strategy"] = "none"
    producer = Producer(own | settings)
    producer.init_transactions(SECONDS_MAX)
    return producer
