"""Whether a log directory has room for records, as its calls find out (ENOSPC, EDQUOT).

    has room ─ a call finds none ─► full: `on_full` with the free bytes, once
    full ─ appends succeed, and no call has found none for HEALED_AFTER_MS ─► has room: `on_room`, once

A directory that is nearly full takes small appends between large ones that it refuses: hence the delay. Nothing is done
here for an append that succeeds. Whether there were any is seen from the ends of the logs, once a second while the
directory is full, so one that is not written to stays full until it is.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Final

from sordini.storage.disk import Disk

NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
"""A full file system, and a quota that is used up."""
HEALED_AFTER_MS: Final = 2_000

OnFull = Callable[[str, int | None, str], None]
"""Called with the directory, its free bytes (None when the system does not tell) and the system's reason."""
OnRoom = Callable[[str, int], None]
"""Called with the directory and the number of calls that were refused while it was full."""


class Room:
    """The room of one log directory."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self.path = path
        self.is_full = False
        self.refused_total = 0
        """Calls that were refused for want of room since the start."""
        self.on_full: OnFull = _nothing
        self.on_room: OnRoom = _nothing
        self._refused_before = 0
        self._found_none_ms: int | None = None
        """When a call last found no room; None: since the last look."""
        self._end_offsets = 0

    def missing(self, error: OSError, *, is_refused: bool) -> None:
        """A call found no room. Without `is_refused` it was one that can be done without."""
        if not self.is_full:
            self.is_full = True
            self._refused_before = self.refused_total
            self.on_full(self.path, self._free_bytes(), os.strerror(error.errno or errno.ENOSPC))
        self._found_none_ms = None
        self.refused_total += is_refused

    def look(self, end_offsets: int, now_ms: int) -> None:
        """To be called once a second while it is full, with the sum of all logs' end offsets."""
        if self._found_none_ms is None:
            self._found_none_ms, self._end_offsets = now_ms, end_offsets
        elif now_ms - self._found_none_ms >= HEALED_AFTER_MS and end_offsets > self._end_offsets:
            self.is_full = False
            self.on_room(self.path, self.refused_total - self._refused_before)
        else:
            self._end_offsets = min(self._end_offsets, end_offsets)  # A log that was deleted takes its end along.

    def _free_bytes(self) -> int | None:
        try:
            return self._disk.space(self.path)[1]
        except OSError:
            return None


def _nothing(*_: object) -> None:
    """Nothing is told before the broker runs."""
