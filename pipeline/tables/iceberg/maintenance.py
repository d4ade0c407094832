"""Clean-up of Iceberg tables, which pyiceberg has in part."""

from __future__ import annotations

import datetime as dt
import re
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import pyarrow.fs
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io.pyarrow import PyArrowFileIO

from sordini.pipeline.tables.compaction import is_small
from sordini.pipeline.tables.file_names import DATA_FILE, deletions_time
from sordini.pipeline.tables.iceberg.files import planned
from sordini.pipeline.tables.local_files import local_path
from sordini.pipeline.tables.table import TableError

if TYPE_CHECKING:
    from pyiceberg.table import Table as IcebergTable
    from pyiceberg.table.snapshots import Snapshot

METADATA_FILE = re.compile(r"\.(avro|metadata\.json)$")

EXPIRY_PROPERTY = "history.expire.max-snapshot-age-ms"
EXPIRY_MS = 5 * 24 * 60 * 60 * 1000
"""Iceberg's own default."""

SNAPSHOTS_KEPT = 50
"""By default. Each commit writes the list of all snapshots, and pyiceberg copies it many times."""


def small_files(table: IcebergTable, target_bytes: int) -> int:
    """See `Table.small_files`."""
    files = [task.file for task in planned(table) if deletions_time(task.file.file_path) is None]
    return sum(is_small(file.file_size_in_bytes, target_bytes) for file in files)


def drop_versions(table: IcebergTable, keep: int | None) -> int:
    """See `Table.drop_versions`: expires snapshots that no branch or tag names. Their files are `clean_up`'s."""
    if EXPIRY_PROPERTY in table.properties:
        expire_by_age(table)
        return 0
    named = {ref.snapshot_id for ref in table.metadata.refs.values()}
    snapshots = sorted(table.snapshots(), key=lambda each: each.timestamp_ms)
    kept = SNAPSHOTS_KEPT if keep is None else keep
    old = [each.snapshot_id for each in snapshots[: len(snapshots) - kept] if each.snapshot_id not in named]
    if not old:
        return 0
    try:
        table.maintenance.expire_snapshots().by_ids(old).commit()
    except CommitFailedException:
        return 0  # Another writer was faster: there will be a next time.
    return len(old)


def expire_by_age(table: IcebergTable) -> None:
    """Expire snapshots older than the table keeps them."""
    kept = dt.timedelta(milliseconds=int(table.properties.get(EXPIRY_PROPERTY, EXPIRY_MS)))
    now = dt.datetime.now(dt.UTC).replace(tzinfo=None)
    table.maintenance.expire_snapshots().older_than(now - kept).commit()


class TableFile(NamedTuple):
    """A file in the table's folder."""

    uri: str
    changed_seconds: float
    """Since 1970."""
    bytes: int

    @property
    def name(self) -> str:
        return self.uri.rpartition("/")[2]


def clean_up(table: IcebergTable, older_than_seconds: float) -> list[str]:
    """Expire old snapshots, and delete Sordini's files that no snapshot names; returns their paths."""
    expire_by_age(table)
    since = time.time() - older_than_seconds
    listed = [*uncommitted_files(table.refresh()), *unused_metadata(table)]
    return delete(table, [file for file in listed if file.changed_seconds <= since])


def delete(table: IcebergTable, files: Iterable[TableFile]) -> list[str]:
    """Delete files, if they are there; returns their paths, local ones without a scheme."""
    deleted = []
    for file in files:
        with suppress(FileNotFoundError):
            table.io.delete(file.uri)
        deleted.append(plain_path(file.uri))
    return deleted


def uncommitted_files(table: IcebergTable) -> list[TableFile]:
    """Sordini's files that no snapshot names. Raises TableError if the catalog's file system cannot list."""
    named = {plain_path(path) for path in table.inspect.all_files()["file_path"].to_pylist()}
    found = listed_data(table)
    return [file for file in found if DATA_FILE.fullmatch(file.name) and plain_path(file.uri) not in named]


def unused_metadata(table: IcebergTable) -> list[TableFile]:
    """Files of metadata that no snapshot, and no version that is still listed, names."""
    manifests = {path for each in table.snapshots() for path in _metadata_of(table, each)}
    versions = {table.metadata_location, *(each.metadata_file for each in table.metadata.metadata_log)}
    statistics = {each.statistics_path for each in table.metadata.statistics}
    used = {plain_path(path) for path in manifests | versions | statistics}
    found = _listed(table, "metadata")
    return [file for file in found if METADATA_FILE.search(file.name) and plain_path(file.uri) not in used]


def can_list(table: IcebergTable) -> bool:
    """Whether the catalog's file system lists folders."""
    return isinstance(table.io, PyArrowFileIO)


def listed_data(table: IcebergTable) -> list[TableFile]:
    """All files below the table's folder of data. Raises TableError if the catalog's file system cannot list."""
    return _listed(table, "data")


def _metadata_of(table: IcebergTable, snapshot: Snapshot) -> set[str]:
    return {snapshot.manifest_list, *(each.manifest_path for each in snapshot.manifests(table.io))}


def _listed(table: IcebergTable, folder: str) -> list[TableFile]:
    """All files of a folder of the table."""
    below = f"{table.location()}/{folder}"
    if not isinstance(table.io, PyArrowFileIO):
        raise TableError(f"{below} cannot be listed by {type(table.io).__name__}: use the catalog's own clean-up")
    scheme, host, path = table.io.parse_location(below, table.io.properties)
    files = table.io.fs_by_scheme(scheme, host)
    found = files.get_file_info(pyarrow.fs.FileSelector(path, allow_not_found=True, recursive=True))
    return sorted(
        TableFile(f"{below}{info.path.removeprefix(path)}", info.mtime.timestamp(), info.size)
        for info in found
        if info.type is pyarrow.fs.FileType.File and info.mtime is not None
    )


def plain_path(uri: str) -> str:
    """Files of this machine have URIs of several forms."""
    return str(local_path(uri) or uri)
