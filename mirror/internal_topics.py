"""A mirror's own topics: created where they are missing, read whole, and written outside of transactions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

from sordini.client.cluster import Link
from sordini.client.errors import Refused, check, only_row
from sordini.client.record_requests import (
    EARLIEST,
    FETCH_BY_NAME,
    LATEST,
    OFFSETS_BY_NAME,
    PRODUCE_BY_NAME,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    fetch_request,
    fetched_partitions,
    listed_partitions,
    offsets_request,
    only_partition,
    produce_request,
    produced_partitions,
)
from sordini.mirror.cluster import Cluster
from sordini.mirror.errors import MirrorError
from sordini.mirror.formats import FormatError, KeyValue
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from sordini.protocol.messages.fetch import PartitionData
from sordini.protocol.messages.produce import PartitionProduceResponse
from sordini.protocol.records.aborted_transactions import AbortedTransactions
from sordini.protocol.records.batch import CURRENT_MAGIC, BatchHeader, Record, build_batch, read_header
from sordini.protocol.records.legacy import entries, read_any
from sordini.protocol.types import TopicPartition

T = TypeVar("T")

COMPACTED: Final = {"cleanup.policy": "compact", "segment.bytes": str(16 * 1024 * 1024)}
"""Small segments: only what is in closed ones is compacted, and all of it is read at a start."""
PRODUCE_TIMEOUT_MS: Final = 30_000
WAIT_S_MAX: Final = 90.0
"""For transactions of others: longer than a mirror's transaction can be open."""
_WAIT_S: Final = 0.05
_CREATE_TIMEOUT_MS: Final = 30_000
_FETCH_BYTES: Final = 4 * 1024 * 1024
_SEEDS: Final = 0x9747B28C
_MULTIPLIER: Final = 0x5BD1E995
_MASK: Final = 0xFFFF_FFFF


async def create_topic(
    cluster: Cluster, topic: str, partitions: int, replication_factor: int, configs: Mapping[str, str]
) -> None:
    """Create a topic; no error if it exists by now. Raises ClientError."""
    row = CreatableTopic(
        name=topic,
        num_partitions=partitions,
        replication_factor=replication_factor,
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in configs.items()],
    )
    request = CreateTopicsRequest(topics=[row], timeout_ms=_CREATE_TIMEOUT_MS)
    # Version 4 is the first that takes -1 for the default (KIP-464).
    at_least = 4 if replication_factor < 0 else 0

    async def attempt() -> None:
        link = await cluster.controller()
        if not link.serves(ApiKey.CREATE_TOPICS, at_least):
            raise MirrorError(f"{link.address} has no default for replicas: set topics.replication_factor")
        response = await link.ask(request, at_least=at_least)
        for result in response.topics:
            if result.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
                subject = f"creating topic '{topic}' in cluster '{cluster.access.alias}'"
                check(subject, result.error_code, result.error_message)

    await cluster.retry(attempt)


async def ensure_topic(cluster: Cluster, topic: str, replication_factor: int) -> int:
    """The number of partitions of an internal topic, which is created with one if it is missing."""

    async def attempt() -> int:
        found = only_row((await cluster.metadata([topic])).topics, f"topic '{topic}'")
        if found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            await create_topic(cluster, topic, 1, replication_factor, COMPACTED)
            raise Refused(f"topic '{topic}'", ErrorCode.LEADER_NOT_AVAILABLE, "it is being created")
        check(f"topic '{topic}' in cluster '{cluster.access.alias}'", found.error_code)
        for row in found.partitions:
            check(f"topic '{topic}' in cluster '{cluster.access.alias}'", row.error_code)
        return len(found.partitions)

    return await cluster.retry(attempt)


async def offsets_of(
    cluster: Cluster, partitions: Sequence[TopicPartition], timestamp: int, isolation: int = READ_COMMITTED
) -> dict[TopicPartition, int]:
    """The log start (EARLIEST) or the end (LATEST) of partitions whose leaders are known. Raises ClientError.

    The end is the last stable offset with READ_COMMITTED, else the high watermark.
    """
    led: dict[int, dict[TopicPartition, int]] = {}
    for partition in partitions:
        led.setdefault(cluster.leader_of(partition), {})[partition] = timestamp
    found = {}
    for broker_id, times in led.items():
        link = await cluster.broker(broker_id)
        request = offsets_request(times, isolation_level=isolation)
        for partition, row in listed_partitions(await link.ask(request, **OFFSETS_BY_NAME)):
            check(f"offsets of {partition} in cluster '{cluster.access.alias}'", row.error_code)
            found[partition] = row.offset
    return found


class InternalTopic:
    """A topic that is read from its beginning, and from then on what is new."""

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        isolation: int = READ_COMMITTED,
        *,
        newest: int | None = None,
        waits: bool = False,
    ) -> None:
        """With `newest` only so many offsets before the end of each partition are read at first.

        With `waits` open transactions are waited for: without it, what is committed behind their begin is not read.
        """
        self._cluster = cluster
        self._topic = topic
        self._isolation = isolation
        self._newest = newest
        self._waits = waits
        self._next: dict[TopicPartition, int] = {}

    async def read_new(self, read: Callable[[KeyValue], T]) -> list[T]:
        """What all records say that were not read yet, partition by partition; nothing if the topic is missing.

        Records that are no such records are skipped. Raises ClientError.
        """
        cluster, topic = self._cluster, self._topic
        found = only_row((await cluster.metadata([topic])).topics, f"topic '{topic}'")
        if found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return []
        check(f"topic '{topic}' in cluster '{cluster.access.alias}'", found.error_code)
        partitions = [TopicPartition(topic, row.partition_index) for row in found.partitions]
        new = [partition for partition in partitions if partition not in self._next]
        starts = await offsets_of(cluster, new, EARLIEST, self._isolation)
        ends = await offsets_of(cluster, partitions, LATEST, READ_UNCOMMITTED if self._waits else self._isolation)
        result = []
        for partition in partitions:
            link = await cluster.broker(cluster.leader_of(partition))
            start = self._next.get(partition, starts.get(partition, 0))
            if partition in starts and self._newest is not None:
                start = max(start, ends[partition] - self._newest)
            async for record in self._records(link, partition, start, ends[partition]):
                try:
                    result.append(read(record))
                except FormatError:
                    continue
            self._next[partition] = max(start, ends[partition])
        return result

    async def _records(self, link: Link, partition: TopicPartition, start: int, end: int) -> AsyncIterator[KeyValue]:
        offset = start
        clock = asyncio.get_running_loop()
        deadline = clock.time() + WAIT_S_MAX
        while offset < end:
            data = await fetch_one(link, partition, offset, self._isolation)
            aborts = AbortedTransactions(data.aborted_transactions or ())
            before = offset
            for batch, header in _batches(partition, records_of(data)):
                offset = max(offset, header.next_offset)
                is_aborted = aborts.is_aborted(header)
                if header.is_control:
                    aborts.pass_control(batch, header)
                elif not is_aborted:
                    for record in read_any(batch, header):
                        if record.key is not None and record.offset >= start:
                            yield KeyValue(record.key, record.value, record.timestamp)
            if offset > before:
                continue
            if not self._waits or clock.time() > deadline:
                raise MirrorError(f"{partition} ends at offset {offset}, before {end}: a transaction is open")
            await asyncio.sleep(_WAIT_S)


def _batches(partition: TopicPartition, records: memoryview) -> Iterator[tuple[memoryview, BatchHeader]]:
    for entry in entries(records):
        if entry.magic != CURRENT_MAGIC:
            raise MirrorError(f"{partition} has a message of format {entry.magic}: it is no topic of a mirror")
        batch = records[entry.position : entry.position + entry.size]
        yield batch, read_header(batch)


async def read_all(
    cluster: Cluster, topic: str, read: Callable[[KeyValue], T], *, newest: int | None = None, waits: bool = False
) -> list[T]:
    """What all committed records of a topic say, or the newest of them; see `InternalTopic`."""

    async def attempt() -> list[T]:
        return await InternalTopic(cluster, topic, newest=newest, waits=waits).read_new(read)

    return await cluster.retry(attempt)


async def fetch_one(link: Link, partition: TopicPartition, offset: int, isolation: int) -> PartitionData:
    """The records of one partition from an offset on. Raises ClientError."""
    request = fetch_request({partition: offset}, _FETCH_BYTES, bytes_max=_FETCH_BYTES, isolation_level=isolation)
    response = await link.ask(request, **FETCH_BY_NAME)
    check(f"reading {partition}", response.error_code)
    data: PartitionData = only_partition(fetched_partitions(response), f"reading {partition}")
    check(f"reading {partition}", data.error_code)
    return data


def records_of(row: PartitionData) -> memoryview:
    """The records that a response has of one partition."""
    return memoryview(row.records or b"")  # type: ignore[arg-type]  # Slices of files are what brokers send.


async def write(cluster: Cluster, topic: str, partitions: int, records: Sequence[KeyValue]) -> None:
    """Append records outside of any transaction, and wait for the replicas in sync. Raises ClientError.

    What is written again after a lost response has the same key: compaction drops the first.
    """

    async def append(partition: TopicPartition, batch: bytes) -> None:
        broker_id = cluster.leader_of(partition)
        if broker_id < 0:
            await cluster.metadata([topic])
            raise Refused(str(partition), ErrorCode.LEADER_NOT_AVAILABLE)
        link = await cluster.broker(broker_id)
        response = await link.ask(produce_request({partition: batch}, PRODUCE_TIMEOUT_MS), **PRODUCE_BY_NAME)
        subject = f"writing {partition} in cluster '{cluster.access.alias}'"
        row: PartitionProduceResponse = only_partition(produced_partitions(response), subject)
        if row.error_code:
            await cluster.metadata([topic])
        check(subject, row.error_code, row.error_message)

    for partition, (_, batch) in batches_of(topic, partitions, records).items():
        await cluster.retry(lambda partition=partition, batch=batch: append(partition, batch))  # type: ignore[misc]


def batches_of(topic: str, partitions: int, records: Sequence[KeyValue]) -> dict[TopicPartition, tuple[int, bytes]]:
    """The records as one batch for each partition, by their keys, with their number."""
    now_ms = time.time_ns() // 1_000_000
    by_partition: dict[int, list[Record]] = {}
    for one in records:
        rows = by_partition.setdefault(partition_of(one.key, partitions), [])
        rows.append(Record(len(rows), now_ms, one.key, one.value))
    return {TopicPartition(topic, number): (len(rows), build_batch(rows)) for number, rows in by_partition.items()}


def partition_of(key: bytes, partitions: int) -> int:
    """Where Java's default partitioner puts a key: its murmur2, modulo the number of partitions."""
    return (_murmur2(key) & 0x7FFF_FFFF) % partitions


def _murmur2(data: bytes) -> int:
    length = len(data)
    value = _SEEDS ^ length
    whole = length & ~3
    for position in range(0, whole, 4):
        word = int.from_bytes(data[position : position + 4], "little") * _MULTIPLIER & _MASK
        word = (word ^ word >> 24) * _MULTIPLIER & _MASK
        value = value * _MULTIPLIER & _MASK ^ word
    if length > whole:
        value = (value ^ int.from_bytes(data[whole:], "little")) * _MULTIPLIER & _MASK
    value = (value ^ value >> 13) * _MULTIPLIER & _MASK
    return value ^ value >> 15
