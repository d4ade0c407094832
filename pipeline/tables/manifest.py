"""The manifest of a Parquet table: its files, its columns, and the position of each writer.

It is one JSON file, `_manifest.json`, replaced as a whole:

    {"format": "sordini-manifest-1", "version": 12,
     "columns": {"type": "struct", "fields": [...]},  (a schema as Spark writes it)
     "partition_by": ["day"],
     "files": [{"path": "day=2026-11-22/part-....parquet", "rows": 1000, "bytes": 52345}],
     "writers": {"app_id": {"batch": 7, "offsets": {"topic": {"0": 1000}}}}}

While files are being moved, a second one, `_sordini/commit.json`, has the next manifest and two lists: `moves` (from
below `_sordini/staging` to the table's folder) and `removals`. If it exists, the commit is in force, and the next
process that opens the table completes it; if not, nothing of that commit has happened.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql.types import StructType

from sordini.pipeline.tables.columns import arrow_schema, spark_schema
from sordini.pipeline.tables.table import TableError
from sordini.pipeline.tables.writer_positions import WriterPosition, from_json, to_json

FORMAT = "sordini-manifest-1"


class Listed(NamedTuple):
    """A file of the table; `path` is below the table's folder."""

    path: str
    rows: int
    bytes: int


class Manifest(NamedTuple):
    """A table between two commits; values, never changed."""

    version: int
    schema: pa.Schema
    partition_by: tuple[str, ...]
    files: tuple[Listed, ...]
    writers: dict[str, WriterPosition]

    def appended(self, files: list[Listed], schema: pa.Schema, app_id: str, note: WriterPosition) -> Manifest:
        """With the files of one batch."""
        return self._replace(
            version=self.version + 1,
            schema=schema,
            files=(*self.files, *files),
            writers={**self.writers, app_id: note},
        )

    def replaced(self, old: frozenset[str], new: list[Listed]) -> Manifest | None:
        """With other files for the same rows; None if one of the old ones was replaced meanwhile."""
        kept = tuple(each for each in self.files if each.path not in old)
        if len(kept) + len(old) != len(self.files):
            return None
        return self._replace(version=self.version + 1, files=(*kept, *new))


class Commit(NamedTuple):
    """A step from one manifest to the next: the new manifest, and the files to move and remove for it."""

    manifest: Manifest
    moves: tuple[tuple[str, str], ...]
    removals: tuple[str, ...] = ()


def manifest_text(manifest: Manifest) -> str:
    """The JSON of `_manifest.json`."""
    return json.dumps(_manifest_body(manifest), indent=1, ensure_ascii=False)


def read_manifest(text: str, where: str) -> Manifest:
    """Undoes `manifest_text`. Raises TableError for anything else; `where` names the file in its text."""
    return _manifest(_parsed(text, where), where)


def commit_text(commit: Commit) -> str:
    """The JSON of `commit.json`."""
    body = {"manifest": _manifest_body(commit.manifest), "moves": commit.moves, "removals": commit.removals}
    return json.dumps(body, indent=1, ensure_ascii=False)


def read_commit(text: str, where: str) -> Commit:
    """Undoes `commit_text`. Raises TableError for anything else."""
    body = _parsed(text, where)
    try:
        moves = tuple((str(source), str(target)) for source, target in body["moves"])
        return Commit(_manifest(body["manifest"], where), moves, tuple(map(str, body["removals"])))
    except (KeyError, TypeError, ValueError) as error:
        raise TableError(f"{where} is damaged: {error!r}") from error


def _manifest_body(manifest: Manifest) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": manifest.version,
        "columns": spark_schema(manifest.schema).jsonValue(),
        "partition_by": list(manifest.partition_by),
        "files": [each._asdict() for each in manifest.files],
        "writers": {app_id: to_json(note) for app_id, note in manifest.writers.items()},
    }


def _parsed(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise TableError(f"{where} is damaged: {error}") from error


def _manifest(body: Any, where: str) -> Manifest:
    try:
        if body["format"] != FORMAT:
            raise TableError(f"{where} is of format {body['format']}, this is {FORMAT}")
        return Manifest(
            int(body["version"]),
            arrow_schema(StructType.fromJson(body["columns"])),
            tuple(map(str, body["partition_by"])),
            tuple(Listed(str(each["path"]), int(each["rows"]), int(each["bytes"])) for each in body["files"]),
            {app_id: from_json(note) for app_id, note in body["writers"].items()},
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise TableError(f"{where} is damaged: {error!r}") from error
