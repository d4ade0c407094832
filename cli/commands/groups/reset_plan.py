"""Where a group's offsets shall go: the plan that `groups reset` shows, and carries out with --execute. Pure.

A wish names for each partition an offset, which may lie outside the log; the plan holds it to the log's ends and says
so. Laws: a planned offset is never before the first record nor behind the end; what has to be clamped is exactly what
would have been; keeping the current offsets of a group that is within the log changes nothing.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from sordini.protocol.types import TopicPartition


class PartitionOffsets(NamedTuple):
    """One partition now: what the group has committed, and the log's ends."""

    committed: int | None
    earliest: int
    latest: int


class PlannedReset(NamedTuple):
    """Where one partition goes; `wanted` is the offset before it was held to the log's ends."""

    partition: TopicPartition
    current: int | None
    wanted: int
    new: int
    latest: int

    @property
    def lag_after(self) -> int:
        """Records between the new offset and the end."""
        return self.latest - self.new

    @property
    def is_clamped(self) -> bool:
        return self.new != self.wanted


class CannotReset(Exception):
    """A wish that these partitions cannot be given; the text is for people."""


ResetTarget = Callable[[TopicPartition, PartitionOffsets], int]
"""The offset a partition shall go to; raises CannotReset."""


def plan_reset(offsets_now: Mapping[TopicPartition, PartitionOffsets], target: ResetTarget) -> list[PlannedReset]:
    """One line for each partition, in order. Raises CannotReset."""
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
    """What is committed; the end where nothing is."""
    return offsets.latest if offsets.committed is None else offsets.committed


def to_offset(offset: int) -> ResetTarget:
    return lambda _, __: offset


def shift_by(count: int) -> ResetTarget:
    """Forward, or back when below 0, from what is committed."""

    def target(partition: TopicPartition, offsets: PartitionOffsets) -> int:
        if offsets.committed is None:
            raise CannotReset(f"{partition} cannot be shifted: the group has no offset there")
        return offsets.committed + count

    return target


def to_offsets(offsets: Mapping[TopicPartition, int | None]) -> ResetTarget:
    """Each its own, as a time or a file gave them; the end where that is None: no record is that young."""

    def target(partition: TopicPartition, now: PartitionOffsets) -> int:
        offset = offsets[partition]
        return now.latest if offset is None else offset

    return target


def read_csv(text: str, group: str) -> dict[TopicPartition, int]:
    """Read `topic,partition,offset` lines, or `group,topic,partition,offset` of which other groups are left out.

    That is what `write_csv` and Apache Kafka's own tool write. Raises CannotReset.
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
    """The plan's new offsets as `read_csv` reads them."""
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
