"""Are the replicas of a partition the same to the byte? Read from the files of brokers that have stopped.

An own reader of a dozen lines: what is judged here must not be what judges.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import crc32c

_HEAD = struct.Struct(">qiibI")  # Base offset, bytes after this field, leader epoch, magic, checksum.
_LENGTH_AT_END = 12  # Of base offset and length.
_CHECKED_FROM = 21
_LAST_OFFSET_DELTA = 23


class Batch(NamedTuple):
    """One batch as it lies in a segment; `end_offset` is the first offset after it."""

    base_offset: int
    end_offset: int
    leader_epoch: int
    checksum: int
    content: bytes


def batches(partition: Path) -> list[Batch]:
    """All batches of a partition's folder. Fails the test at a torn or corrupt one."""
    found: list[Batch] = []
    for segment in sorted(partition.glob("*.log")):
        data = segment.read_bytes()
        position = 0
        while position < len(data):
            base, length, epoch, magic, checksum = _HEAD.unpack_from(data, position)
            content = data[position : position + _LENGTH_AT_END + length]
            assert len(content) == _LENGTH_AT_END + length, f"{segment} is torn at {position}"
            assert magic == 2, f"{segment} has a batch of magic {magic} at {position}"
            assert crc32c.crc32c(content[_CHECKED_FROM:]) == checksum, f"{segment} is corrupt at {position}"
            last = base + struct.unpack_from(">i", content, _LAST_OFFSET_DELTA)[0]
            found.append(Batch(base, last + 1, epoch, checksum, content))
            position += len(content)
    return found


def high_watermark(data: Path, topic: str, number: int) -> int:
    """What the broker has noted of a partition; 0 when nothing."""
    lines = (data / "replication-offset-checkpoint").read_text().splitlines()[2:]
    rows = {(name, int(part)): int(offset) for name, part, offset in (line.rsplit(" ", 2) for line in lines)}
    return rows.get((topic, number), 0)


def differences(topic: str, number: int, replicas: Mapping[int, Path], in_sync: Iterable[int]) -> tuple[list[str], int]:
    """How the replicas differ where they must not, and the offset below which all is committed.

    What any broker knows to be committed, every member of the in-sync set has; other replicas have it up to their
    own high watermark.
    """
    members = set(in_sync)
    watermarks = {broker: high_watermark(data, topic, number) for broker, data in replicas.items()}
    end = max(watermarks.values())
    logs = {broker: batches(data / f"{topic}-{number}") for broker, data in replicas.items()}
    reference = min(members)
    problems = []
    for broker, log in logs.items():
        bound = end if broker in members else watermarks[broker]
        ours, theirs = _below(log, bound), _below(logs[reference], bound)
        if ours != theirs:
            at = next((a for a, b in zip(ours, theirs, strict=False) if a != b), None)
            where = f"at {at[:4]}" if at else f"{len(ours)} batches beside {len(theirs)}"
            problems.append(f"{topic}-{number} below {bound}: {broker} differs from {reference} {where}")
        if broker in members and (log[-1].end_offset if log else 0) < end:
            problems.append(f"{topic}-{number}: {broker} is in sync and ends before {end}")
    return problems, end


def _below(log: list[Batch], bound: int) -> list[Batch]:
    return [one for one in log if one.end_offset <= bound]
