"""A writing task: produces the rows of Arrow batches to topics, with aiokafka. Runs in Spark's Python workers.

At least once: the task returns when every record is acknowledged. A task that Spark restarts, or a micro-batch that is
repeated after a crash, writes all of its records again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection, Iterator, Mapping
from typing import Any, Final, TypeVar

import pyarrow as pa
from aiokafka import AIOKafkaProducer  # type: ignore[import-untyped]
from aiokafka.abc import AbstractTokenProvider  # type: ignore[import-untyped]
from aiokafka.errors import (  # type: ignore[import-untyped]
    KafkaConnectionError,
    KafkaError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)

from sordini.client.authentication import OAUTHBEARER
from sordini.client.errors import Unauthorized
from sordini.pipeline.errors import PipelineError
from sordini.pipeline.source.client import Client, ClientSettings
from sordini.pipeline.source.client.connection_pool import refusal
from sordini.pipeline.source.client.tokens import TokenSource
from sordini.pipeline.source.client.transport import tls_context
from sordini.pipeline.source.outgoing_rows import NotWritten, OutgoingRow, PartitionChooser, outgoing_rows
from sordini.pipeline.source.sink_options import SinkOptions
from sordini.protocol.errors import ErrorCode

T = TypeVar("T")

_NEEDED: Final[Mapping[int, str]] = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "it needs WRITE on the topic, and CREATE where there is none yet",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: (
        "it needs WRITE on the topic; old brokers also require IDEMPOTENT_WRITE on the cluster"
    ),
}


def write_records(batches: Iterator[pa.RecordBatch], options: SinkOptions) -> int:
    """Write all rows, and return how many once all are acknowledged. Raises NotWritten, Unauthorized, Unreachable."""
    return asyncio.run(_write(batches, options))


async def _write(batches: Iterator[pa.RecordBatch], options: SinkOptions) -> int:
    count = 0
    producer = AIOKafkaProducer(**_settings(options))
    try:
        await _start(producer, options)
        for batch in batches:
            # Everything is acknowledged before the next batch is read from Spark: reading may take any time, and
            # the event loop is blocked meanwhile.
            await _write_batch(producer, batch, options)
            count += batch.num_rows
    finally:
        await producer.stop()
    return count


async def _start(producer: AIOKafkaProducer, options: SinkOptions) -> None:
    try:
        await producer.start()
    except KafkaConnectionError as error:
        # aiokafka logs the reason, and raises an error without it: our client has the same settings, and a sentence.
        with Client(options.client) as client:
            client.check()
        raise NotWritten(f"records were not written: {error!r}") from error
    except KafkaError as error:
        # The only request besides is InitProducerId, which names no topic.
        raise _failure(error, "a producer" if options.topic is None else f"topic '{options.topic}'", options) from error


async def _write_batch(producer: AIOKafkaProducer, batch: pa.RecordBatch, options: SinkOptions) -> None:
    filling: dict[tuple[str, int], Any] = {}
    under_way = []
    choosers: dict[str, PartitionChooser] = {}
    for row in outgoing_rows(batch, options.topic):
        if row.topic not in choosers:
            partitions = await _named(_partitions_of(producer, row.topic), row.topic, options)
            choosers[row.topic] = PartitionChooser(row.topic, sorted(partitions))
        chooser = choosers[row.topic]
        place = (row.topic, chooser.partition_of(row))
        if place not in filling:
            filling[place] = producer.create_batch()
        if not _append(filling[place], row):
            under_way.append((row.topic, await _sent(producer, filling[place], place, options)))
            chooser.next_partition()
            filling[place] = producer.create_batch()
            _append(filling[place], row)  # The first record of a batch is taken whatever its size.
    for place, builder in filling.items():
        under_way.append((place[0], await _sent(producer, builder, place, options)))
    await asyncio.gather(*(_named(sent, topic, options) for topic, sent in under_way))


async def _partitions_of(producer: AIOKafkaProducer, topic: str) -> Collection[int]:
    """The partitions of a topic, created if need be; as aiokafka, but a refusal is told however late it came.

    aiokafka looks at the clock before it looks for a refusal: one that takes as long as a request may (a stalled
    machine) is reported as a topic that does not exist.
    """
    try:
        partitions: Collection[int] = await producer.partitions_for(topic)
    except UnknownTopicOrPartitionError:
        if topic in producer.client.cluster.unauthorized_topics:
            raise TopicAuthorizationFailedError(topic) from None
        raise
    return partitions


async def _sent(
    producer: AIOKafkaProducer, builder: Any, place: tuple[str, int], options: SinkOptions
) -> asyncio.Future[Any]:
    """What a full batch's acknowledgement will be, when there was room for the batch."""
    topic, partition = place
    sent: asyncio.Future[Any] = await _named(producer.send_batch(builder, topic, partition=partition), topic, options)
    return sent


async def _named(work: Awaitable[T], topic: str, options: SinkOptions) -> T:
    """The result of work on a topic, with errors that name it: those of aiokafka often do not."""
    try:
        return await work
    except KafkaError as error:
        raise _failure(error, f"topic '{topic}'", options) from error


def _failure(error: KafkaError, subject: str, options: SinkOptions) -> PipelineError:
    code = getattr(error, "errno", None)
    if code is not None and code in _NEEDED:
        return Unauthorized(f"{refusal(code, subject, options.client)}: {_NEEDED[code]}")
    return NotWritten(f"{subject}: records were not written: {error!r}")


def _append(builder: Any, row: OutgoingRow) -> bool:
    """False when the batch is full."""
    return builder.append(timestamp=None, key=row.key, value=row.value, headers=row.headers) is not None


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
    if isinstance(client.sasl, TokenSource):
        settings |= {"sasl_mechanism": OAUTHBEARER, "sasl_oauth_token_provider": _TokenProvider(client.sasl)}
    elif client.sasl is not None:
        settings |= {
            "sasl_mechanism": client.sasl.mechanism,
            "sasl_plain_username": client.sasl.username,
            "sasl_plain_password": client.sasl.password,
        }
    return settings


class _TokenProvider(AbstractTokenProvider):  # type: ignore[misc]
    """Tokens as aiokafka asks for them."""

    def __init__(self, source: TokenSource) -> None:
        self._source = source

    async def token(self) -> str:
        # In a thread of its own: a callback or an issuer may take long.
        credentials = await asyncio.to_thread(self._source.credentials)
        return credentials.password

    def extensions(self) -> dict[str, str]:
        return dict(self._source.extensions)
