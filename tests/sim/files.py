"""What the files of a log directory say, read without the broker's help."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from sordini.protocol.errors import BrokerError
from sordini.protocol.records.batch import HEADER_SIZE, crc_is_right, read_header, read_records
from sordini.protocol.types import TopicPartition
from tests.sim.client import ProtocolViolation
from tests.sim.consumer import records_in
from tests.sim.group_history import Key
from tests.sim.history import Dump, Seen

INDEX_ENTRY = struct.Struct(">ii")
TIME_ENTRY = struct.Struct(">qi")
OFFSETS_TOPIC = "__consumer_offsets-"


class _Found(NamedTuple):
    base: int
    seen: list[Seen]


def dumps_of(at: float, visible: Mapping[str, bytes], synced: Mapping[str, bytes]) -> dict[TopicPartition, Dump]:
    """Every partition's log out of the files that a process sees, and out of those that are on the disk."""
    certain = _logs(synced)
    compacted = {*_compacted(visible), *_compacted(synced)}
    dumps: dict[TopicPartition, Dump] = {}
    for partition, (base, seen) in _logs(visible).items():
        on_disk = certain.get(partition)
        synced_end = on_disk.seen[-1].offset + 1 if on_disk is not None and on_disk.seen else 0
        dumps[partition] = Dump(at, partition, tuple(seen), synced_end, base, partition in compacted)
    return dumps


def partitions_in(directory: str, tree: Mapping[str, bytes]) -> list[TopicPartition]:
    """The partitions whose logs are in a log directory."""
    return sorted(_logs({path: b"" for path in tree if path.startswith(f"{directory}/")}))


def committed_in(tree: Mapping[str, bytes]) -> dict[Key, tuple[str, int]]:
    """What __consumer_offsets says is committed: the note and the offset, last one wins."""
    found: dict[Key, tuple[str, int]] = {}
    ends: dict[str, int] = {}
    for path, data in sorted(tree.items()):
        directory, _, name = path.rpartition("/")
        if not name.endswith(".log") or not directory.rpartition("/")[2].startswith(OFFSETS_TOPIC):
            continue
        base = int(name.removesuffix(".log"))
        # Compaction leaves gaps; what another segment holds already is a leftover.
        if ends.setdefault(directory, base) > base:
            continue
        for offset, key, value in _pairs(data):
            ends[directory] = offset + 1
            if struct.unpack_from(">h", key)[0] == 1:
                _note(found, key, value)
    return found


def _note(found: dict[Key, tuple[str, int]], key: bytes, value: bytes | None) -> None:
    group_id, position = _text_at(key, 2)
    topic, position = _text_at(key, position)
    of = (group_id, TopicPartition(topic, struct.unpack_from(">i", key, position)[0]))
    if value is None:
        found.pop(of, None)
    else:
        version, offset = struct.unpack_from(">hq", value)
        found[of] = (_text_at(value, 14 if version >= 3 else 10)[0], offset)


def _text_at(data: bytes, position: int) -> tuple[str, int]:
    end = position + 2 + int.from_bytes(data[position : position + 2], "big")
    return data[position + 2 : end].decode(), end


def _pairs(data: bytes) -> Iterator[tuple[int, bytes, bytes | None]]:
    """Keys and values up to the first byte that is not a right batch."""
    view = memoryview(data)
    for position, size in _sizes(data):
        for record in read_records(view[position : position + size], read_header(view, position)):
            yield record.offset, bytes(record.key or b""), None if record.value is None else bytes(record.value)


def _sizes(data: bytes) -> Iterator[tuple[int, int]]:
    """Position and size of every batch that is right."""
    position, view = 0, memoryview(data)
    while len(data) - position >= HEADER_SIZE:
        try:
            header = read_header(view, position)
        except BrokerError:
            return
        is_whole = HEADER_SIZE <= header.size <= len(data) - position
        if not is_whole or not crc_is_right(view, position, header):
            return
        yield position, header.size
        position += header.size


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


def _compacted(tree: Mapping[str, bytes]) -> Iterator[TopicPartition]:
    """The broker's own partitions in which compaction has left a gap, or is at work: their offsets are not dense."""
    ends: dict[str, int] = {}
    for path, data in sorted(tree.items()):
        directory, _, name = path.rpartition("/")
        if not directory.rpartition("/")[2].startswith(OFFSETS_TOPIC) or not _is_partition(directory):
            continue
        has_gap = name.endswith((".swap", ".cleaned", ".deleted"))
        if name.endswith(".log"):
            end = ends.setdefault(directory, int(name.removesuffix(".log")))
            for record in _until_damage(path, data):
                has_gap = has_gap or record.offset != end
                end = record.offset + 1
            ends[directory] = end
        if has_gap:
            topic, _, number = directory.rpartition("/")[2].rpartition("-")
            yield TopicPartition(topic, int(number))


def _is_partition(directory: str) -> bool:
    return directory.rpartition("/")[2].rpartition("-")[2].isdigit()


def _until_damage(path: str, data: bytes) -> Iterator[Seen]:
    """The records up to the first byte that is not a right batch: where a recovery would cut."""
    try:
        yield from records_in(path, memoryview(data))
    except (ProtocolViolation, BrokerError):
        return
