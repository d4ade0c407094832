"""Notes the attempts to write a batch that may have left files, for formats whose logs name committed files only.

An attempt is noted before its first file is made, as an empty file `_sordini/attempts/<writer>/<batch>-<attempt>`, and
removed once its batch is in the table: its leftover files are deleted then. Not earlier: until then a slow writer may
still commit; afterwards the log refuses the batch.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from sordini.pipeline.tables.file_names import INSIDE
from sordini.pipeline.tables.local_files import sync_folder


class WriteAttempts:
    """The attempts of one writer; none if the table is not in a folder: an object store can expire old files."""

    def __init__(self, folder: Path | None, app_id: str) -> None:
        writer = hashlib.sha256(app_id.encode()).hexdigest()[:32]
        self._notes = folder / INSIDE / "attempts" / writer if folder else None

    def begin(self, attempt: str, batch_id: int) -> None:
        """Note an attempt, durably."""
        if self._notes:
            self._notes.mkdir(parents=True, exist_ok=True)
            (self._notes / f"{batch_id}-{attempt}").touch()
            sync_folder(self._notes)

    def until(self, batch_id: int) -> set[str]:
        """The attempts noted for batches up to this one."""
        names = (path.name.split("-") for path in self._listed())
        return {attempt for number, attempt in names if int(number) <= batch_id}

    def forget(self, attempts: set[str]) -> None:
        """Delete the notes of attempts whose files were deleted."""
        for path in self._listed():
            if path.name.partition("-")[2] in attempts:
                path.unlink(missing_ok=True)

    def _listed(self) -> list[Path]:
        return list(self._notes.iterdir()) if self._notes and self._notes.is_dir() else []
