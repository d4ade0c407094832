"""The plan of `groups reset`: the new offset of each partition. Pure.

A target gives an offset for each partition, which may lie outside the log; the plan clamps it to the log's first and
end offset and says so. Laws: a planned offset is within [first offset, end offset]; an offset is clamped only if it is
outside; resetting a group that is within the log to its current offsets changes nothing.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence

from sordini.protocol.types import TopicPartition
from sordini.system.named_tuple import NamedTuple


class PartitionOffsets(NamedTuple):
    """One partition now: the group's committed offset, and the log's first and end offset."""

    committed: int | None
    earliest: int
    latest: int


class PlannedReset(NamedTuple):
    """The planned offset of one partition; `wanted` is the offset before clamping."""

    partition: TopicPartition
    current: int | None
    wanted: int
    new: int
    latest: int

    @property
    def lag_after(self) -> int:
        """Offsets between the new offset and the end."""
        return self.latest - self.new

    @property
    def is_clamped(self) -> bool:
        return self.new != self.wanted


class CannotReset(Exception):
    """A target that these partitions cannot be reset to; the text is the error message."""


ResetTarget = Callable[[TopicPartition, PartitionOffsets], int]
"""The offset to reset a partition to; raises CannotReset."""


def plan_reset(offsets_now: Mapping[TopicPartition, PartitionOffsets], target: ResetTarget) -> list[PlannedReset]:
    """The plan for each partition, in order. Raises CannotReset."""
    lines = []
    for partition, offsets in sorted(offsets_now.items()):
        wanted = target(partition, offsets)
        new = min(max(wanted, offsets.earliest), offsets.latest)
        lines.append(PlannedReset(partition, offsets.committed, wanted, new, offsets.latest))
    return lines


def to_earliest(_: TopicPartition, offsets: PartitionOffsets) -> int:
    return offsets.earliest


def to_latest(_: TopicPartition, offsets: PartitionOffsets) -> int:
    return offsets.latest


def to_current(_: TopicPartition, offsets: PartitionOffsets) -> int:
    """The committed offset, or the end offset if there is none."""
    return offsets.latest if offsets.committed is None else offsets.committed


def to_offset(offset: int) -> ResetTarget:
    return lambda _, __: offset


def shift_by(count: int) -> ResetTarget:
    """The committed offset plus `count`, which may be negative."""

    def target(partition: TopicPartition, offsets: PartitionOffsets) -> int:
        if offsets.committed is None:
            raise CannotReset(f"{partition} cannot be shifted: the group has no committed offset")
        return offsets.committed + count

    return target


def to_offsets(offsets: Mapping[TopicPartition, int | None]) -> ResetTarget:
    """An offset per partition, from a time or a file; None is the end offset (no record at or after the time)."""

    def target(partition: TopicPartition, now: PartitionOffsets) -> int:
        offset = offsets[partition]
        return now.latest if offset is None else offset

    return target


def read_csv(text: str, group: str) -> dict[TopicPartition, int]:
    """Read `topic,partition,offset` lines, or `group,topic,partition,offset` lines, of which other groups are skipped.

    `write_csv` and Apache Kafka's own tool write these. Raises CannotReset.
    """
    offsets: dict[TopicPartition, int] = {}
    for number, fields in enumerate(csv.reader(text.splitlines(), skipinitialspace=True), 1):
        if not fields or fields[0].startswith("#"):
            continue
        if len(fields) == 4 and fields[0].strip() != group:
            continue
        partition, offset = _csv_row(fields[1:] if len(fields) == 4 else fields, number)
        offsets[partition] = offset
    if not offsets:
        raise CannotReset(f"the file names no partition of group '{group}'")
    return offsets


def write_csv(lines: Iterable[PlannedReset]) -> str:
    """The plan's new offsets in the format of `read_csv`."""
    return "".join(f"{line.partition.topic},{line.partition.partition},{line.new}\n" for line in lines)


def _csv_row(fields: Sequence[str], number: int) -> tuple[TopicPartition, int]:
    try:
        topic, partition, offset = (field.strip() for field in fields)
        row = TopicPartition(topic, int(partition)), int(offset)
    except ValueError:
        raise CannotReset(f"line {number} of the file is not topic,partition,offset") from None
    if not topic or row[0].partition < 0:
        raise CannotReset(f"line {number} of the file is not topic,partition,offset")
    return row
