"""What an application and its test have of a run: the cluster's address, a place that outlives crashes, assertions."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition  # type: ignore[import-untyped]
from aiokafka.admin import AIOKafkaAdminClient, NewTopic  # type: ignore[import-untyped]

from sordini.packs.packed_records import KitRecord, Value, encoded
from sordini.testing.arguments import many
from sordini.testing.brokers.loop_processes import current_process
from sordini.testing.simulation.transcript import Transcript

PATIENCE_MS: Final = 120_000
"""How long the kit's own clients wait for a response: links heal, so requests need not be repeated."""
POLL_MS: Final = 1_500
EMPTY_POLLS: Final = 2
"""After so many polls without records, a partition has been read: aborted ones and markers are not returned."""


class Scenario:
    """One run, as the application, the load and the checks see it.

    The load and the checks run on a host of their own, which no fault strikes but those of brokers.
    """

    def __init__(
        self, seed: int, bootstrap_servers: str, transcript: Transcript, elapsed_s: Callable[[], float]
    ) -> None:
        self.seed = seed
        self.bootstrap_servers = bootstrap_servers
        self.random = random.Random(f"scenario {seed}")
        """For the load: what it draws is the seed's."""
        self.state: dict[str, Any] = {}
        """Outlives the application's crashes: what its database is, in a test."""
        self.findings: list[str] = []
        self._transcript = transcript
        self._elapsed_s = elapsed_s
        self._producer: AIOKafkaProducer | None = None
        self._transactional: AIOKafkaProducer | None = None

    @property
    def elapsed_s(self) -> float:
        """Virtual seconds since the applications were started."""
        return self._elapsed_s()

    @property
    def instance(self) -> int:
        """The number of the application's instance whose code calls, from 1."""
        process = current_process()
        assert process is not None
        host, _, _ = process.name.partition(".")
        kind, _, number = host.rpartition("-")
        if kind != "app":
            raise ValueError(f"the code that runs is {host}, no instance of the application")
        return int(number)

    def note(self, text: str) -> None:
        """Add a line to the transcript."""
        process = current_process()
        self._transcript.note("test" if process is None else process.name, text)

    def expect(self, holds: object, text: str) -> None:
        """Report a finding, with `text`, unless something holds. The run continues."""
        if not holds:
            self.note(f"finding: {text}")
            self.findings.append(text)

    async def send(
        self, topic: str, value: Value, *, key: Value = None, partition: int | None = None
    ) -> tuple[int, int]:
        """Append a record exactly once, and wait for it; its partition and offset."""
        if self._producer is None:
            self._producer = AIOKafkaProducer(
                bootstrap_servers=self.bootstrap_servers, enable_idempotence=True, request_timeout_ms=PATIENCE_MS
            )
            await self._producer.start()
        appended = await self._producer.send_and_wait(topic, encoded(value), encoded(key), partition)
        return appended.partition, appended.offset

    async def send_together(self, topic: str, values: Value | Iterable[Value], *, commits: bool = True) -> bool:
        """Append records in one transaction, and commit or abort it; returns `commits`. Raises KafkaError."""
        if self._transactional is None:
            self._transactional = AIOKafkaProducer(
                bootstrap_servers=self.bootstrap_servers,
                transactional_id="scenario",
                request_timeout_ms=PATIENCE_MS,
                transaction_timeout_ms=PATIENCE_MS,
            )
            await self._transactional.start()
        producer = self._transactional
        await producer.begin_transaction()
        for value in many(values):
            await producer.send_and_wait(topic, encoded(value))
        if commits:
            await producer.commit_transaction()
        else:
            await producer.abort_transaction()
        return commits

    async def read(self, topic: str) -> list[KitRecord]:
        """All records of a topic, without those of aborted and open transactions."""
        async with _reader(self.bootstrap_servers) as consumer:
            partitions = await _partitions(consumer, topic)
            return await _read(consumer, dict.fromkeys(partitions, 0))

    async def unread(self, group: str) -> list[KitRecord]:
        """The records of a group's topics from its committed offsets on."""
        async with _reader(self.bootstrap_servers) as consumer:
            admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap_servers, request_timeout_ms=PATIENCE_MS)
            await admin.start()
            try:
                committed = await admin.list_consumer_group_offsets(group)
            finally:
                await admin.close()
            starts = {partition: found.offset for partition, found in committed.items()}
            for topic in sorted({partition.topic for partition in committed}):
                for partition in await _partitions(consumer, topic):
                    starts.setdefault(partition, 0)
            return await _read(consumer, starts)

    async def groups(self) -> list[str]:
        """The consumer groups of the cluster."""
        admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap_servers, request_timeout_ms=PATIENCE_MS)
        await admin.start()
        try:
            return sorted({found[0] for found in await admin.list_consumer_groups()})
        finally:
            await admin.close()

    async def create_topics(self, partitions: Mapping[str, int]) -> None:
        """Create topics with three replicas, or one on each broker."""
        replicas = min(self.bootstrap_servers.count(",") + 1, 3)
        admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap_servers, request_timeout_ms=PATIENCE_MS)
        await admin.start()
        try:
            await admin.create_topics([NewTopic(name, count, replicas) for name, count in partitions.items()])
        finally:
            await admin.close()

    async def close(self) -> None:
        """Close the kit's producers."""
        for producer in (self._producer, self._transactional):
            if producer is not None:
                await producer.stop()


def _reader(bootstrap_servers: str) -> AIOKafkaConsumer:
    return AIOKafkaConsumer(
        bootstrap_servers=bootstrap_servers,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        request_timeout_ms=PATIENCE_MS,
    )


async def _partitions(consumer: AIOKafkaConsumer, topic: str) -> list[TopicPartition]:
    await consumer._client.force_metadata_update()  # noqa: SLF001 - it has no public form for topics not subscribed.
    found = await consumer._client._wait_on_metadata(topic)  # noqa: SLF001
    return [TopicPartition(topic, number) for number in sorted(found)]


async def _read(consumer: AIOKafkaConsumer, starts: Mapping[TopicPartition, int]) -> list[KitRecord]:
    """The records from given offsets to the end, by partition."""
    if not starts:
        return []
    consumer.assign(sorted(starts))
    ends = await consumer.end_offsets(sorted(starts))
    for partition, offset in sorted(starts.items()):
        consumer.seek(partition, offset)
    found: dict[TopicPartition, list[KitRecord]] = {partition: [] for partition in sorted(starts)}
    open_partitions = {partition for partition in starts if starts[partition] < ends[partition]}
    empty = 0
    while open_partitions and empty < EMPTY_POLLS:
        polled = await consumer.getmany(timeout_ms=POLL_MS)
        empty = 0 if polled else empty + 1
        for partition, records in sorted(polled.items()):
            found[partition] += [_record(record) for record in records if record.offset < ends[partition]]
            if records and records[-1].offset + 1 >= ends[partition]:
                open_partitions.discard(partition)
    return [record for partition in sorted(found) for record in found[partition]]


def _record(record: Any) -> KitRecord:
    return KitRecord(
        record.topic,
        record.partition,
        record.offset,
        record.timestamp,
        record.key,
        record.value,
        tuple(record.headers),
    )
