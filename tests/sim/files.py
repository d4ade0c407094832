"""What the files of a log directory say, read without the broker's help."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from sordini.protocol.errors import BrokerError
from sordini.protocol.records.batch import HEADER_SIZE, read_header
from sordini.protocol.types import TopicPartition
from tests.sim.client import ProtocolViolation
from tests.sim.consumer import records_in
from tests.sim.history import Dump, Seen

INDEX_ENTRY = struct.Struct(">ii")
TIME_ENTRY = struct.Struct(">qi")


class _Found(NamedTuple):
    base: int
    seen: list[Seen]


def dumps_of(at: float, visible: Mapping[str, bytes], synced: Mapping[str, bytes]) -> dict[TopicPartition, Dump]:
    """Every partition's log out of the files that a process sees, and out of those that are on the disk."""
    certain = _logs(synced)
    dumps: dict[TopicPartition, Dump] = {}
    for partition, (base, seen) in _logs(visible).items():
        on_disk = certain.get(partition)
        synced_end = on_disk.seen[-1].offset + 1 if on_disk is not None and on_disk.seen else 0
        dumps[partition] = Dump(at, partition, tuple(seen), synced_end, base)
    return dumps


def partitions_in(directory: str, tree: Mapping[str, bytes]) -> list[TopicPartition]:
    """The partitions whose logs are in a log directory."""
    return sorted(_logs({path: b"" for path in tree if path.startswith(f"{directory}/")}))


def index_findings(tree: Mapping[str, bytes]) -> Iterator[str]:
    """After a clean stop: every index entry of every segment points at what the segment holds there (I13)."""
    for path, data in sorted(tree.items()):
        if not path.endswith(".log") or not _is_partition(path.rpartition("/")[0]):
            continue
        stem, base = path.removesuffix(".log"), int(path.rpartition("/")[2].removesuffix(".log"))
        batches = dict(_batches(data))
        yield from _check_offsets(stem, base, batches, tree.get(f"{stem}.index"))
        yield from _check_times(stem, base, batches, tree.get(f"{stem}.timeindex"))


def _check_offsets(stem: str, base: int, batches: dict[int, tuple[int, int]], index: bytes | None) -> Iterator[str]:
    if index is None:
        yield f"I13 {stem}.index is missing after a clean stop"
        return
    last = -1
    for relative, position in INDEX_ENTRY.iter_unpack(index):
        known = batches.get(position)
        if known is None or known[0] != base + relative or relative <= last:
            yield f"I13 {stem}.index says @{base + relative} is at {position}, where {known} is"
        last = relative


def _check_times(stem: str, base: int, batches: dict[int, tuple[int, int]], index: bytes | None) -> Iterator[str]:
    if index is None:
        yield f"I13 {stem}.timeindex is missing after a clean stop"
        return
    newest: dict[int, int] = {}
    so_far = -1
    for last_offset, timestamp in batches.values():
        so_far = max(so_far, timestamp)
        newest[last_offset] = so_far
    ends = sorted(newest)
    for timestamp, relative in TIME_ENTRY.iter_unpack(index):
        # The entry may name any offset of the batch that brought the newest time.
        holder = next((end for end in ends if end >= base + relative), None)
        if timestamp >= 0 and (holder is None or newest[holder] != timestamp):
            yield f"I13 {stem}.timeindex says {timestamp} is the newest up to @{base + relative}"


def _batches(data: bytes) -> Iterator[tuple[int, tuple[int, int]]]:
    position = 0
    while position + HEADER_SIZE <= len(data):
        header = read_header(data, position)
        yield position, (header.last_offset, header.max_timestamp)
        position += header.size


def _logs(tree: Mapping[str, bytes]) -> dict[TopicPartition, _Found]:
    found: dict[TopicPartition, _Found] = {}
    for path, data in sorted(tree.items()):
        directory, _, name = path.rpartition("/")
        if not name.endswith(".log") or not _is_partition(directory):
            continue
        topic, _, number = directory.rpartition("/")[2].rpartition("-")
        partition, base = TopicPartition(topic, int(number)), int(name.removesuffix(".log"))
        log = found.setdefault(partition, _Found(base, []))
        if base != (log.seen[-1].offset + 1 if log.seen else log.base):
            continue
        for record in _until_damage(path, data):
            if record.offset != (log.seen[-1].offset + 1 if log.seen else log.base):
                break
            log.seen.append(record)
    return found


def _is_partition(directory: str) -> bool:
    return directory.rpartition("/")[2].rpartition("-")[2].isdigit()


def _until_damage(path: str, data: bytes) -> Iterator[Seen]:
    """The records up to the first byte that is not a right batch: where a recovery would cut."""
    try:
        yield from records_in(path, memoryview(data))
    except (ProtocolViolation, BrokerError):
        return
