"""One record to a topic, as a person writes it: acknowledged by all replicas in sync, and never sent twice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sordini.admin.cluster_client import ClusterClient
from sordini.admin.failure import Failure
from sordini.client.errors import Disconnected, check
from sordini.client.record_requests import PRODUCE_BY_NAME, only_partition, produce_request, produced_partitions
from sordini.mirror.internal_topics import partition_of
from sordini.protocol.records.batch import Record, build_batch
from sordini.protocol.types import TopicPartition
from sordini.system.clock import SystemClock

TIMEOUT_MS: Final = 10_000
"""After it the leader answers REQUEST_TIMED_OUT."""

Headers = Sequence[tuple[str, bytes | None]]


async def produce_record(
    cluster: ClusterClient,
    topic: str,
    partition: int | None,
    key: bytes | None,
    value: bytes | None,
    headers: Headers = (),
) -> tuple[TopicPartition, int]:
    """Where the record is: its partition and offset. Without a partition the key chooses, as in Java's producer.

    Raises ClientError; after a broken connection it is not known whether the record was appended.
    """
    if partition is None:
        (described,) = await cluster.retry(lambda: cluster.topics([topic]))
        partition = partition_of(key, len(described.partitions)) if key is not None else 0
    name = TopicPartition(topic, partition)
    record = Record(0, SystemClock().now_ms(), key, value, tuple(headers))
    request = produce_request({name: build_batch([record])}, TIMEOUT_MS)

    async def attempt() -> int:
        (leader,) = await cluster.leaders([name])
        link = await cluster.broker(leader)
        try:
            answer = await link.ask(request, **PRODUCE_BY_NAME)
        except Disconnected as error:
            # Not temporary, unlike its cause: an attempt more could append the record a second time.
            raise Failure(f"{error}; it is not known whether the record was appended") from None
        row = only_partition(produced_partitions(answer), f"partition {name}")
        check(f"partition {name}", row.error_code, row.error_message)
        offset: int = row.base_offset
        return offset

    return name, await cluster.retry(attempt)
