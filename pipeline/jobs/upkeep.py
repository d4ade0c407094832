"""Upkeep of a table between two batches of its writer: small files are merged, old versions dropped, unused files
deleted, by thresholds.

A batch reads the list of the table's files and versions, so its time grows with them; upkeep bounds both. It runs in
the writer's thread after a batch is committed, so it delays the next batch, and it never fails the stream: what went
wrong is reported, and tried again when as much has been written again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from sordini.pipeline.error_messages import has_message, message_of
from sordini.pipeline.tables.compaction import is_small

if TYPE_CHECKING:
    from sordini.pipeline.jobs.state_folder import StateFolder
    from sordini.pipeline.tables import Table

COMPACTION, VERSIONS, VACUUM = "compaction", "versions", "vacuum"
NOTED: Final = "upkeep.json"
CHECK_BATCHES: Final = 25
"""After so many batches the number of versions is compared with its limit."""


@dataclass(frozen=True)
class UpkeepSettings:
    """The thresholds of one table."""

    small_files_max: int = 100
    """Small files are merged when so many have come since the last time; 0: never."""
    cluster_by: tuple[str, ...] = ()
    """The columns by which the rows of merged files are ordered."""
    versions_max: int | None = None
    """How many versions can be read; None: the kind's own default; 0: all, whatever that costs each batch."""
    vacuum_seconds: float = 24 * 60 * 60
    """How often unused files are deleted; 0: never."""
    target_bytes: int = 128 * 1024 * 1024
    """The size of merged files."""

    @property
    def is_off(self) -> bool:
        return not self.small_files_max and self.versions_max == 0 and not self.vacuum_seconds


class UpkeepStep(NamedTuple):
    """What was done for a table after a batch."""

    table: str
    action: str
    """compaction, versions or vacuum."""
    removed: int
    """Small files that were merged, versions that were dropped, files that were deleted."""
    added: int
    """Files that replaced the merged ones."""
    seconds: float
    failure: str = ""
    """Why it failed; the stream continues."""


class Upkeep:
    """The upkeep of one table, called by its writer after every batch."""

    def __init__(
        self,
        table: Table,
        settings: UpkeepSettings,
        state: StateFolder,
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._table = table
        self._settings = settings
        self._state = state
        self._now = now
        self._small: int | None = None
        """Small files that came since the last compaction; None: not counted yet."""
        self._batches = 0
        self._vacuumed: float | None = None
        """When that was done last, in seconds since 1970; None: the state was not read yet."""

    def after_batch(self, files: int, size: int) -> tuple[UpkeepStep, ...]:
        """Do what is due after a batch that added `files` of `size` bytes in all. Raises nothing."""
        if self._settings.is_off:
            return ()
        self._batches += 1
        done = [self._merge(files, size), self._drop_versions(), self._vacuum()]
        return tuple(step for step in done if step is not None)

    def _merge(self, files: int, size: int) -> UpkeepStep | None:
        limit, target = self._settings.small_files_max, self._settings.target_bytes
        if not limit or not files:
            return None
        if self._small is None:
            counted = self._tried(COMPACTION, lambda: (self._table.small_files(target), 0))
            if counted.failure:
                return counted
            self._small = counted.removed
        elif is_small(size // files, target):
            self._small += files
        if self._small < limit:
            return None
        self._small = 0  # Also after a failure, and where a file is the only small one of its partition.
        return self._tried(COMPACTION, self._compact)

    def _compact(self) -> tuple[int, int]:
        done = self._table.compact(self._settings.target_bytes, self._settings.cluster_by)
        return done.files_before, done.files_after

    def _drop_versions(self) -> UpkeepStep | None:
        keep = self._settings.versions_max
        if keep == 0 or self._batches % CHECK_BATCHES != 1:
            return None
        step = self._tried(VERSIONS, lambda: (self._table.drop_versions(keep), 0))
        return step if step.removed or step.failure else None

    def _vacuum(self) -> UpkeepStep | None:
        every, now = self._settings.vacuum_seconds, self._now()
        if not every or (self._vacuumed is not None and now - self._vacuumed < every):
            return None

        def work() -> tuple[int, int]:
            notes = self._state.read(NOTED) or {}
            noted = notes.get(self._table.location)
            self._vacuumed = now if noted is None else datetime.fromisoformat(str(noted)).timestamp()
            if noted is not None and now - self._vacuumed < every:
                return 0, 0  # An earlier run has done it.
            self._vacuumed = now
            self._state.write(NOTED, {**notes, self._table.location: datetime.fromtimestamp(now, UTC).isoformat()})
            # A table that was never vacuumed is new, or was written without upkeep: there is no hurry.
            return (0 if noted is None else len(self._table.clean_up())), 0

        step = self._tried(VACUUM, work)
        if step.failure:
            self._vacuumed = now
        return step if step.removed or step.failure else None

    def _tried(self, action: str, work: Callable[[], tuple[int, int]]) -> UpkeepStep:
        began = time.monotonic()
        removed = added = 0
        failure = ""
        try:
            removed, added = work()
        except Exception as error:  # noqa: BLE001 - all of them: upkeep never fails the stream.
            failure = message_of(error) if has_message(error) else f"{type(error).__name__}: {error}"
        return UpkeepStep(self._table.location, action, removed, added, round(time.monotonic() - began, 3), failure)
