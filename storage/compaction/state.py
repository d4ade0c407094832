"""The compaction state of one log, in memory: a log that is deleted and created again starts without any."""

from __future__ import annotations

from sordini.storage.compaction.task import Replacement
from sordini.system.named_tuple import NamedTuple


class Staged(NamedTuple):
    """Replacements whose `.swap` files are complete: after a crash the next start puts them in place."""

    replacements: tuple[Replacement, ...]
    placeholder: int | None
    """The base of the empty stand-in for the last replaced segment, see `segment_replacement`."""


class CompactionState:
    """How far a log is clean, and what delays or prevents the next cleaning."""

    __slots__ = ("failures", "first_dirty_offset", "is_running", "not_before_ms", "staged", "uncleanable")

    def __init__(self) -> None:
        self.first_dirty_offset: int | None = None
        """Below it each key is unique; None before the first cleaning. Written to `cleaner-offset-checkpoint`."""
        self.is_running = False
        """The cleaner reads the closed segments to replace them: retention deletes none meanwhile."""
        self.staged: Staged | None = None
        """Replacements with `.swap` files, while the directory is synced; a truncation withdraws them."""
        self.uncleanable: str | None = None
        """Why the log is not cleaned until the broker restarts."""
        self.failures = 0
        """Failed cleanings in a row."""
        self.not_before_ms = 0
        """No cleaning before this time (wall clock), after a failure."""

    def stage(self, staged: Staged) -> None:
        """Note replacements whose files have their `.swap` names."""
        self.staged = staged

    def take_staged(self) -> Staged | None:
        """The staged replacements, to be put in place or withdrawn."""
        staged, self.staged = self.staged, None
        return staged

    def cleaned_to(self, offset: int) -> None:
        """All replacements of a cleaning are in place: `offset` is the new first dirty offset."""
        self.first_dirty_offset = offset

    def truncated_to(self, offset: int) -> None:
        """The log was truncated: records appended from `offset` on are not clean."""
        if self.first_dirty_offset is not None:
            self.first_dirty_offset = min(self.first_dirty_offset, offset)
