"""All segments of one log, oldest first: where an offset is, and how the list grows and shrinks.

Changes of names are collected in `names_changed`, for the flush that makes them durable. Files that were deleted
keep a `.deleted` name until their time is up, and `take_due` gives them out to be removed.

The list is copied to be changed: `all` gives a tuple that never changes, so that whoever walks over it - across an
await, in a generator, in a thread - sees the segments of one moment, whatever is rolled, cut or deleted meanwhile.
What it reads of a segment then stays readable while it pins the file.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Sequence

from sordini.storage import batch_scan
from sordini.storage.log_dir_handle import Home
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
        self._segments = tuple(segments)
        self._bases = tuple(segment.base for segment in segments)
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

    def all(self) -> tuple[Segment, ...]:
        """The segments of this moment, oldest first."""
        return self._segments

    def end_of(self, number: int, log_end_offset: int) -> int:
        """The first offset after the segment of that number."""
        return self._bases[number + 1] if number + 1 < len(self._bases) else log_end_offset

    def number_of(self, offset: int) -> int:
        """The number of the segment whose range holds `offset`; 0 for what is before all."""
        return max(0, bisect_right(self._bases, offset) - 1)

    def note_recent(self, base: int, position: int) -> None:
        """Remember where a batch was just written."""
        self.recent[base] = position
        if len(self.recent) > RECENT_MAX:
            self.forget_older()

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
        # Before there is a new segment: left there by an error, it would end the old one at the next start. For the
        # same reason the next flush makes its removal durable.
        old.trim_indexes()
        self.names_changed = True
        new = Segment.create(self._home.files, self._directory, base, now_ms)
        self._set((*self._segments, new))
        self._forget()
        return new

    def truncate_to(self, offset: int, interval_bytes: int, due_ms: int) -> int:
        """Cut before the batch that holds `offset`; the offset at which the log ends then."""
        keep = self.number_of(offset) + 1
        dropped = self._segments[keep:]
        self._set(self._segments[:keep])
        self._forget()
        # The newest first: a crash in between leaves no gap.
        for segment in reversed(dropped):
            self._condemn(segment, due_ms)
        return self.active.truncate_to(offset, interval_bytes)

    def begin_anew(self, base: int, due_ms: int) -> None:
        """Put one empty segment in the place of all, which are deleted."""
        dropped = self._segments
        self._set((Segment.create(self._home.files, self._directory, base, 0),))
        self._forget()
        for segment in reversed(dropped):
            self._condemn(segment, due_ms)

    def remove_first(self, count: int, due_ms: int) -> list[int]:
        """Delete the `count` oldest segments; their base offsets."""
        removed = self._segments[:count]
        self._set(self._segments[count:])
        try:
            for segment in removed:
                self._condemn(segment, due_ms)
        except OSError:
            # What still has its name would be there again at the next start: the log's start has to hide it.
            left = tuple(segment for segment in removed if self._home.disk.exists(segment.handle.path))
            self._set((*left, *self._segments))
            raise
        return [segment.base for segment in removed]

    def replace(self, bases: Sequence[int], segments: Sequence[Segment], due_ms: int) -> None:
        """Put compacted segments in the place of a run of closed ones, whose files are deleted.

        The new ones' files get their names after this; the first takes the first one's place and name.
        """
        first = self._bases.index(bases[0])
        end = first + len(bases)
        assert self._bases[first:end] == tuple(bases), f"{bases} are no run of segments"
        assert end < len(self._segments), "the active segment is never replaced"
        replaced = self._segments[first:end]
        self._set((*self._segments[:first], *segments, *self._segments[end:]))
        self._limit = (self.active, -1, 0)
        for segment in replaced:
            self._condemn(segment, due_ms)

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

    def _set(self, segments: tuple[Segment, ...]) -> None:
        """Let other segments be the list. The last is the active one."""
        self._segments = segments
        self._bases = tuple(segment.base for segment in segments)
        self.active = segments[-1]

    def _forget(self) -> None:
        """What was remembered of the active segment holds no longer."""
        self.recent.clear()
        self._limit = (self.active, -1, 0)
