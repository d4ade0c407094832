"""Records written before and after what is done to a cluster, and the proof that they are all still there."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from uuid import uuid4

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.cluster.cluster import Cluster, Partition
from tests.cluster.history import History, violations
from tests.cluster.loads import SECONDS_MAX, Writer, consumer, read_all


def written(cluster: Cluster, partitions: list[Partition], records: int = 100) -> History:
    """So many records of each partition, acknowledged by all."""
    cluster.wait_until_known(partitions)
    history = History()
    with Writer(cluster.bootstrap, partitions, history, uuid4().hex[:8]) as writer:
        cluster.wait(
            lambda: writer.has_failed or min(writer.acknowledged.values()) >= records,
            f"{records} records of {partitions} are acknowledged",
        )
    return history


def assert_kept(cluster: Cluster, partitions: list[Partition], *histories: History) -> None:
    everything = History([sent for history in histories for sent in history.sent])
    for number, sent in enumerate(everything.sent):
        sent.number = number
    _wait_until_readable(cluster, everything)
    found = violations(everything, read_all(cluster.bootstrap, partitions))
    assert not found, found[:20]


def _wait_until_readable(cluster: Cluster, history: History) -> None:
    """Until each leader's high watermark is past what was acknowledged.

    A leader elected a moment ago learns of that from the next fetches of its followers; a reader finds an earlier end.
    """
    ends: dict[Partition, int] = {}
    for sent in history.sent:
        if sent.offset is not None:
            ends[sent.partition] = max(ends.get(sent.partition, 0), sent.offset + 1)
    reader = consumer(cluster.bootstrap, "read_uncommitted")
    try:
        for one, end in ends.items():
            at = TopicPartition(*one)
            cluster.wait(
                lambda at=at, end=end: _high_watermark(reader, at) >= end,
                f"{one} can be read to {end}, the end of what was acknowledged",
            )
    finally:
        reader.close()


def _high_watermark(reader: Consumer, partition: TopicPartition) -> int:
    """The leader's; -1 while a leader elected a moment ago does not tell (KIP-207)."""
    try:
        return int(reader.get_watermark_offsets(partition, SECONDS_MAX)[1])
    except KafkaException as error:
        if error.args[0].code() != KafkaError.OFFSET_NOT_AVAILABLE:
            raise
        return -1


def folders(cluster: Cluster, broker: int, topic: str) -> set[str]:
    """Names of the broker's folders for the topic's partitions; those marked as deleted do not count."""
    found: Iterable[Path] = cluster.brokers[broker].directory.glob(f"data*/{topic}-*")
    return {path.name for path in found if not path.name.endswith("-delete")}
