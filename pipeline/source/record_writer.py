"""A writing task: produces the rows of Arrow batches to topics, with aiokafka. Runs in Spark's Python workers.

At least once: the task returns when every record is acknowledged. A task that Spark restarts, or a micro-batch that is
repeated after a crash, writes all of its records again.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import pyarrow as pa
from aiokafka import AIOKafkaProducer  # type: ignore[import-untyped]
from aiokafka.errors import KafkaError  # type: ignore[import-untyped]
from aiokafka.partitioner import murmur2  # type: ignore[import-untyped]

from sordini.pipeline.errors import PipelineError
from sordini.pipeline.source.client.settings import ClientSettings
from sordini.pipeline.source.client.transport import tls_context
from sordini.pipeline.source.sink_options import SinkOptions

_HASHES_KEPT: Final = 100_000


class NotWritten(PipelineError):
    """Records were not acknowledged; some of them may be in the topic nevertheless."""


class _OutgoingRow(NamedTuple):
    topic: str
    key: bytes | None
    value: bytes | None
    partition: int | None
    headers: list[tuple[str, bytes | None]]


def write_records(batches: Iterator[pa.RecordBatch], options: SinkOptions) -> int:
    """Write all rows, and return how many once all are acknowledged. Raises NotWritten."""
    return asyncio.run(_write(batches, options))


async def _write(batches: Iterator[pa.RecordBatch], options: SinkOptions) -> int:
    count = 0
    try:
        async with AIOKafkaProducer(**_settings(options)) as producer:
            for batch in batches:
                # Everything is acknowledged before the next batch is read from Spark: reading may take any time, and
                # the event loop is blocked meanwhile.
                await _write_batch(producer, batch, options.topic)
                count += batch.num_rows
    except KafkaError as error:
        raise NotWritten(f"records were not written: {error!r}") from error
    return count


async def _write_batch(producer: AIOKafkaProducer, batch: pa.RecordBatch, topic: str | None) -> None:
    filling: dict[tuple[str, int], Any] = {}
    under_way = []
    choosers: dict[str, _PartitionChooser] = {}
    for row in _rows(batch, topic):
        if row.topic not in choosers:
            choosers[row.topic] = _PartitionChooser(row.topic, sorted(await producer.partitions_for(row.topic)))
        chooser = choosers[row.topic]
        place = (row.topic, chooser.partition_of(row))
        if place not in filling:
            filling[place] = producer.create_batch()
        if not _append(filling[place], row):
            under_way.append(await producer.send_batch(filling[place], place[0], partition=place[1]))
            chooser.next_partition()
            filling[place] = producer.create_batch()
            _append(filling[place], row)  # The first record of a batch is taken whatever its size.
    for (name, partition), builder in filling.items():
        under_way.append(await producer.send_batch(builder, name, partition=partition))
    await asyncio.gather(*under_way)


def _append(builder: Any, row: _OutgoingRow) -> bool:
    """False when the batch is full."""
    return builder.append(timestamp=None, key=row.key, value=row.value, headers=row.headers) is not None


class _PartitionChooser:
    """Chooses a record's partition: the row's own, that of its key, or one for many records in a row."""

    def __init__(self, topic: str, partitions: Sequence[int]) -> None:
        self._topic = topic
        self._partitions = partitions
        self._current = random.randrange(len(partitions))  # noqa: S311 - balance, not secrecy.

    def partition_of(self, row: _OutgoingRow) -> int:
        if row.partition is not None:
            if row.partition not in self._partitions:
                raise NotWritten(f"topic {self._topic!r} has no partition {row.partition}, which a row names")
            return row.partition
        if row.key is not None:
            return self._partitions[_hash(row.key) % len(self._partitions)]
        return self._partitions[self._current]

    def next_partition(self) -> None:
        """Send records without a key to the next partition, as a batch is full."""
        self._current = (self._current + 1) % len(self._partitions)


@lru_cache(_HASHES_KEPT)
def _hash(key: bytes) -> int:
    """The partition of a key, as Apache Kafka's clients choose it."""
    return int(murmur2(key)) & 0x7FFFFFFF


def _rows(batch: pa.RecordBatch, topic: str | None) -> Iterator[_OutgoingRow]:
    count = batch.num_rows
    columns: dict[str, list[Any]] = {name: [None] * count for name in _OutgoingRow._fields}
    for name in set(batch.schema.names) & set(_OutgoingRow._fields):
        column = batch.column(name)
        columns[name] = (column.cast(pa.binary()) if name in {"key", "value"} else column).to_pylist()
    if topic is not None:
        columns["topic"] = [topic] * count
    for name, key, value, partition, headers in zip(*(columns[field] for field in _OutgoingRow._fields), strict=True):
        if name is None:
            raise NotWritten("a row's topic is null, and the option topic is not set")
        yield _OutgoingRow(name, key, value, partition, [(one["key"], one["value"]) for one in headers or ()])


def _settings(options: SinkOptions) -> dict[str, Any]:
    client: ClientSettings = options.client
    settings: dict[str, Any] = {
        "bootstrap_servers": [str(address) for address in client.bootstrap],
        "client_id": client.client_id,
        "acks": options.acks,
        "enable_idempotence": options.is_idempotent,
        "compression_type": None if options.compression == "none" else options.compression,
        "max_batch_size": min(options.batch_bytes, options.request_bytes_max),
        "max_request_size": options.request_bytes_max,
        "request_timeout_ms": client.limits.request_ms,
        "security_protocol": ("SASL_" if client.sasl else "") + ("SSL" if client.tls else "PLAINTEXT"),
    }
    if client.tls is not None:
        settings["ssl_context"] = tls_context(client.tls)
    if client.sasl is not None:
        settings |= {
            "sasl_mechanism": client.sasl.mechanism,
            "sasl_plain_username": client.sasl.username,
            "sasl_plain_password": client.sasl.password,
        }
    return settings
