"""Where the records of one partition of the source are in the target. Pure.

A segment is a run of records whose offsets differ by one number: `record_count` records from `upstream` on are those
from `downstream` on. A new one begins wherever the difference changes: after records that are not copied (markers,
aborted or compacted ones) and after each transaction of the mirror, whose marker takes an offset in the target.

Invariants:
  - segments are in the order of both offsets and do not overlap;
  - a translated offset is never behind a record that the group has not read: no record is lost. It is exact inside of a
    segment. Where segments are unknown (dropped here, or compacted away before a restart) it is the end of the one
    before, so the group reads what follows once more: that is the overlap.
"""

from __future__ import annotations

from bisect import bisect_right
from operator import attrgetter
from typing import Final

from sordini.system.named_tuple import NamedTuple

SEGMENTS_MAX: Final = 512
"""Kept for each partition. Beyond it, every other one of the older half is dropped."""

_upstream = attrgetter("upstream")


class Segment(NamedTuple):
    """`record_count` records from `upstream` on in the source are those from `downstream` on in the target."""

    upstream: int
    downstream: int
    record_count: int

    @property
    def upstream_end(self) -> int:
        return self.upstream + self.record_count

    @property
    def downstream_end(self) -> int:
        return self.downstream + self.record_count

    def is_before(self, later: Segment) -> bool:
        """Whether all of these records come before those of another segment, in both clusters."""
        return self.upstream_end <= later.upstream and self.downstream_end <= later.downstream


class OffsetMap:
    """The segments of one partition."""

    def __init__(self) -> None:
        self._segments: list[Segment] = []

    def add(self, segment: Segment) -> None:
        """The next segment. One that begins before the last one's end replaces all: the partition is copied anew."""
        segments = self._segments
        if segments and not segments[-1].is_before(segment):
            segments.clear()
        if segments and segment[:2] == (segments[-1].upstream_end, segments[-1].downstream_end):
            last = segments[-1]
            segments[-1] = last._replace(record_count=last.record_count + segment.record_count)
        else:
            segments.append(segment)
        if len(segments) > SEGMENTS_MAX:
            half = len(segments) // 2
            # The first stays: what is before it is not in the target.
            del segments[1:half:2]

    def translate(self, offset: int) -> int | None:
        """A group's offset in the target; None for one before all that is known."""
        index = bisect_right(self._segments, offset, key=_upstream) - 1
        if index < 0:
            starts_at_zero = bool(self._segments) and self._segments[0].downstream == 0
            return 0 if starts_at_zero else None
        found = self._segments[index]
        return found.downstream + min(offset - found.upstream, found.record_count)
