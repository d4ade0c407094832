"""First and end offsets of partitions, and offsets for timestamps: ListOffsets requests to each partition's leader."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from sordini.cli.cluster_client import ClusterClient, check
from sordini.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from sordini.protocol.types import TopicPartition

LATEST: Final = -1
EARLIEST: Final = -2
LARGEST_TIMESTAMP: Final = -3
READ_COMMITTED: Final = 1


class OffsetAndTimestamp(NamedTuple):
    """One answer: the offset and the record's timestamp (ms); None if there is no such record or no timestamp."""

    offset: int | None
    timestamp: int | None


class OffsetRange(NamedTuple):
    """A partition's first offset and its end offset (the offset of the next record)."""

    earliest: int
    latest: int


async def offsets_for_times(
    cluster: ClusterClient, wanted: Mapping[TopicPartition, int], *, isolation_level: int = 0
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """Per partition, the offset of the first record at or after a timestamp (ms), or at one of the constants above."""

    async def attempt() -> dict[TopicPartition, OffsetAndTimestamp]:
        found: dict[TopicPartition, OffsetAndTimestamp] = {}
        for broker_id, partitions in (await cluster.leaders(wanted)).items():
            link = await cluster.broker(broker_id)
            topics = _by_topic({partition: wanted[partition] for partition in partitions})
            request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation_level, topics=topics)
            found |= _read(await link.ask(request))
        return found

    return await cluster.retry(attempt)


async def offset_ranges(
    cluster: ClusterClient, partitions: Iterable[TopicPartition], *, isolation_level: int = 0
) -> dict[TopicPartition, OffsetRange]:
    """The first and end offset of each partition."""
    wanted = list(partitions)
    earliest = await offsets_for_times(cluster, dict.fromkeys(wanted, EARLIEST), isolation_level=isolation_level)
    latest = await offsets_for_times(cluster, dict.fromkeys(wanted, LATEST), isolation_level=isolation_level)
    return {
        partition: OffsetRange(earliest[partition].offset or 0, latest[partition].offset or 0) for partition in wanted
    }


def _by_topic(wanted: Mapping[TopicPartition, int]) -> list[ListOffsetsTopic]:
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for (topic, partition), timestamp in wanted.items():
        row = ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
        topics.setdefault(topic, []).append(row)
    return [ListOffsetsTopic(name=name, partitions=rows) for name, rows in topics.items()]


def _read(answer: ListOffsetsResponse) -> dict[TopicPartition, OffsetAndTimestamp]:
    found = {}
    for topic in answer.topics:
        for row in topic.partitions:
            partition = TopicPartition(topic.name, row.partition_index)
            check(f"partition {partition}", row.error_code)
            found[partition] = OffsetAndTimestamp(
                *(None if number < 0 else number for number in (row.offset, row.timestamp))
            )
    return found
