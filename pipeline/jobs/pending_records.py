"""What a job reads next: from its position to the log ends, and what was lost of it meanwhile. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from sordini.pipeline.source.positions import Offsets, Position, kept_absent

_NAMED_MAX: Final = 5
"""Topics in one sentence."""


class PendingRecords(NamedTuple):
    """The records to read: start, end, and the topics' ids."""

    start: Offsets
    end: Offsets
    topic_ids: dict[str, str]
    absent: Offsets
    """The positions in topics that the job does not read now: in case they come back, they stay in its position."""
    notices: tuple[str, ...] = ()
    """Sentences about lost records, if the job continues regardless."""
    recreated: tuple[str, ...] = ()
    """Topics that were deleted and created again, and are read from their start."""
    ends_behind: bool = False
    """Whether a log ends before the position: so it was truncated, or a new leader does not know its end yet."""


class Extent(NamedTuple):
    """What the brokers report, requested in this order: so no end is older than a start."""

    first: Offsets
    """Where a first run begins."""
    begins: Offsets
    ends: Position


def pending_of(extent: Extent, reached: Offsets | None, recreated: Collection[str]) -> PendingRecords:
    """The records between a job's position (None: it never ran) and the log ends.

    Topics and partitions that came between two requests are read from offset 0.
    """
    ends = extent.ends.offsets
    otherwise = extent.first if reached is None else extent.begins
    start: Offsets = {}
    for topic, partitions in ends.items():
        done = {} if topic in recreated or reached is None else reached.get(topic, {})
        start[topic] = {number: done.get(number, otherwise.get(topic, {}).get(number, 0)) for number in partitions}
    notices = [f"'{topic}' was deleted and created again: it is read from its start" for topic in recreated]
    lost, ends_behind = _into_bounds(start, extent.begins, ends)
    if reached is not None:  # Before a first run nothing can be lost.
        notices += lost
    absent = kept_absent({topic: dict(at) for topic, at in (reached or {}).items() if topic not in ends})
    return PendingRecords(
        start,
        ends,
        extent.ends.topic_ids,
        absent,
        tuple(notices),
        tuple(recreated),
        ends_behind=ends_behind and reached is not None,
    )


def sentence_of(gone: Sequence[str]) -> str:
    """What is said of topics that are not there, of which there is at least one."""
    others = f" and {len(gone) - _NAMED_MAX} others" if len(gone) > _NAMED_MAX else ""
    names = ", ".join(f"'{topic}'" for topic in gone[-_NAMED_MAX:]) + others
    they = "it comes" if len(gone) == 1 else "they come"
    return f"{names}: not in the cluster any more; the position is kept in case {they} back"


def position_after(before: Offsets, back: Offsets, end: Offsets) -> Offsets:
    """A job's position after a batch of Spark's that ends at `end`.

    It keeps the positions in topics that the batch does not have. In those that came back it is not before `back`.
    """
    absent = kept_absent({topic: at for topic, at in before.items() if topic not in end})
    reached = {
        topic: {number: max(at, back.get(topic, {}).get(number, at)) for number, at in each.items()}
        for topic, each in end.items()
    }
    return {**absent, **reached}


def _into_bounds(start: Offsets, begins: Offsets, ends: Offsets) -> tuple[list[str], bool]:
    """Move positions to existing records; returns sentences with the partitions and reasons."""
    notices, ends_behind = [], False
    for topic, partitions in start.items():
        for number, at in partitions.items():
            first, last = begins.get(topic, {}).get(number, 0), ends[topic][number]
            if at < first:
                notices.append(f"{topic}-{number}: offsets {at} to {first - 1} were deleted before they were read")
                partitions[number] = min(first, last)
            elif at > last:
                notices.append(f"{topic}-{number} ends at offset {last}, but was read up to {at}")
                partitions[number] = last
                ends_behind = True
    return notices, ends_behind
