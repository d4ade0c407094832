"""Produce, Fetch and ListOffsets as messages to send to leaders, and answers to read. Pure.

    response = await link.ask(fetch_request({partition: offset}, 1 << 20), **FETCH_BY_NAME)
    data = only_partition(fetched_partitions(response), f"reading {partition}")

Topics are named by their names, so the versions have an upper bound. Several requests may be in flight on one link.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from sordini.client.errors import only_row
from sordini.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from sordini.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from sordini.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from sordini.protocol.types import TopicPartition

FETCH_BY_NAME: Final = {"at_least": 4, "at_most": 12}
"""Versions with an isolation level, and with the names of topics."""
PRODUCE_BY_NAME: Final = {"at_least": 3, "at_most": 11}
"""Versions with record batches, and the last in which a transaction's partitions are added beforehand (KIP-890)."""
OFFSETS_BY_NAME: Final = {"at_least": 1}
"""Versions that answer with one offset, not a list of segments."""
EARLIEST: Final = -2
"""As a requested time: the log start offset."""
LATEST: Final = -1
"""As a requested time: the high watermark, or the last stable offset with READ_COMMITTED."""
READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
ALL_IN_SYNC: Final = -1
_CONSUMER: Final = -1
_BYTES_MAX: Final = 2**31 - 1


def produce_request(
    batches: Mapping[TopicPartition, bytes | bytearray | memoryview],
    timeout_ms: int,
    *,
    acks: int = ALL_IN_SYNC,
    transactional_id: str | None = None,
) -> ProduceRequest:
    """A request with one batch for each partition."""
    rows = {
        partition: PartitionProduceData(index=partition.partition, records=memoryview(batch))
        for partition, batch in batches.items()
    }
    topics = [TopicProduceData(name=topic, partition_data=found) for topic, found in _by_topic(rows).items()]
    return ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=timeout_ms, topic_data=topics)


def fetch_request(
    offsets: Mapping[TopicPartition, int],
    partition_bytes: int,
    *,
    bytes_max: int = _BYTES_MAX,
    wait_ms: int = 0,
    isolation_level: int = READ_UNCOMMITTED,
) -> FetchRequest:
    """For records from these offsets on, in this order; `wait_ms` is for the first byte where there is none."""
    rows = {
        partition: FetchPartition(
            partition=partition.partition, fetch_offset=offset, partition_max_bytes=partition_bytes
        )
        for partition, offset in offsets.items()
    }
    return FetchRequest(
        replica_id=_CONSUMER,
        max_wait_ms=wait_ms,
        min_bytes=1 if wait_ms else 0,
        max_bytes=bytes_max,
        isolation_level=isolation_level,
        topics=[FetchTopic(topic=topic, partitions=found) for topic, found in _by_topic(rows).items()],
    )


def offsets_request(
    times: Mapping[TopicPartition, int],
    *,
    epochs: Mapping[TopicPartition, int] | None = None,
    isolation_level: int = READ_UNCOMMITTED,
) -> ListOffsetsRequest:
    """For the first offset at or after a time (ms), EARLIEST or LATEST; `epochs` has the expected leader epochs."""
    known = epochs or {}
    rows = {
        partition: ListOffsetsPartition(
            partition_index=partition.partition, timestamp=time, current_leader_epoch=known.get(partition, -1)
        )
        for partition, time in times.items()
    }
    topics = [ListOffsetsTopic(name=topic, partitions=found) for topic, found in _by_topic(rows).items()]
    return ListOffsetsRequest(replica_id=_CONSUMER, isolation_level=isolation_level, topics=topics)


def produced_partitions(response: ProduceResponse) -> Iterator[tuple[TopicPartition, PartitionProduceResponse]]:
    """The rows of a Produce response."""
    for topic in response.responses:
        for row in topic.partition_responses:
            yield TopicPartition(topic.name, row.index), row


def fetched_partitions(response: FetchResponse) -> Iterator[tuple[TopicPartition, PartitionData]]:
    """The rows of a Fetch response."""
    for topic in response.responses:
        for row in topic.partitions:
            yield TopicPartition(topic.topic, row.partition_index), row


def listed_partitions(response: ListOffsetsResponse) -> Iterator[tuple[TopicPartition, ListOffsetsPartitionResponse]]:
    """The rows of a ListOffsets response."""
    for topic in response.topics:
        for row in topic.partitions:
            yield TopicPartition(topic.name, row.partition_index), row


def only_partition(rows: Iterable[tuple[TopicPartition, Any]], subject: str) -> Any:
    """The row of a response about one partition. Raises ClientError for any other number."""
    return only_row(list(rows), subject)[1]


def _by_topic(rows: Mapping[TopicPartition, Any]) -> dict[str, list[Any]]:
    topics: dict[str, list[Any]] = {}
    for partition, row in rows.items():
        topics.setdefault(partition.topic, []).append(row)
    return topics
