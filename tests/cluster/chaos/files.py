"""What stopped brokers have on disk, read by the dozen lines of `tests.cluster.replicas` and a few more.

What is judged here must not be what judges.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.cluster.chaos.events import Dump, Files, Found
from tests.cluster.chaos.replica_laws import Head
from tests.cluster.chaos.working import key_of, split
from tests.cluster.replicas import batches, high_watermark

_HEAD: Final = struct.Struct(">qiibI")
_BEFORE_LENGTH: Final = 12
_LAST_DELTA: Final = 23
_ATTRIBUTES: Final = 21
_PRODUCER: Final = struct.Struct(">qh")
_PRODUCER_AT: Final = 43
_RECORDS: Final = 57
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20
_CODEC: Final = 0x07
_INDEX: Final = struct.Struct(">ii")


def written_watermark(data: Path, tp: str) -> int:
    """The high watermark that a broker has noted of a partition; 0 when nothing."""
    try:
        return high_watermark(data, *split(tp))
    except FileNotFoundError:
        return 0


def committed_heads(partition: Path, bound: int) -> list[Head]:
    """The batches that end at or below an offset, read by their heads alone: the tail may be torn."""
    found: list[Head] = []
    for segment in sorted(partition.glob("*.log")):
        data = segment.read_bytes()
        position = 0
        while position + _RECORDS <= len(data):
            base, length, epoch, _, checksum = _HEAD.unpack_from(data, position)
            end = base + struct.unpack_from(">i", data, position + _LAST_DELTA)[0] + 1
            if end > bound:
                return found
            found.append((base, end, epoch, checksum))
            position += _BEFORE_LENGTH + length
    return found


def left_by(node: int, data: Path, tp: str) -> Iterator[Dump | Files | Found]:
    """All batches of a partition, and what the broker keeps about it. A torn batch is a find."""
    yield Files(node, tp, written_watermark(data, tp), _epochs(data / tp / "leader-epoch-checkpoint"))
    try:
        found = batches(data / tp)
    except AssertionError as problem:
        yield Found("I13", f"broker {node}: {problem}")
        return
    for one in found:
        values = [key_of(value) for value in _values(one.content)]
        yield Dump(node, tp, one.base_offset, one.end_offset, one.leader_epoch, one.checksum, values)
    for segment in sorted((data / tp).glob("*.log")):
        index = segment.with_suffix(".index")
        if index.exists():
            reported = index_problems(int(segment.stem), segment.read_bytes(), index.read_bytes())
            yield from (Found("I13", f"broker {node}: {index.parent.name}/{index.name}: {line}") for line in reported)


def later_epochs(data: Path, tp: str) -> Iterator[tuple[int, int]]:
    """Producers, each with an epoch that it took because it could not go on in the one before.

    Transactional ones have another epoch in each of their lives.
    """
    for segment in sorted((data / tp).glob("*.log")):
        log = segment.read_bytes()
        position = 0
        while position + _RECORDS <= len(log):
            producer_id, epoch = _PRODUCER.unpack_from(log, position + _PRODUCER_AT)
            (attributes,) = struct.unpack_from(">h", log, position + _ATTRIBUTES)
            if epoch > 0 and not attributes & _TRANSACTIONAL:
                yield producer_id, epoch
            position += _BEFORE_LENGTH + struct.unpack_from(">i", log, position + 8)[0]


def index_problems(base_offset: int, log: bytes, index: bytes) -> Iterator[str]:
    """Entries of an offset index that do not lead to the batch that holds their offset."""
    starts: dict[int, tuple[int, int]] = {}
    position = 0
    while position + _RECORDS <= len(log):
        base, length = struct.unpack_from(">qi", log, position)
        starts[position] = base, base + struct.unpack_from(">i", log, position + _LAST_DELTA)[0]
        position += _BEFORE_LENGTH + length
    before = -1
    for at in range(0, len(index) - len(index) % _INDEX.size, _INDEX.size):
        relative, position = _INDEX.unpack_from(index, at)
        if relative == position == 0 and at:
            return  # The rest has not been used yet.
        offset = base_offset + relative
        first, last = starts.get(position, (offset + 1, offset))
        if not first <= offset <= last or offset <= before:
            yield f"offset {offset} is said to be at {position}"
        before = offset


def _epochs(path: Path) -> list[tuple[int, int]]:
    """Epochs and their first offsets."""
    rows = path.read_text().splitlines()[2:] if path.exists() else []
    return [(int(epoch), int(start)) for epoch, start in (row.split() for row in rows)]


def _values(batch: bytes) -> Iterator[bytes | None]:
    """The values of one batch that is not compressed."""
    (attributes,) = struct.unpack_from(">h", batch, _ATTRIBUTES)
    if attributes & _CONTROL:
        return
    assert not attributes & _CODEC, "the clients do not compress"
    (count,) = struct.unpack_from(">i", batch, _RECORDS)
    position = _RECORDS + 4
    for _ in range(count):
        length, position = _varint(batch, position)
        end = position + length
        position += 1
        for _ in range(2):
            _, position = _varint(batch, position)
        size, position = _varint(batch, position)
        position += max(size, 0)
        size, position = _varint(batch, position)
        yield None if size < 0 else batch[position : position + size]
        position = end


def _varint(data: bytes, position: int) -> tuple[int, int]:
    shift = value = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
        shift += 7
