"""All segments of one log, oldest first: where an offset is, and how the list grows and shrinks.

Changes of names are collected in `names_changed`, for the flush that makes them durable. Files that were deleted
keep a `.deleted` name until their time is up, and `take_due` gives them out to be removed.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right

from sordini.storage import batch_scan
from sordini.storage.home import Home
from sordini.storage.producer_state import AbortedTransaction
from sordini.storage.segment import Segment

RECENT_MAX = 512


class SegmentList:
    """The segments of one log; never empty. Raises OSError where it touches the disk."""

    __slots__ = (
        "_bases",
        "_condemned",
        "_directory",
        "_home",
        "_limit",
        "_segments",
        "active",
        "flushing",
        "names_changed",
        "recent",
    )

    def __init__(self, home: Home, directory: str, segments: list[Segment]) -> None:
        self._home = home
        self._directory = directory
        self._segments = segments
        self._bases = [segment.base for segment in segments]
        self._condemned: list[tuple[int, str]] = []
        self._limit: tuple[Segment, int, int] = (segments[-1], -1, 0)
        self.active = segments[-1]
        self.names_changed = False
        self.flushing = asyncio.Lock()
        """Held while files are synced beside the loop."""
        self.recent: dict[int, int] = {}
        """Positions of the newest batches in the active segment by base offset: what sequential readers ask for."""

    def __len__(self) -> int:
        return len(self._segments)

    def all(self) -> list[Segment]:
        """The segments, oldest first; not to be changed."""
        return self._segments

    def end_of(self, number: int, log_end_offset: int) -> int:
        """The first offset after the segment of that number."""
        return self._bases[number + 1] if number + 1 < len(self._bases) else log_end_offset

    def number_of(self, offset: int) -> int:
        """The number of the segment whose range holds `offset`; 0 for what is before all."""
        return max(0, bisect_right(self._bases, offset) - 1)

    def forget_older(self) -> None:
        """Drop the older half of `recent`, which must not grow without end."""
        for old in list(self.recent)[: RECENT_MAX // 2]:
            del self.recent[old]

    def locate(self, offset: int, interval_bytes: int) -> tuple[Segment, int, int] | None:
        """(segment, position, base offset) of the batch that holds `offset`, or of the first one after it."""
        for segment in self._segments[self.number_of(offset) :]:
            found = segment.find(offset, interval_bytes)
            if found is not None:
                return segment, found[0], found[1]
        return None

    def aborted_transactions(self, start: int, upper: int) -> list[AbortedTransaction]:
        """Transactions aborted that have records between `start` and `upper`, in the order of their markers."""
        found = []
        for segment in self._segments[self.number_of(start) :]:
            for aborted in segment.transactions.entries():
                if aborted.last_offset >= start and aborted.first_offset < upper:
                    found.append(aborted)
                if aborted.last_stable_offset >= upper:
                    return found
        return found

    def end_position(self, segment: Segment, below: int, interval_bytes: int) -> int:
        """The position in `segment` of the first batch whose base offset is >= `below`."""
        if segment is self.active:
            position = self.recent.get(below)
            if position is not None:
                return position
        cached = self._limit
        if cached[0] is segment and cached[1] == below:
            return cached[2]
        found = segment.find(below, interval_bytes)
        if found is None:
            position = segment.size
        else:
            position, base, size = found
            if base < below:
                position += size
        self._limit = (segment, below, position)
        return position

    def roll(self, base: int, now_ms: int) -> Segment:
        """Close the active segment's indexes and add a new active one. On an error the list is as it was."""
        old = self.active
        old.add_last_time()
        new = Segment.create(self._home.files, self._directory, base, now_ms)
        old.trim_indexes()
        self._segments.append(new)
        self._bases.append(base)
        self.active = new
        self.names_changed = True
        self._forget()
        return new

    def truncate_to(self, offset: int, interval_bytes: int, due_ms: int) -> int:
        """Cut before the batch that holds `offset`; the offset at which the log ends then."""
        self._forget()
        keep = self.number_of(offset) + 1
        for segment in self._segments[keep:]:
            self._condemn(segment, due_ms)
        del self._segments[keep:]
        del self._bases[keep:]
        self.active = self._segments[-1]
        return self.active.truncate_to(offset, interval_bytes)

    def remove_first(self, count: int, due_ms: int) -> list[int]:
        """Delete the `count` oldest segments; their base offsets."""
        removed = self._bases[:count]
        for segment in self._segments[:count]:
            self._condemn(segment, due_ms)
        del self._segments[:count]
        del self._bases[:count]
        return removed

    def take_due(self, now_ms: int) -> list[str]:
        """The paths of deleted files whose time is up; they are the caller's to remove."""
        if not self._condemned:
            return []
        due = [path for due_ms, path in self._condemned if due_ms <= now_ms]
        self._condemned = [entry for entry in self._condemned if entry[0] > now_ms]
        return due

    def release(self) -> None:
        """Close every file, pinned ones with their last pin."""
        for segment in self._segments:
            segment.release()

    def batch_size(self, segment: Segment, position: int) -> int:
        """The whole size of the batch that starts at `position`."""
        return batch_scan.batch_size(segment.file(), position)

    def _condemn(self, segment: Segment, due_ms: int) -> None:
        self.names_changed = True
        segment.condemn(on_renamed=lambda path: self._condemned.append((due_ms, path)))

    def _forget(self) -> None:
        self.recent.clear()
        self._limit = (self.active, -1, 0)
