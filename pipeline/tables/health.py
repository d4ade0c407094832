"""What an examination of a table finds: counted by the table's own log, and compared with its folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class TableHealth(NamedTuple):
    """One table at one moment."""

    kind: str
    location: str
    files: int
    bytes: int
    small_files: int
    """Those that compaction would try to merge."""
    delete_files: int
    """Deletion vectors, or delete files: a reader applies them to the rows of a file."""
    versions: int
    """That can be read: commits in the log, or snapshots."""
    log_files: int
    missing: tuple[str, ...]
    """Files that the table names and its folder lacks."""
    orphaned: tuple[str, ...]
    """Parquet files that no version names, and that are old enough not to be of a batch in progress."""
    orphaned_bytes: int
    writers: Mapping[str, Any]
    """app_id: its last batch and the offsets after it."""
    columns: tuple[str, ...]
    keys: tuple[str, ...]
    """Of a table of upserts; empty for others."""
