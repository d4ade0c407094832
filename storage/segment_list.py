"""All segments of one log, oldest first: which one holds an offset, and every change of the list.

Changes of file names are collected in `names_changed`, for the flush that makes them durable. Deleted files keep a
`.deleted` name until `file.delete.delay.ms` has passed; `take_due` then hands them over for removal.

The list is copied on write: `all` returns a tuple that never changes. A walk over it - across an await, in a
generator, in a thread - sees the segments of one moment, whatever is rolled, truncated or deleted meanwhile. A
segment's file stays readable while it is pinned.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Sequence

from sordini.storage import batch_scan
from sordini.storage.log_dir_handle import LogDirHandle
from sordini.storage.producer_state import AbortedTransaction
from sordini.storage.segment import Segment

RECENT_MAX = 512


class SegmentList:
    """The segments of one log; never empty. Raises OSError where it touches the disk."""

    __slots__ = (
        "_bases",
        "_last_end_position",
        "_pending_delete",
        "_segments",
        "active",
        "directory",
        "flushing",
        "log_dir",
        "names_changed",
        "recent",
    )

    def __init__(self, log_dir: LogDirHandle, directory: str, segments: list[Segment]) -> None:
        self.log_dir = log_dir
        self.directory = directory
        """The partition's directory."""
        self._segments = tuple(segments)
        self._bases = tuple(segment.base for segment in segments)
        self._pending_delete: list[tuple[int, str]] = []
        """(when due in ms, path) of files with a `.deleted` name."""
        self._last_end_position: tuple[Segment, int, int] = (segments[-1], -1, 0)
        """(segment, offset, position) as `end_position` last found it."""
        self.active = segments[-1]
        self.names_changed = False
        self.flushing = asyncio.Lock()
        """Held while files are synced in a thread."""
        self.recent: dict[int, int] = {}
        """Positions of the newest batches in the active segment, by base offset, for readers at the log end."""

    def __len__(self) -> int:
        return len(self._segments)

    def all(self) -> tuple[Segment, ...]:
        """The current segments, oldest first."""
        return self._segments

    def end_of(self, number: int, log_end_offset: int) -> int:
        """The first offset after the segment of that number."""
        return self._bases[number + 1] if number + 1 < len(self._bases) else log_end_offset

    def number_of(self, offset: int) -> int:
        """The number of the segment whose range holds `offset`; 0 for an offset before all segments."""
        return max(0, bisect_right(self._bases, offset) - 1)

    def forget_older(self) -> None:
        """Drop the older half of `recent`, to bound it."""
        for old in list(self.recent)[: RECENT_MAX // 2]:
            del self.recent[old]

    def locate(self, offset: int, interval_bytes: int) -> tuple[Segment, int, int, int] | None:
        """(segment, position, base offset, size) of the batch that holds `offset`, or of the first one after it."""
        for segment in self._segments[self.number_of(offset) :]:
            found = segment.find(offset, interval_bytes)
            if found is not None:
                return segment, *found
        return None

    def end_position(self, segment: Segment, below: int, interval_bytes: int) -> int:
        """The position in `segment` of the first batch whose base offset is >= `below`."""
        if segment is self.active:
            position = self.recent.get(below)
            if position is not None:
                return position
        cached = self._last_end_position
        if cached[0] is segment and cached[1] == below:
            return cached[2]
        found = segment.find(below, interval_bytes)
        if found is None:
            position = segment.size
        else:
            position, base, size = found
            if base < below:
                position += size
        self._last_end_position = (segment, below, position)
        return position

    def roll(self, base: int, now_ms: int) -> Segment:
        """Close the active segment's indexes and add a new active one. On an error the list is as it was."""
        old = self.active
        old.add_last_time()
        # Before the new segment exists: an error that leaves the new files would make the next start end the old
        # segment there. For the same reason the next flush makes their removal durable.
        old.trim_indexes()
        self.names_changed = True
        new = Segment.create(self.log_dir.files, self.directory, base, now_ms)
        self._set((*self._segments, new))
        self._clear_caches()
        return new

    def truncate_to(self, offset: int, interval_bytes: int, due_ms: int) -> int:
        """Truncate before the batch that holds `offset`; the new end offset."""
        keep = self.number_of(offset) + 1
        dropped = self._segments[keep:]
        self._set(self._segments[:keep])
        self._clear_caches()
        # The newest first: a crash in between leaves no gap.
        for segment in reversed(dropped):
            self._mark_deleted(segment, due_ms)
        return self.active.truncate_to(offset, interval_bytes)

    def truncate_fully_and_start_at(self, base: int, due_ms: int) -> None:
        """Delete all segments, and create one empty segment that begins at `base`."""
        dropped = self._segments
        self._set((Segment.create(self.log_dir.files, self.directory, base, 0),))
        self._clear_caches()
        for segment in reversed(dropped):
            self._mark_deleted(segment, due_ms)

    def remove_first(self, count: int, due_ms: int) -> list[int]:
        """Delete the `count` oldest segments; their base offsets."""
        removed = self._segments[:count]
        self._set(self._segments[count:])
        try:
            for segment in removed:
                self._mark_deleted(segment, due_ms)
        except OSError:
            # A segment that still has its name would be loaded at the next start: the log start offset hides it.
            left = tuple(segment for segment in removed if self.log_dir.disk.exists(segment.handle.path))
            self._set((*left, *self._segments))
            raise
        return [segment.base for segment in removed]

    def replace(self, bases: Sequence[int], segments: Sequence[Segment], due_ms: int) -> None:
        """Replace a run of closed segments by compacted ones, and delete the old files.

        The new files are renamed after this; the first new segment has the name of the first old one.
        """
        first = self._bases.index(bases[0])
        end = first + len(bases)
        assert self._bases[first:end] == tuple(bases), f"{bases} are no run of segments"
        assert end < len(self._segments), "the active segment is never replaced"
        replaced = self._segments[first:end]
        self._set((*self._segments[:first], *segments, *self._segments[end:]))
        self._last_end_position = (self.active, -1, 0)
        for segment in replaced:
            self._mark_deleted(segment, due_ms)

    def create_transaction_index(self, segment: Segment) -> None:
        """Create a segment's transaction index, if it has none."""
        segment.transactions.create()
        self.names_changed = True

    def add_aborted(self, segment: Segment, transaction: AbortedTransaction) -> None:
        """Add an aborted transaction to a segment's transaction index."""
        segment.transactions.append(transaction)
        self.names_changed = True

    def take_due(self, now_ms: int) -> list[str]:
        """The paths of deleted files that are due; the caller removes them."""
        due = [path for due_ms, path in self._pending_delete if due_ms <= now_ms]
        self._pending_delete = [entry for entry in self._pending_delete if entry[0] > now_ms]
        if not self._pending_delete:
            self.log_dir.with_deleted_files.pop(self, None)
        return due

    def close(self) -> None:
        """Close every file, pinned ones with their last pin."""
        self.log_dir.with_deleted_files.pop(self, None)
        for segment in self._segments:
            segment.close()

    def batch_size(self, segment: Segment, position: int) -> int:
        """The whole size of the batch that starts at `position`."""
        return batch_scan.batch_size(segment.file(), position)

    def _mark_deleted(self, segment: Segment, due_ms: int) -> None:
        self.names_changed = True
        self.log_dir.with_deleted_files[self] = None
        segment.mark_deleted(on_renamed=lambda path: self._pending_delete.append((due_ms, path)))

    def _set(self, segments: tuple[Segment, ...]) -> None:
        """Replace the list. The last segment is the active one."""
        self._segments = segments
        self._bases = tuple(segment.base for segment in segments)
        self.active = segments[-1]

    def _clear_caches(self) -> None:
        """Another segment is active, or its end has moved back."""
        self.recent.clear()
        self._last_end_position = (self.active, -1, 0)
