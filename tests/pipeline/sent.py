"""Records whose every column is known, and frames as lists of such records: what the tests of sources compare."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

with warnings.catch_warnings():
    # kafka-python reads its schemas, when it is imported, through a function that Python 3.11 deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

START_MS = 1_710_000_000_000
POLLS_MAX = 60
KEEP = {"retention.ms": "-1"}
"""The records are from 2024: a broker would soon find them too old."""
NO_LOGIN: Mapping[str, str] = {}
"""Further settings of kafka-python's clients, for a plaintext listener."""


class Row(NamedTuple):
    """One record as a source's columns tell it, but for the topic."""

    partition: int
    offset: int
    time_ms: int
    key: str | None
    value: str | None
    headers: tuple[tuple[str, bytes | None], ...] | None = None


def fill(
    bootstrap: str,
    topic: str,
    count: int,
    *,
    partitions: int = 2,
    first: int = 0,
    keys: int = 0,
    compression: str | None = None,
    login: Mapping[str, str] = NO_LOGIN,
) -> list[Row]:
    """Send the records number `first` and following, in turns to the partitions, one second apart in each.

    Every record has one of `keys` different keys; without that, one of its own, or every seventh none. Every eleventh
    has no value.
    Sorted by partition and offset. Without other producers to the topic, their offsets begin at `first // partitions`.
    """
    sent = []
    with closing(KafkaProducer(bootstrap_servers=bootstrap, compression_type=compression, **login)) as producer:
        for number in range(first, first + count):
            offset, partition = divmod(number, partitions)
            headers = (("n", b"%d" % number), ("empty", b"")) if number % 3 == 0 else None
            is_keyless = not keys and number % 7 == 6 and number % 11 != 10
            key = None if is_keyless else f"key-{number % keys if keys else number}"
            value = None if number % 11 == 10 else f"value-{number}"
            row = Row(partition, offset, START_MS + 1_000 * offset, key, value, headers)
            producer.send(
                topic,
                None if value is None else value.encode(),
                key=None if key is None else key.encode(),
                headers=list(headers or ()),
                partition=partition,
                timestamp_ms=row.time_ms,
            )
            sent.append(row)
        producer.flush(timeout=30)
    return sorted(sent)


def rows(frame: DataFrame) -> list[Row]:
    """What a source's frame holds, sorted by partition and offset; headers where it has that column."""
    from pyspark.sql import functions as f

    has_headers = "headers" in frame.columns
    text = [f.col(name).cast("string") for name in ("key", "value")]
    headers = f.col("headers") if has_headers else f.lit(None)
    chosen = frame.select("partition", "offset", f.unix_millis("timestamp"), *text, headers)
    found = []
    for *columns, pairs in chosen.collect():
        reported = None if pairs is None else tuple((name, None if it is None else bytes(it)) for name, it in pairs)
        found.append(Row._make((*columns, reported)))
    return sorted(found, key=lambda row: row[:2])


def values(bootstrap: str, topic: str, partitions: int = 2, login: Mapping[str, str] = NO_LOGIN) -> list[str]:
    """The values that a topic holds, sorted, read by an ordinary client: a stream may need every core that Spark has."""
    parts = [TopicPartition(topic, partition) for partition in range(partitions)]
    found: list[str] = []
    with closing(KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False, **login)) as consumer:
        consumer.assign(parts)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(parts)
        for _ in range(POLLS_MAX):
            if all(consumer.position(part) >= ends[part] for part in parts):
                return sorted(found)
            for records in consumer.poll(timeout_ms=1_000).values():
                found += [(record.value or b"").decode() for record in records]
    raise AssertionError(f"{topic} was not read to its end in {POLLS_MAX} polls")


def committed_values(bootstrap: str, topic: str, partitions: int = 2) -> list[str]:
    """The values that a reader of committed records sees, sorted."""
    return values(bootstrap, topic, partitions, {"isolation_level": "read_committed"})


def without_headers(sent: list[Row]) -> list[Row]:
    return [row._replace(headers=None) for row in sent]
