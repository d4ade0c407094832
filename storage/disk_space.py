"""Whether a log directory has free space for records, as found out by its calls (ENOSPC, EDQUOT).

    has space ─ a call fails for lack of space ─► full: `on_full` with the free bytes, once
    full ─ appends succeed, and no call has failed for HEALED_AFTER_MS ─► has space: `on_space`, once

A directory that is nearly full accepts small appends between large ones that it refuses: hence the delay. An append
that succeeds does no work here. While the directory is full, the log end offsets are compared once a second to see
whether appends succeed; so a directory without appends stays full.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Final

from sordini.storage.disk import Disk

DISK_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
"""A full file system, and a quota that is used up."""
HEALED_AFTER_MS: Final = 2_000

OnFull = Callable[[str, int | None, str], None]
"""Called with the directory, its free bytes (None when the system does not say) and the system's reason."""
OnSpace = Callable[[str, int], None]
"""Called with the directory and the number of calls that were refused while it was full."""


class DiskSpace:
    """Whether one log directory is full."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self.path = path
        self.is_full = False
        self.refused_total = 0
        """Calls refused for lack of space since the start."""
        self.on_full: OnFull = _nothing
        self.on_space: OnSpace = _nothing
        self._refused_before = 0
        self._last_failed_ms: int | None = None
        """When a call last failed for lack of space; None: since the last check."""
        self._end_offsets = 0

    def found_full(self, error: OSError, *, is_refused: bool) -> None:
        """A call failed for lack of space. `is_refused` is false for a call whose failure is tolerated."""
        if not self.is_full:
            self.is_full = True
            self._refused_before = self.refused_total
            self.on_full(self.path, self._free_bytes(), os.strerror(error.errno or errno.ENOSPC))
        self._last_failed_ms = None
        self.refused_total += is_refused

    def check_healed(self, end_offsets: int, now_ms: int) -> None:
        """Called once a second while the directory is full, with the sum of all its logs' end offsets."""
        if self._last_failed_ms is None:
            self._last_failed_ms, self._end_offsets = now_ms, end_offsets
        elif now_ms - self._last_failed_ms >= HEALED_AFTER_MS and end_offsets > self._end_offsets:
            self.is_full = False
            self.on_space(self.path, self.refused_total - self._refused_before)
        else:
            self._end_offsets = min(self._end_offsets, end_offsets)  # The deletion of a log lowers the sum.

    def _free_bytes(self) -> int | None:
        try:
            return self._disk.space(self.path)[1]
        except OSError:
            return None


def _nothing(*_: object) -> None:
    """The default: no listener."""
