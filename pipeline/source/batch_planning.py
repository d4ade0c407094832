"""What a batch reads: its end offsets, which records were lost, and how it is split over Spark's tasks. Pure.

Ranges are half-open. A range counts offsets, not records: compaction leaves gaps and transaction markers take offsets,
so a limit of offsets is an upper bound on records.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable
from typing import Final, NamedTuple

from sordini.pipeline.errors import PipelineError
from sordini.pipeline.source.positions import Position, kept_absent

_EXPLAINED: Final = (
    "; set failOnDataLoss to false to continue with the remaining records, or start with a new checkpoint if this is"
    " not what the query should read"
)


class DataLost(PipelineError):
    """Records to be read were deleted, and failOnDataLoss is true."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason + _EXPLAINED)


class Range(NamedTuple):
    """Offsets of one partition, all read by one task."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        """How many offsets."""
        return self.end - self.start


class Admission(NamedTuple):
    """How much a micro-batch takes; None is no limit."""

    offsets_max: int | None = None
    offsets_min: int | None = None
    """Wait for this many offsets, but no longer than `delay_max_ms`."""
    delay_max_ms: int = 15 * 60 * 1000


def missing(start: Position, latest: Position) -> list[str]:
    """What the broker no longer has of `start`, in words: recreated topics, deleted partitions, truncated logs."""
    found = []
    for topic, partitions in start.offsets.items():
        if topic not in latest.offsets:
            found.append(f"topic {topic!r} does not exist any more")
        elif is_made_again(topic, start, latest):
            found.append(f"topic {topic!r} has been deleted and created again")
        else:
            found += [
                f"partition {partition} of {topic!r} {what}"
                for partition, offset in partitions.items()
                if (what := _missing(offset, latest.offsets[topic].get(partition)))
            ]
    return found


def is_made_again(topic: str, start: Position, latest: Position) -> bool:
    """Whether a topic was deleted and created again; false where the broker has no topic ids."""
    before, now = start.topic_ids.get(topic, ""), latest.topic_ids.get(topic, "")
    return bool(before and now and before != now)


def advance(start: Position, latest: Position, offsets_max: int | None) -> Position:
    """Where a batch from `start` ends: at `latest`, or before it if `offsets_max` is less.

    With a limit each partition advances by its share of the lag, and all of them together by exactly the limit.
    Partitions missing from `start` are new and begin at offset 0. The positions in topics that `latest` does not have
    stay. `start` itself is returned when there is nothing new: Spark compares the texts.
    """
    waiting = ranges(start, latest)
    taken = _shares(waiting, offsets_max)
    offsets = {topic: dict(partitions) for topic, partitions in latest.offsets.items()}
    for (topic, partition, first, _), count in zip(waiting, taken, strict=True):
        offsets[topic][partition] = first + count
    end = with_absent(Position(offsets, latest.topic_ids, start.started_at if start.is_start else None), start)
    return start if end.offsets == start.offsets and end.topic_ids == start.topic_ids else end


def with_absent(end: Position, start: Position) -> Position:
    """The end with the positions in topics that are not there now: those that come back are read from there."""
    absent = kept_absent({topic: at for topic, at in start.offsets.items() if topic not in end.offsets})
    if not absent:
        return end
    ids = {topic: start.topic_ids[topic] for topic in absent if topic in start.topic_ids}
    return end._replace(offsets={**end.offsets, **absent}, topic_ids={**end.topic_ids, **ids})


def is_to_wait(admission: Admission, waiting: int, waited_ms: float) -> bool:
    """Whether a micro-batch waits for more offsets: fewer than the minimum, and the longest delay is not over."""
    least = admission.offsets_min
    return least is not None and waiting < least and waited_ms < admission.delay_max_ms


def ranges(start: Position, end: Position) -> list[Range]:
    """The ranges between two positions, in order, without those that are empty or negative.

    A query that crashed in its first batch looks up its start again; the end of that batch has the first start, which
    is used (see `positions`).
    """
    since = start
    if start.is_start and end.started_at is not None:
        since = Position(end.started_at, end.topic_ids)
    found = []
    for topic, partitions in sorted(end.offsets.items()):
        known = {} if is_made_again(topic, since, end) else since.offsets.get(topic, {})
        found += [
            Range(topic, partition, known.get(partition, 0), last)
            for partition, last in sorted(partitions.items())
            if known.get(partition, 0) < last
        ]
    return found


def count(found: Iterable[Range]) -> int:
    """The number of offsets in all ranges."""
    return sum(one.size for one in found)


def split(found: Iterable[Range], partitions_min: int | None, records_max: int | None) -> list[Range]:
    """Split ranges into pieces, one for each task.

    No piece is longer than `records_max`. There are at least `partitions_min` pieces, if there are that many offsets:
    the range with the longest pieces is split once more until then. Pieces of one range differ by one offset at most.
    """
    whole = [one for one in found if one.size > 0]
    pieces = [-(-one.size // records_max) if records_max else 1 for one in whole]
    wanted = min((partitions_min or 0) - sum(pieces), count(whole) - sum(pieces))
    longest = [(-one.size / number, index) for index, (one, number) in enumerate(zip(whole, pieces, strict=True))]
    heapq.heapify(longest)
    for _ in range(wanted):
        _, index = longest[0]
        pieces[index] += 1
        # A range in pieces of one offset cannot be split further, and sorts behind all others.
        heapq.heapreplace(longest, (-whole[index].size / pieces[index], index))
    return [piece for one, number in zip(whole, pieces, strict=True) for piece in _cut(one, number)]


def _missing(offset: int, latest: int | None) -> str:
    if latest is None:
        return "does not exist any more"
    return f"ends at offset {latest}, but was read up to {offset}" if latest < offset else ""


def _shares(waiting: list[Range], offsets_max: int | None) -> list[int]:
    """How many offsets each range gives; the largest remainders get what rounding down leaves."""
    total = count(waiting)
    if offsets_max is None or total <= offsets_max:
        return [one.size for one in waiting]
    taken = [one.size * offsets_max // total for one in waiting]
    by_remainder = sorted(range(len(waiting)), key=lambda index: -(waiting[index].size * offsets_max % total))
    for index in by_remainder[: offsets_max - sum(taken)]:
        taken[index] += 1
    return taken


def _cut(whole: Range, number: int) -> list[Range]:
    edges = [whole.start + whole.size * index // number for index in range(number + 1)]
    return [whole._replace(start=first, end=last) for first, last in itertools.pairwise(edges)]
