"""The producer of `sordini produce`: lines become records, aiokafka batches and retries, deliveries are counted.

A record that cannot be delivered ends the command: later lines are not sent. The command waits for the records sent
before, so that the count is right, but gives up when none is acknowledged within the timeout: aiokafka may wait
forever (for a producer id, for example).
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from sordini.admin.cluster_client import ClusterClient, check_topic
from sordini.admin.failure import Failure
from sordini.cli.commands.records.aiokafka_clients import configure_aiokafka, stop_client
from sordini.cli.commands.records.input_lines import read_lines
from sordini.cli.commands.records.line_formats import BadLine, OutgoingRecord
from sordini.cli.common.client_security import aiokafka_options
from sordini.cli.common.options import Client
from sordini.cli.common.output import ProgressLine, print_json, size_text
from sordini.cli.common.terminal import echo, is_terminal
from sordini.client.errors import ClientError, Refused
from sordini.protocol.errors import ErrorCode
from sordini.system.clock import SystemClock
from sordini.system.named_tuple import NamedTuple

CLIENT_ID = "sordini-cli"
BATCH_BYTES = 256 * 1024
REQUEST_BYTES_MAX = 64 * 1024 * 1024
"""The broker's message.max.bytes is the effective limit; this one must only be larger."""
NOT_IN_TIME = "the broker did not take them in time"
WAITING_MAX = 20_000
"""Records in flight, beyond which no more lines are read."""


class ProduceOptions(NamedTuple):
    """What to send where, and how. Without a partition, the record's own is used, or the producer chooses one."""

    topic: str
    path: str | None
    read: Callable[[bytes], OutgoingRecord]
    partition: int | None
    acks: str
    compression: str | None


class DeliveryCounts:
    """How many records were sent, acknowledged and failed so far."""

    def __init__(self) -> None:
        self.clock = SystemClock()
        self.started_ms = self.clock.monotonic_ms()
        self.sent = 0
        self.sent_bytes = 0
        self.delivered = 0
        self.settled = 0
        self.waiting = 0
        self.problem: str | None = None
        self.room = asyncio.Event()
        self.room.set()

    def take(self, record: OutgoingRecord) -> None:
        """Count one more record in flight."""
        self.sent += 1
        self.sent_bytes += len(record.key or b"") + len(record.value or b"")
        self.waiting += 1
        if self.waiting >= WAITING_MAX:
            self.room.clear()

    def settle(self, delivery: asyncio.Future[Any]) -> None:
        """Count one record as acknowledged or failed."""
        self.waiting -= 1
        self.settled += 1
        if self.waiting < WAITING_MAX // 2:
            self.room.set()
        if delivery.cancelled():
            return
        error = delivery.exception()
        if error is None:
            self.delivered += 1
        elif self.problem is None:
            self.problem = _error_text(error)

    def text(self) -> str:
        """One readable line: records, bytes, rate."""
        seconds = max(self.clock.monotonic_ms() - self.started_ms, 1) / 1000
        noun = "record" if self.delivered == 1 else "records"
        rate = f"{self.delivered / seconds:,.0f} records/s"
        return f"{self.delivered:,} {noun} ({size_text(self.sent_bytes)}) in {seconds:.1f} s, {rate}"

    def failure(self) -> str:
        """The error, with the number of records not delivered; lines that were not read are not counted."""
        lost = self.sent - self.delivered
        if not lost:
            return f"{self.problem}; nothing after it was sent"
        return f"{lost:,} {'record was' if lost == 1 else 'records were'} not delivered: {self.problem}"

    def document(self, topic: str) -> dict[str, Any]:
        """The counts as JSON."""
        return {
            "topic": topic,
            "records": self.delivered,
            "failed": self.sent - self.delivered,
            "bytes": self.sent_bytes,
            "seconds": (self.clock.monotonic_ms() - self.started_ms) / 1000,
        }


def send_records(client: Client, options: ProduceOptions) -> None:
    """Send all records and print the counts. Raises Failure."""
    asyncio.run(_send(client, options))


async def _send(client: Client, options: ProduceOptions) -> None:
    partitions = await client.on_cluster(lambda cluster: _existing_or_created(cluster, options.topic))
    if options.partition is not None and options.partition >= partitions:
        raise Failure(f"topic '{options.topic}' has no partition {options.partition} (it has {partitions}, from 0 on)")
    if options.path is None and is_terminal(sys.stdin) and is_terminal(sys.stderr):
        echo("One record per line; Ctrl-D ends the input.", err=True)
    counts = DeliveryCounts()
    producer = await _producer(client, options)
    try:
        await _send_lines(producer, options, partitions, counts, client.timeout_s)
    except _errors() as error:
        counts.problem = counts.problem or await _failure_text(error, client, options.topic)
    finally:
        problem = await stop_client(producer)
    counts.problem = counts.problem or problem
    if client.as_json:
        print_json(counts.document(options.topic))
    elif counts.delivered or counts.problem is None:
        echo(f"{options.topic}: {counts.text()}")
    if counts.problem is not None:
        raise Failure(counts.failure())


async def _existing_or_created(cluster: ClusterClient, topic: str) -> int:
    """The number of partitions of a topic, which the brokers create where auto.create.topics.enable lets them."""
    try:
        return await _partition_count(cluster, topic)
    except Refused as refused:
        if refused.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise

    async def created() -> int:
        (found,) = (await cluster.metadata([topic], creates=True)).topics
        if found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            reason = f"there is no such topic, and the brokers create none; `sordini topics create {topic}` does"
            raise Refused(f"topic '{topic}'", found.error_code, reason)
        check_topic(topic, found.error_code)
        return len(found.partitions)

    partitions = await cluster.retry(created)
    counted = "1 partition" if partitions == 1 else f"{partitions} partitions"
    echo(f"sordini: topic '{topic}' did not exist: it was created with {counted}", err=True)
    return partitions


async def _partition_count(cluster: ClusterClient, topic: str) -> int:
    (found,) = await cluster.retry(lambda: cluster.topics([topic]))
    return len(found.partitions)


async def _producer(client: Client, options: ProduceOptions) -> Any:
    # Imported here: it takes a while, and many errors have been reported before.
    from aiokafka import AIOKafkaProducer  # type: ignore[import-untyped]

    configure_aiokafka()
    producer = AIOKafkaProducer(
        bootstrap_servers=client.bootstrap.split(","),
        client_id=CLIENT_ID,
        acks="all" if options.acks == "all" else int(options.acks),
        enable_idempotence=options.acks == "all",
        compression_type=options.compression,
        max_batch_size=BATCH_BYTES,
        max_request_size=REQUEST_BYTES_MAX,
        request_timeout_ms=int(client.timeout_s * 1000),
        **aiokafka_options(),
    )
    has_started = False
    try:
        async with asyncio.timeout(client.timeout_s):
            await producer.start()
        has_started = True
    except TimeoutError:
        raise Failure(f"gave up after {client.timeout_s:g} s: the cluster did not answer") from None
    except _errors() as error:
        raise Failure(_error_text(error)) from None
    finally:
        if not has_started:
            await stop_client(producer)
    return producer


async def _send_lines(
    producer: Any, options: ProduceOptions, partitions: int, counts: DeliveryCounts, timeout_s: float
) -> None:
    progress = ProgressLine(counts.clock)
    number = 0
    try:
        async for line in read_lines(options.path):
            number += 1
            try:
                record = _with_partition(options.read(line), options, partitions)
            except BadLine as problem:
                counts.problem = f"line {number}: {problem}"
                return
            if not counts.room.is_set():
                await _wait_while_delivering(counts.room.wait(), counts, timeout_s)
            if counts.problem is not None:
                return
            counts.take(record)
            (await _enqueue(producer, options, record)).add_done_callback(counts.settle)
            progress.show(f"{counts.sent:,} records")
        await _wait_while_delivering(producer.flush(), counts, timeout_s)
    finally:
        progress.clear()


async def _wait_while_delivering(waited: Coroutine[Any, Any, object], counts: DeliveryCounts, timeout_s: float) -> None:
    """Wait as long as records settle meanwhile; if none does within the timeout, set the problem."""
    waiting = asyncio.ensure_future(waited)
    settled = -1
    try:
        while not waiting.done() and settled != counts.settled:
            settled = counts.settled
            await asyncio.wait([waiting], timeout=timeout_s)
    finally:
        is_over = waiting.done() or not waiting.cancel()
    if is_over:
        waiting.result()
    else:
        counts.problem = counts.problem or NOT_IN_TIME


def _with_partition(record: OutgoingRecord, options: ProduceOptions, partitions: int) -> OutgoingRecord:
    """The record with the command line's partition, or its own if the topic has that one."""
    if options.partition is not None:
        return record._replace(partition=options.partition)
    if record.partition is not None and record.partition >= partitions:
        raise BadLine(f"topic '{options.topic}' has no partition {record.partition} (it has {partitions}, from 0 on)")
    return record


async def _enqueue(producer: Any, options: ProduceOptions, record: OutgoingRecord) -> asyncio.Future[Any]:
    future: asyncio.Future[Any] = await producer.send(
        options.topic, record.value, record.key, record.partition, record.timestamp, record.headers
    )
    return future


def _errors() -> tuple[type[Exception], ...]:
    from aiokafka.errors import KafkaError  # type: ignore[import-untyped]

    return (KafkaError, ValueError, AssertionError)


async def _failure_text(error: BaseException, client: Client, topic: str) -> str:
    """As `_error_text`; for a topic that aiokafka did not find in time, the cluster's own answer, if it answers."""
    from aiokafka.errors import UnknownTopicOrPartitionError

    if not isinstance(error, UnknownTopicOrPartitionError):
        return _error_text(error)
    try:
        await client.on_cluster(lambda cluster: _partition_count(cluster, topic))
    except ClientError as failure:
        return str(failure)
    return NOT_IN_TIME


def _error_text(error: BaseException) -> str:
    """The text of an aiokafka error."""
    from aiokafka.errors import BrokerResponseError, KafkaTimeoutError

    if isinstance(error, BrokerResponseError):
        return str(Refused("the broker answered", error.errno))
    if isinstance(error, KafkaTimeoutError):
        return NOT_IN_TIME
    return str(error) or type(error).__name__
