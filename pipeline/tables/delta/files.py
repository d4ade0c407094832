"""The files of a Delta table: how its store is reached, which files a version has, and what they cannot say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO, cast
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
from deltalake import DeltaTable
from deltalake.fs import DeltaStorageHandler

from sordini.pipeline.tables.arrow_reading import TableFile, Within
from sordini.pipeline.tables.object_storage import NOWHERE, ObjectStorage

READ_FEATURES = frozenset({"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck", "deletionVectors", "variantType"})
"""Features of a table that `DeltaLake.read` respects, most of which a reader of its Parquet files can ignore; columns
of variants are refused by themselves."""


@dataclass(frozen=True)
class Access:
    """How the table's store is reached: the job's storage, and the table's own options of deltalake, which win."""

    storage: ObjectStorage = NOWHERE
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    def to(self, location: str) -> dict[str, str]:
        """Options of deltalake. Raises PipelineError if a provider of keys fails."""
        return {**self.storage.object_store_options(location), **self.options}


@dataclass(frozen=True)
class RemoteOutputs:
    """Creates files through deltalake's file system, with the storage options of the table."""

    location: str
    storage_options: tuple[tuple[str, str], ...] = field(repr=False)

    def create(self, path: str) -> BinaryIO:
        system = pa.fs.PyFileSystem(DeltaStorageHandler(self.location, dict(self.storage_options)))
        return cast("BinaryIO", system.open_output_stream(path))


def open_files(uri: str, storage_options: Mapping[str, str]) -> pa.fs.FileSystem:
    """The table's folder as a file system of pyarrow's."""
    return pa.fs.PyFileSystem(DeltaStorageHandler(uri, dict(storage_options)))


def unreadable_features(table: DeltaTable) -> list[str]:
    """What the table uses and a plain reader of its Parquet files does not know."""
    features = set(table.protocol().reader_features or ()) - READ_FEATURES
    if table.metadata().configuration.get("delta.columnMapping.mode", "none") != "none":
        features.add("columnMapping")
    return sorted(features)


def parts_of(table: DeltaTable, within: Within | None, deleted: Mapping[str, bytes]) -> list[tuple[TableFile, int]]:
    """The table's files that can have such rows, and their bytes, in the order of their paths.

    Paths are percent-encoded in the log, as the protocol says.
    """
    actions = pa.table(table.get_add_actions())
    rows = actions.select([name for name in ("path", "size_bytes", "partition") if name in actions.column_names])
    bounds = [_bounds_of(actions, name, within) for name in ("min", "max")]
    return sorted(
        (
            (TableFile(path, row.get("partition") or {}, deleted.get(path, b"")), row["size_bytes"])
            for row, smallest, greatest in zip(rows.to_pylist(), *bounds, strict=True)
            for path in [unquote(row["path"])]
            if within is None or within.overlaps(smallest, greatest)
        ),
        key=lambda part: part[0].path,
    )


def _bounds_of(actions: pa.Table, name: str, within: Within | None) -> list[Any]:
    """A bound of a column in each file; None where it is unknown."""
    unknown = [None] * len(actions)
    if within is None or name not in actions.column_names:
        return unknown
    kind = actions.schema.field(name).type
    return (
        pc.struct_field(actions[name], within.column).to_pylist()
        if kind.get_field_index(within.column) >= 0
        else unknown
    )
