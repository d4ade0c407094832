"""Appends the batches of a pack to partitions of a site, on the loop of its brokers, as coordinators append theirs.

A batch is appended by the leader's `Partition.append` and acknowledged by all replicas in sync. Offsets before those of
a pack are covered by batches without records, as compaction leaves them; in an empty partition the log then starts
behind them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from sordini.packs.pack_format import COVERED_MAX, gap
from sordini.packs.pack_reader import PackedBatch, batches_of, open_pack
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records.batch import build_batch, read_header, read_records
from sordini.protocol.records.produce_validation import CheckedBatches
from sordini.replication.acks import PartitionAppend, finish_appends
from sordini.replication.partition import Partition
from sordini.storage.errors import StorageError
from sordini.testing.own_client import KitError

if TYPE_CHECKING:
    from sordini.testing.brokers.node import Node
    from sordini.testing.brokers.site import Site

COMMIT_MS: Final = 10_000
"""Until all replicas in sync have a batch."""


class _Row:
    """The outcome of an append, set by `replication/acks.py`."""

    error_code: int = ErrorCode.NONE


def load_pack(site: Site, path: str, names: Mapping[str, str], *, keeps_offsets: bool) -> None:
    """As `Cluster.load`. Raises SiteFailed, too."""
    slices = open_pack(path).slices
    targets = [(names[one.topic], one.partition) if one.topic in names else None for one in slices]
    if keeps_offsets:
        for target, one in zip(targets, slices, strict=True):
            if target is not None:
                site.call(_begin_at(site, *target, one.start_offset), None)
    for batch in batches_of(path):
        target = targets[batch.number]
        data = batch.data if keeps_offsets else _dense(batch)
        if target is not None and data:
            site.call(_append(site, *target, data, batch.header.base_offset if keeps_offsets else None))


async def _begin_at(site: Site, topic: str, number: int, offset: int) -> None:
    """Let a partition's log end at an offset; an empty one starts there, too. Raises KitError."""
    partition = (await _led(site, topic, number))[1]
    is_empty = partition.log.log_start_offset == partition.log.log_end_offset
    while (end := partition.log.log_end_offset) < offset:
        await _append(site, topic, number, gap(end, min(offset, end + COVERED_MAX)), end)
        partition = (await _led(site, topic, number))[1]
    if is_empty:
        partition.log.advance_log_start(offset)


async def _append(site: Site, topic: str, number: int, data: bytes, offset: int | None) -> None:
    """Append a batch, at an offset that must be the log's end; None: wherever that is. Raises KitError."""
    node, partition = await _led(site, topic, number)
    end = partition.log.log_end_offset
    if offset not in (None, end):
        raise KitError(f"partition {number} of topic {topic!r} ends at offset {end} now, and {offset} must follow")
    assert node.process is not None
    appending = node.process.spawn(_appended(site, partition, data))
    await asyncio.wait([appending, node.process.died], return_when=asyncio.FIRST_COMPLETED)
    if not appending.done():
        raise KitError(f"broker {node.number} ended while records were loaded into topic {topic!r}")
    code = appending.result()
    if code:
        raise KitError(f"partition {number} of topic {topic!r}: {ErrorCode(code).name}")


async def _appended(site: Site, partition: Partition, data: bytes) -> int:
    """The error code of an append that has ended."""
    row, buffer = _Row(), bytearray(data)
    try:
        checked = CheckedBatches(memoryview(buffer), [(0, read_header(buffer))])
        end_offset = partition.append(checked, site.now_ms(), all_replicas=True).end_offset
        append = PartitionAppend(partition, partition.require_leader(), end_offset, row)
        unfinished = finish_appends([append], all_replicas=True)
        if unfinished is not None:
            await unfinished.wait(asyncio.get_running_loop().call_later, COMMIT_MS)
    except BrokerError as error:
        return error.code
    except StorageError:
        return ErrorCode.KAFKA_STORAGE_ERROR
    return row.error_code


async def _led(site: Site, topic: str, number: int) -> tuple[Node, Partition]:
    """The leader of a partition, once there is one. Raises SiteFailed."""
    found: list[tuple[Node, Partition]] = []

    def is_led() -> bool:
        for node in site.running:
            replicas = None if node.server is None else node.server.replicas
            partition = None if replicas is None else replicas.get(topic, number)
            if partition is not None and partition.leader is not None:
                found.append((node, partition))
        return bool(found)

    await site.until(is_led, f"partition {number} of topic {topic!r} has a leader")
    return max(found, key=lambda candidate: candidate[1].leader_epoch)


def _dense(batch: PackedBatch) -> bytes:
    """A batch with its records one after the other; empty without records."""
    records = [record._replace(offset=number) for number, record in enumerate(read_records(batch.data, batch.header))]
    header = batch.header
    return build_batch(records, codec=header.codec, log_append_time=header.is_log_append_time) if records else b""
