"""What one log knows of its own compaction. It lives and dies with the log, so a new log of an old name has none."""

from __future__ import annotations

from typing import NamedTuple

from sordini.storage.compaction.task import Replacement


class Staged(NamedTuple):
    """Replacements whose files are complete by name: a crash from now on ends with them in place."""

    replacements: tuple[Replacement, ...]
    placeholder: int | None
    """The base of an empty stand-in for the last segment that goes, see `swap`."""


class CompactionState:
    """How far a log is clean, and what stands in the way of the next cleaning."""

    __slots__ = ("failures", "first_dirty_offset", "is_running", "not_before_ms", "staged", "uncleanable")

    def __init__(self) -> None:
        self.first_dirty_offset: int | None = None
        """Below it no key stands twice; None before the first cleaning. Written to `cleaner-offset-checkpoint`."""
        self.is_running = False
        """The closed segments are being read to be replaced: retention leaves them in place meanwhile."""
        self.staged: Staged | None = None
        """Replacements whose files are named `.swap` while the directory is synced; a cut takes them back."""
        self.uncleanable: str | None = None
        """Why the log is left alone until the broker starts anew."""
        self.failures = 0
        """Cleanings in a row that did not come to their end."""
        self.not_before_ms = 0
        """Until then (wall clock) a log that failed waits."""

    def truncated_to(self, offset: int) -> None:
        """The log was cut: what is written over the place later is not clean."""
        if self.first_dirty_offset is not None:
            self.first_dirty_offset = min(self.first_dirty_offset, offset)
