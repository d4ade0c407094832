"""What `sordini topics pack` does: the slices are chosen, then read one after another, masked, and written."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from sordini.admin.cluster_client import ClusterClient
from sordini.admin.config_requests import DEFAULT, TOPIC, Resource, describe_configs
from sordini.admin.failure import Failure
from sordini.admin.partition_offsets import OffsetRange, offset_ranges, offsets_for_times
from sordini.admin.selections import PartitionSelection
from sordini.admin.topics.slice_fetches import SliceFetches
from sordini.admin.topics.topic_descriptions import partitions_of
from sordini.cli.common.options import Client
from sordini.cli.common.waiting_line import waiting_line
from sordini.client.record_requests import READ_COMMITTED
from sordini.packs.mask import Mask, MaskError, import_mask, masked
from sordini.packs.pack_format import Header, PackedSlice, PackedTopic
from sordini.packs.pack_writer import PackWriter
from sordini.protocol.messages.fetch import PartitionData
from sordini.protocol.types import TopicPartition
from sordini.system.named_tuple import NamedTuple

ISOLATION_LEVELS: Final = {"read_committed": READ_COMMITTED, "read_uncommitted": 0}


class Limit(NamedTuple):
    """Where slices begin or end: an offset, the first record from a time on, or (both None) as the log."""

    offset: int | None
    time_ms: int | None


class PackOptions(NamedTuple):
    """What to read, and what to write."""

    wanted: Sequence[PartitionSelection]
    begin: Limit
    end: Limit
    records_max: int | None
    isolation: str
    mask: str | None
    codec: int


class PackedCounts(NamedTuple):
    """What became of one slice."""

    records: int
    left_out: int
    """By the mask."""
    end_offset: int


async def pack_topics(client: Client, options: PackOptions, path: str) -> dict[str, Any]:
    """Write the file; what is in it. Raises Failure, after which there is no file."""
    try:
        mask = None if options.mask is None else import_mask(options.mask)

        async def packed(cluster: ClusterClient) -> dict[str, Any]:
            in_time = partial(client.within_timeout, cluster)
            async with waiting_line(f"writing {path}"):
                header = await client.within_timeout(cluster, slices_of(cluster, options))
                return await Packing(cluster, options, mask, in_time).written(path, header)

        return await client.without_timeout(packed)
    except MaskError as error:
        raise Failure(f"--mask {error}") from None


class Packing:
    """Reads the slices of a header, and writes them."""

    def __init__(
        self,
        cluster: ClusterClient,
        options: PackOptions,
        mask: Mask | None,
        in_time: Callable[[Awaitable[PartitionData]], Awaitable[PartitionData]],
    ) -> None:
        """`in_time` bounds each response."""
        self._in_time = in_time
        self._cluster = cluster
        self._options = options
        self._mask = mask

    async def written(self, path: str, header: Header) -> dict[str, Any]:
        """Raises Failure and MaskError."""
        rows = []
        try:
            with PackWriter(path, header, self._options.codec) as pack:
                for number, one in enumerate(header.slices):
                    pack.begin(number)
                    counts = await self._read(pack, one)
                    pack.end(counts.end_offset)
                    rows.append({**one._asdict(), **counts._asdict()})
                return {"file": path, "bytes": pack.finish(), "slices": rows}
        except OSError as error:
            raise Failure(f"{path}: {(error.strerror or str(error)).lower()}") from None

    async def _read(self, pack: PackWriter, one: PackedSlice) -> PackedCounts:
        fetches = SliceFetches(
            self._cluster,
            TopicPartition(one.topic, one.partition),
            ISOLATION_LEVELS[self._options.isolation],
            self._in_time,
        )
        count = left_out = 0
        async for batch in fetches.batches(one.start_offset, one.end_offset):
            for record in batch.records:
                if record.offset >= one.end_offset:
                    break
                if count == self._options.records_max:
                    return PackedCounts(count, left_out, record.offset)
                written = self._masked(one, record)
                if written is None:
                    left_out += 1
                else:
                    pack.add(written, is_log_append_time=batch.is_log_append_time)
                    count += 1
        return PackedCounts(count, left_out, one.end_offset)

    def _masked(self, one: PackedSlice, record: Any) -> Any:
        if self._mask is None:
            return record
        return masked(self._mask, str(self._options.mask), one.topic, one.partition, record)


async def slices_of(cluster: ClusterClient, options: PackOptions) -> Header:
    """The slices as they are now: what is appended from now on is in none."""
    partitions = sorted(await partitions_of(cluster, options.wanted))
    names = sorted({partition.topic for partition in partitions})
    found = await cluster.retry(lambda: cluster.metadata(names))
    counts = {topic.name: len(topic.partitions) for topic in found.topics}
    configs = await describe_configs(cluster, [Resource(TOPIC, name) for name in names])
    topics = tuple(
        PackedTopic(name, counts.get(name, 0), _own_settings(rows)) for name, rows in zip(names, configs, strict=True)
    )
    ranges = await offset_ranges(cluster, partitions, isolation_level=ISOLATION_LEVELS[options.isolation])
    begins = await _offsets(cluster, options.begin, {name: one.earliest for name, one in ranges.items()}, ranges)
    ends = await _offsets(cluster, options.end, {name: one.latest for name, one in ranges.items()}, ranges)
    slices = tuple(
        PackedSlice(*partition, begins[partition], max(begins[partition], ends[partition])) for partition in partitions
    )
    return Header(found.cluster_id, options.isolation, options.mask, topics, slices)


def _own_settings(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    return {
        row["key"]: row["value"]
        for row in rows
        if row["source"] != DEFAULT and row["value"] is not None and not row["sensitive"]
    }


async def _offsets(
    cluster: ClusterClient,
    limit: Limit,
    by_default: Mapping[TopicPartition, int],
    ranges: Mapping[TopicPartition, OffsetRange],
) -> Mapping[TopicPartition, int]:
    """The offset of a limit in each partition, within what is there."""
    if limit.time_ms is not None:
        found = await offsets_for_times(cluster, dict.fromkeys(ranges, limit.time_ms))
        return {
            name: one.latest if (at := found[name].offset) is None else min(at, one.latest)
            for name, one in ranges.items()
        }
    if limit.offset is not None:
        return {name: min(max(limit.offset, one.earliest), one.latest) for name, one in ranges.items()}
    return by_default


def refuse_to_overwrite(path: str) -> None:
    """Raise Failure when there is something."""
    if Path(path).exists():
        raise Failure(f"{path}: there is such a file; --force replaces it")
