"""First and end offsets of partitions, and offsets for timestamps: ListOffsets requests to each partition's leader."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from sordini.admin.cluster_client import ClusterClient
from sordini.client.errors import check
from sordini.client.record_requests import EARLIEST, LATEST, listed_partitions, offsets_request
from sordini.protocol.messages.list_offsets import ListOffsetsResponse
from sordini.protocol.types import TopicPartition
from sordini.system.named_tuple import NamedTuple

LARGEST_TIMESTAMP: Final = -3


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
            times = {partition: wanted[partition] for partition in partitions}
            found |= _read(await link.ask(offsets_request(times, isolation_level=isolation_level)))
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


def _read(answer: ListOffsetsResponse) -> dict[TopicPartition, OffsetAndTimestamp]:
    found = {}
    for partition, row in listed_partitions(answer):
        check(f"partition {partition}", row.error_code)
        found[partition] = OffsetAndTimestamp(
            *(None if number < 0 else number for number in (row.offset, row.timestamp))
        )
    return found
