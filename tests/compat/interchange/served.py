"""What a broker serves, as a client sees it: to be compared with what another serves from the same files."""

from __future__ import annotations

from typing import Any, NamedTuple

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    Message,
    TopicPartition,
)

from tests.compat.interchange.loads import GROUPS, SECONDS_MAX, TOPICS

Record = tuple[int, int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]
"""Offset, kind of timestamp, timestamp, key, value, headers."""


class Served(NamedTuple):
    """All of it, by "topic-partition"."""

    records: dict[str, list[Record]]
    committed: dict[str, list[Record]]
    """As read_committed sees them."""
    bounds: dict[str, tuple[int, int, int]]
    """Start, last stable offset, high watermark."""
    groups: dict[str, dict[str, tuple[int, str | None]]]
    """Offsets and their metadata, by group."""


def served(bootstrap: str, topics: tuple[str, ...] = tuple(TOPICS)) -> Served:
    partitions = [TopicPartition(topic, number) for topic in topics for number in range(TOPICS[topic][0])]
    return Served(
        records(bootstrap, partitions, "read_uncommitted"),
        records(bootstrap, partitions, "read_committed"),
        bounds(bootstrap, partitions),
        {group: committed_offsets(bootstrap, group, partitions) for group in GROUPS},
    )


def records(bootstrap: str, partitions: list[TopicPartition], isolation: str) -> dict[str, list[Record]]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "check.crcs": True,
            "isolation.level": isolation,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 10,
        }
    )
    found: dict[str, list[Record]] = {name(partition): [] for partition in partitions}
    unread = set(found)
    try:
        # One that is assigned partitions before it knows their leaders looks for these half a second later.
        consumer.list_topics(timeout=SECONDS_MAX)
        consumer.assign([TopicPartition(one.topic, one.partition, OFFSET_BEGINNING) for one in partitions])
        while unread:
            message = consumer.poll(SECONDS_MAX)
            assert message is not None, f"{sorted(unread)} have no end"
            at = f"{message.topic()}-{message.partition()}"
            if message.error() is None:
                found[at].append(record(message))
            else:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                unread.discard(at)
    finally:
        consumer.close()
    return found


def record(message: Message) -> Record:
    kind, timestamp = message.timestamp()
    headers: Any = message.headers()
    return message.offset(), kind, timestamp, message.key(), message.value(), headers or []


def bounds(bootstrap: str, partitions: list[TopicPartition]) -> dict[str, tuple[int, int, int]]:
    """Start, last stable offset and high watermark; by consumers, since an admin client waits seconds for a leader."""
    stable = watermarks(bootstrap, partitions, "read_committed")
    ends = watermarks(bootstrap, partitions, "read_uncommitted")
    return {at: (start, stable[at][1], end) for at, (start, end) in ends.items()}


def watermarks(bootstrap: str, partitions: list[TopicPartition], isolation: str) -> dict[str, tuple[int, int]]:
    """Where each begins, and where it ends for a reader of this isolation level."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "isolation.level": isolation})
    try:
        return {name(one): consumer.get_watermark_offsets(one, SECONDS_MAX) for one in partitions}
    finally:
        consumer.close()


def committed_offsets(
    bootstrap: str, group: str, partitions: list[TopicPartition]
) -> dict[str, tuple[int, str | None]]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        found = consumer.committed(partitions, timeout=SECONDS_MAX)
        return {name(one): (one.offset, one.metadata or None) for one in found if one.offset >= 0}
    finally:
        consumer.close()


def name(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"
