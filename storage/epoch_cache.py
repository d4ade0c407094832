"""The start offset of each leader epoch in one log. Pure; `checkpoints` reads and writes the file.

Entries rise in both fields. A leader adds (epoch, log end offset) when it is elected, so the last entry may start at
the log end. `end_offset` is the lookup of KIP-101 and KIP-279 by which a follower finds the divergence of its log from
the leader's: the largest epoch not after the requested one, and the end offset of that epoch.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1


class EpochCache:
    """The (epoch, start offset) entries of one log. `changed` is true until `saved` is called."""

    __slots__ = ("_entries", "changed", "latest")

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        self._entries: list[tuple[int, int]] = []
        self.latest = UNDEFINED_EPOCH
        for epoch, start_offset in entries:
            self.assign(epoch, start_offset)
        self.changed = False

    @property
    def entries(self) -> list[tuple[int, int]]:
        return list(self._entries)

    def saved(self) -> None:
        self.changed = False

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Note that `epoch` starts at `start_offset`; False when that is known.

        Contradicting entries (a later epoch, or one that starts there or after) are removed.
        """
        entries = self._entries
        if entries and entries[-1][0] == epoch and entries[-1][1] <= start_offset:
            return False
        while entries and (entries[-1][0] >= epoch or entries[-1][1] >= start_offset):
            entries.pop()
        entries.append((epoch, start_offset))
        self._changed()
        return True

    def end_offset(self, requested_epoch: int, log_end_offset: int) -> tuple[int, int]:
        """(epoch, end offset) of the largest epoch <= the requested one; (-1, -1) when it is unknown."""
        entries = self._entries
        if requested_epoch == UNDEFINED_EPOCH or not entries:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if requested_epoch == entries[-1][0]:
            return requested_epoch, log_end_offset
        later = bisect_right(entries, requested_epoch, key=lambda entry: entry[0])
        if later == len(entries):
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if later == 0:
            # Older than all known epochs: the log cannot hold any record of it past its first entry.
            return requested_epoch, entries[0][1]
        return entries[later - 1][0], entries[later][1]

    def epoch_at(self, offset: int) -> int:
        """The epoch in which the record at `offset` was written; -1 when unknown."""
        found = bisect_right(self._entries, offset, key=lambda entry: entry[1])
        return self._entries[found - 1][0] if found else UNDEFINED_EPOCH

    def truncate_from_end(self, end_offset: int) -> None:
        """Remove epochs that start at `end_offset` or after: the new log end."""
        while self._entries and self._entries[-1][1] >= end_offset:
            self._entries.pop()
            self._changed()

    def truncate_from_start(self, start_offset: int) -> None:
        """Remove epochs that ended at or before the new log start; the epoch that holds it starts there now."""
        found = bisect_right(self._entries, start_offset, key=lambda entry: entry[1])
        if found and (found > 1 or self._entries[0][1] < start_offset):
            epoch = self._entries[found - 1][0]
            self._entries[:found] = [(epoch, start_offset)]
            self._changed()

    def _changed(self) -> None:
        self.latest = self._entries[-1][0] if self._entries else UNDEFINED_EPOCH
        self.changed = True
