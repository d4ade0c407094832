"""A batch in flight: records that were first acquired together, in parts of one state each."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from sordini.broker.shares.machine.record_states import DONE, DeathReason, RecordState
from sordini.system.named_tuple import NamedTuple


class Part(NamedTuple):
    """Records in one state. Offsets are half-open."""

    first: int
    end: int
    state: RecordState
    deliveries: int
    """How often they were delivered, the present delivery included."""
    member: str = ""
    """Who holds them, if they are acquired."""
    deadline_ms: int = 0
    """When the lock ends, if they are acquired."""
    after: RecordState | None = None
    """The state they will have when that is written; until then they are neither handed out nor acknowledged."""
    reason: DeathReason | None = None
    """Why they are ARCHIVING, or will be."""

    @property
    def is_available(self) -> bool:
        return self.state is RecordState.AVAILABLE

    @property
    def is_done(self) -> bool:
        return self.state in DONE


class InFlightBatch:
    """Parts without gaps between them; neighbours differ."""

    __slots__ = ("parts", "size")

    def __init__(self, parts: list[Part]) -> None:
        self.parts = parts
        self.size = parts[-1].end - parts[0].first
        """Of all its records, those that are forgotten included."""

    @property
    def first(self) -> int:
        return self.parts[0].first

    @property
    def end(self) -> int:
        return self.parts[-1].end

    def within(self, first: int, end: int) -> Iterator[Part]:
        """What of each part is within a range."""
        parts = self.parts
        for index in range(self._at(first), len(parts)):
            part = parts[index]
            if part.first >= end:
                return
            if part.first >= first and part.end <= end:
                yield part
            else:
                yield part._replace(first=max(part.first, first), end=min(part.end, end))

    def put(self, changed: Part) -> None:
        """Replace what is at these offsets, which are the batch's own. Other parts are not read: there may be many."""
        parts = self.parts
        if len(parts) == 1 and changed[:2] == parts[0][:2]:  # Most batches, one record each: a third of the time.
            parts[0] = changed
            return
        low = self._at(changed.first)
        if changed[:2] == parts[low][:2] and not self._joins(low, changed):  # As most acknowledgements do.
            parts[low] = changed
            return
        high = low
        while high < len(parts) and parts[high].first < changed.end:
            high += 1
        found: list[Part] = []
        if parts[low].first < changed.first:
            found.append(parts[low]._replace(end=changed.first))
        found.append(changed)
        if parts[high - 1].end > changed.end:
            found.append(parts[high - 1]._replace(first=changed.end))
        before, behind = parts[max(low - 1, 0) : low], parts[high : high + 1]
        parts[low - len(before) : high + len(behind)] = _joined([*before, *found, *behind])

    def _joins(self, index: int, changed: Part) -> bool:
        """Whether what takes the place of a part would be like a neighbour of it."""
        parts, value = self.parts, changed[2:]
        return (index > 0 and parts[index - 1][2:] == value) or (
            index + 1 < len(parts) and parts[index + 1][2:] == value
        )

    def _at(self, offset: int) -> int:
        """The index of the part that an offset is in; 0 before all."""
        # Tuples are compared by their first fields; a key function would take five times as long.
        behind: tuple[int, ...] = (offset + 1,)
        return max(bisect_left(self.parts, behind) - 1, 0)

    def cut(self, start: int) -> None:
        """Forget what is before an offset of the batch."""
        self.parts = [part._replace(first=max(part.first, start)) for part in self.parts if part.end > start]


def _joined(parts: list[Part]) -> list[Part]:
    joined = parts[:1]
    for part in parts[1:]:
        last = joined[-1]
        if last[2:] == part[2:]:
            joined[-1] = last._replace(end=part.end)
        else:
            joined.append(part)
    return joined


class InFlightBatches:
    """All of a share partition, by offset. They do not overlap; between two there may be offsets of none."""

    def __init__(self) -> None:
        self._batches: list[InFlightBatch] = []
        self._firsts: list[int] = []
        """Their first offsets: looking there takes a fifth of the time."""

    def __iter__(self) -> Iterator[InFlightBatch]:
        return iter(self._batches)

    def __len__(self) -> int:
        return len(self._batches)

    def add(self, batch: InFlightBatch) -> None:
        index = self._behind(batch.first)
        self._batches.insert(index, batch)
        self._firsts.insert(index, batch.first)

    def overlapping(self, first: int, end: int) -> list[InFlightBatch]:
        """Those with an offset in a range."""
        found = self._batches[max(self._behind(first) - 1, 0) : bisect_left(self._firsts, end)]
        if found and found[0].end <= first:
            del found[0]
        return found

    def parts_from(self, offset: int) -> Iterator[Part]:
        """All parts from an offset on, and of the one that it is in the rest. They must not change meanwhile."""
        for index in range(max(self._behind(offset) - 1, 0), len(self._batches)):
            batch = self._batches[index]
            if batch.end > offset:
                yield from batch.within(offset, batch.end)

    def forget_before(self, start: int) -> None:
        """Whole batches go, and the front of the one in which `start` is."""
        kept = self._behind(start)
        if kept and self._batches[kept - 1].end > start:
            kept -= 1
            if self._batches[kept].first < start:
                self._batches[kept].cut(start)
                self._firsts[kept] = start
        del self._batches[:kept]
        del self._firsts[:kept]

    def _behind(self, offset: int) -> int:
        """The index of the first batch that begins behind an offset."""
        return bisect_right(self._firsts, offset)
