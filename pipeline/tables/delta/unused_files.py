"""Files in a Delta table's folder that no version needs, or none that is young enough to be read."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pyarrow.fs
from deltalake import DeltaTable

from sordini.pipeline.tables.delta.features import stored_keys
from sordini.pipeline.tables.delta.log import DeltaLog
from sordini.pipeline.tables.file_names import DATA_FILE
from sordini.pipeline.tables.table import DAY_SECONDS

KEPT_MS: Final = 7 * DAY_SECONDS * 1000
"""For how long files that were replaced are kept for readers of older versions: Delta's default."""
COMPACTED_FILE: Final = re.compile(r"part-\d{5}-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-c\d{3}(\.\w+)?\.parquet")
"""The names of deltalake's files, as its compaction makes them."""


def uncommitted_files(table: DeltaTable) -> list[str]:
    """Files written by Sordini, or by deltalake for it, and never committed, relative to the table."""
    listed, removed = (
        set(table.vacuum(0, dry_run=True, enforce_retention_duration=False, full=full)) for full in (True, False)
    )
    # The list contains removed files, which are kept for readers of older versions.
    made = (DATA_FILE, COMPACTED_FILE)
    return sorted(path for path in listed - removed if any(each.fullmatch(Path(path).name) for each in made))


def delete_unused(
    table: DeltaTable, files: pyarrow.fs.FileSystem, log: Callable[[], DeltaLog], older_than_seconds: float
) -> list[str]:
    """What was never committed and is older than that, and what was replaced longer ago than Delta's retention.

    `files` is the table's folder; `log` is read for a table of upserts only. Returns the paths.
    """

    def is_old(path: str) -> bool:
        changed = files.get_file_info(path).mtime
        return changed is not None and time.time() - changed.timestamp() >= older_than_seconds

    deleted = [path for path in uncommitted_files(table) if is_old(path)]
    for path in deleted:
        files.delete_file(path)
    if stored_keys(table) is not None:
        # Its library of bitmaps is only needed for tables of upserts.
        from sordini.pipeline.tables.delta import upsert_compaction

        vectors = upsert_compaction.unused_vectors(log().snapshot(table.version()), files, KEPT_MS, is_old)
        for path in vectors:
            files.delete_file(path)
        deleted += vectors
    return deleted + table.vacuum(dry_run=False, full=False)
