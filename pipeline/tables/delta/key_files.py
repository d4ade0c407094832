"""Reads keys and sequences from the files of a Delta table: those of a batch, and those of files that may have them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs

from sordini.pipeline.tables.arrow_reading import parquet_file
from sordini.pipeline.tables.batch_upsert import StagedChanges
from sordini.pipeline.tables.delta import key_lookup
from sordini.pipeline.tables.delta.log import LiveFile
from sordini.pipeline.tables.key_columns import plain_columns
from sordini.pipeline.tables.upsert import Upsert


class Changes(NamedTuple):
    """What the driver knows of a batch; the arrays have an element for each change."""

    keys: pa.Table
    """As in `key_columns.py`."""
    files: np.ndarray
    """The number of the staged file, rows first."""
    rows: np.ndarray
    deletes: np.ndarray


class KeyFiles:
    """See above; `files` is the table's folder."""

    def __init__(self, files: pyarrow.fs.FileSystem) -> None:
        self._files = files

    def changes(self, staged: StagedChanges, schema: pa.Schema, how: Upsert) -> Changes:
        pieces: list[pa.Table] = []
        files: list[np.ndarray] = []
        for number, file in enumerate([*staged.rows, *staged.deletions]):
            pieces.append(self.of_file(file.path, file.partition, schema, how))
            files.append(np.full(pieces[-1].num_rows, number))
        if not pieces:
            empty = plain_columns(schema.empty_table(), how)
            return Changes(empty, np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=bool))
        numbers = np.concatenate(files)
        rows = np.concatenate([np.arange(len(each)) for each in files])
        return Changes(pa.concat_tables(pieces), numbers, rows, numbers >= len(staged.rows))

    def known(self, files: Sequence[LiveFile], changes: pa.Table, schema: pa.Schema, how: Upsert) -> Iterator[pa.Table]:
        """Keys and sequences of the rows of files that may have one of the keys."""
        if not changes.num_rows:
            return
        bounds = [(name, *pc.min_max(changes.column(f"key{at}")).as_py().values()) for at, name in enumerate(how.keys)]
        for number, file in enumerate(files):
            # Without a sequence deletions are not remembered, and a file in which all is deleted has nothing to find.
            if not _may_have(file, bounds) or (not how.sequence and file.has_deletions_only):
                continue
            rows = self.of_file(file.name, file.add["partitionValues"], schema, how)
            places = {
                key_lookup.FILE: pa.array(np.full(rows.num_rows, number)),
                key_lookup.ROW: pa.array(np.arange(rows.num_rows)),
            }
            for name, values in places.items():
                rows = rows.append_column(name, values)
            yield rows

    def of_file(self, path: str, partition: Mapping[str, str | None], schema: pa.Schema, how: Upsert) -> pa.Table:
        """Keys and sequence of all rows of a file, deleted ones included; partition columns are not in the file."""
        names = list(dict.fromkeys([*how.keys, *how.sequence]))
        with self._files.open_input_file(path) as source, parquet_file(source) as parquet:
            there = [name for name in names if name in parquet.schema_arrow.names]
            rows = parquet.read(columns=there)
            count = parquet.metadata.num_rows
        columns = {}
        for name in names:
            kind = schema.field(name).type
            if name in there:
                columns[name] = rows.column(name).cast(kind)
            else:
                value = pa.scalar(partition.get(name), pa.string()).cast(kind)
                columns[name] = pa.chunked_array([pa.repeat(value, count)])
        return plain_columns(pa.table(columns), how)


def _may_have(file: LiveFile, bounds: Sequence[tuple[str, Any, Any]]) -> bool:
    """Whether a file may have a key within these bounds, by its statistics of integers and texts."""
    statistics = file.statistics
    smallest, greatest = statistics.get("minValues", {}), statistics.get("maxValues", {})
    for name, low, high in bounds:
        if not isinstance(low, int | str) or isinstance(low, bool):
            continue
        if name in smallest and name in greatest and (greatest[name] < low or smallest[name] > high):
            return False
    return True
