"""Where an offset that rises was at which time: samples, dense for the last minute, sparse for last week. Pure.

Times are monotonic, in milliseconds. A sample says that the offset was this at that time; between two samples it rose.
So a record is known to be appended between the last sample that does not have it and the first one that has it. Older
samples are thinned such that two neighbours are apart by an eighth of their age at most: the uncertainty of an age is
an eighth of it, or the time between two samples.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import Final

from sordini.system.named_tuple import NamedTuple

SAMPLES_MAX: Final = 128
"""Of one partition: 2 KiB. With one each second they reach back for weeks."""
AGES_PER_GAP: Final = 8
WINDOW_MS: Final = 60_000
"""Over which rates are measured."""


class Advance(NamedTuple):
    """By how much an offset rose within a time."""

    offsets: int
    window_ms: int
    """0 when it was not watched for long enough to say."""


NO_ADVANCE: Final = Advance(0, 0)


class AgeBounds(NamedTuple):
    """Between which ages (ms) something is; None where there is no bound."""

    at_least_ms: int | None
    at_most_ms: int | None


UNKNOWN_AGE: Final = AgeBounds(None, None)


class OffsetHistory:
    """The samples of one offset, oldest first.

    A sample with `bounds_later` also says that what it lacks came later. That is so on the leader; a follower's log end
    is behind its leader's, so a record that it lacks may be older than the sample.
    """

    __slots__ = ("_bounds_later", "_offsets", "_times", "samples_max")

    def __init__(self, samples_max: int = SAMPLES_MAX) -> None:
        self.samples_max = samples_max
        self._times = array("q")
        self._offsets = array("q")
        self._bounds_later = array("b")

    def __len__(self) -> int:
        return len(self._times)

    @property
    def offset(self) -> int:
        """At the last sample."""
        return self._offsets[-1]

    def add(self, now_ms: int, offset: int, *, bounds_later: bool = True) -> None:
        """Note where the offset is. A lower offset than before is of another log: everything before is forgotten."""
        if self._offsets and offset < self._offsets[-1]:
            self.clear()
        if self._times and now_ms <= self._times[-1]:
            self._offsets[-1] = offset
            self._bounds_later[-1] = bounds_later
            return
        self._times.append(now_ms)
        self._offsets.append(offset)
        self._bounds_later.append(bounds_later)
        if len(self._times) > self.samples_max:
            self._thin(now_ms)

    def clear(self) -> None:
        del self._times[:], self._offsets[:], self._bounds_later[:]

    def age_of(self, offset: int, now_ms: int, unchanged_until_ms: int | None = None) -> AgeBounds:
        """How long ago a record was appended. `unchanged_until_ms` is when the last sample was seen to hold still."""
        times = self._times
        if not times:
            return UNKNOWN_AGE
        has_it = bisect_right(self._offsets, offset)
        at_least = max(0, now_ms - times[has_it]) if has_it < len(times) else 0
        for lacks_it in range(has_it - 1, -1, -1):
            if self._bounds_later[lacks_it]:
                since = times[lacks_it]
                if unchanged_until_ms is not None and has_it == len(times) and lacks_it == has_it - 1:
                    since = max(since, unchanged_until_ms)
                return AgeBounds(at_least, max(0, now_ms - since))
        return AgeBounds(at_least, None)

    def is_before(self, offset: int) -> bool:
        """Whether a record was there at the first sample already."""
        return bool(self._offsets) and offset < self._offsets[0]

    def advance(self, offset: int, now_ms: int, window_ms: int = WINDOW_MS) -> Advance:
        """By how much it rose to `offset` in the last minute, or since it is watched."""
        if not self._times or now_ms <= self._times[0]:
            return NO_ADVANCE
        start = max(0, bisect_right(self._times, now_ms - window_ms) - 1)
        # Where nothing changed there are no samples: it held still until the next one.
        began_ms = max(self._times[start], now_ms - window_ms)
        return Advance(offset - self._offsets[start], now_ms - began_ms)

    def forget_before(self, time_ms: int) -> None:
        """Drop samples that do not say where it was at `time_ms` or later."""
        first = bisect_right(self._times, time_ms) - 1
        if first > 0:
            del self._times[:first], self._offsets[:first], self._bounds_later[:first]

    def _thin(self, now_ms: int) -> None:
        times, last = self._times, len(self._times) - 1
        kept = [0]
        for number in range(1, last):
            if times[number + 1] - times[kept[-1]] > (now_ms - times[number + 1]) // AGES_PER_GAP:
                kept.append(number)
        kept.append(last)
        kept = kept[max(0, len(kept) - self.samples_max) :]
        self._times = array("q", [times[number] for number in kept])
        self._offsets = array("q", [self._offsets[number] for number in kept])
        self._bounds_later = array("b", [self._bounds_later[number] for number in kept])
