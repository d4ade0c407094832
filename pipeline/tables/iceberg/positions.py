"""Position delete files of Iceberg: which rows of which data files are deleted.

A Parquet file with two columns, sorted, for the data files of one partition:

    file_path (field 2147483546)      pos (field 2147483545)
    file:///data/.../part-a.parquet   17
    file:///data/.../part-b.parquet   3

It applies to data files that were committed before it or with it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import _read_deletes
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import FileScanTask
from pyiceberg.typedef import Record
from pyiceberg.utils.concurrent import ExecutorFactory

from sordini.pipeline.tables.file_names import plain_folder, positions_name, text_of
from sordini.pipeline.tables.staging import StagingPlan

PATH_FIELD, POSITION_FIELD = 2147483546, 2147483545

COLUMNS = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": str(PATH_FIELD)}),
        pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": str(POSITION_FIELD)}),
    ]
)


class PositionsOutput(NamedTuple):
    """Where delete files are written: below the `data` folder of the table, whose URI that is."""

    plan: StagingPlan
    below: str

    def write(self, deleted: Iterable[tuple[DataFile, np.ndarray]]) -> list[DataFile]:
        """Write the deleted positions of data files, each of which is given once, into one file for each partition."""
        groups: dict[tuple[int, Record], list[tuple[str, np.ndarray]]] = defaultdict(list)
        for file, positions in deleted:
            if len(positions):
                groups[file.spec_id, file.partition].append((file.file_path, np.unique(positions)))
        return [self._written(*partition, rows) for partition, rows in groups.items()]

    def _written(self, spec_id: int, partition: Record, rows: list[tuple[str, np.ndarray]]) -> DataFile:
        rows = sorted(rows, key=lambda each: each[0])
        numbers = np.repeat(np.arange(len(rows), dtype=np.int32), [len(positions) for _, positions in rows])
        paths = pa.DictionaryArray.from_arrays(pa.array(numbers), pa.array([path for path, _ in rows])).cast(
            pa.string()
        )
        positions = pa.array(np.concatenate([each for _, each in rows]), pa.int64())
        path = f"{self._folder(partition)}/{positions_name(self.plan.attempt)}".lstrip("/")
        with self.plan.outputs.create(path) as sink:
            pq.write_table(pa.table([paths, positions], schema=COLUMNS), sink, compression="zstd")
            size = sink.tell()
        made = DataFile.from_args(
            content=DataFileContent.POSITION_DELETES,
            file_path=f"{self.below}/{path}",
            file_format=FileFormat.PARQUET,
            partition=partition,
            record_count=len(positions),
            file_size_in_bytes=size,
            # By these bounds readers know which data files are not meant.
            lower_bounds={PATH_FIELD: rows[0][0].encode()},
            upper_bounds={PATH_FIELD: rows[-1][0].encode()},
        )
        made.spec_id = spec_id
        return made

    def _folder(self, partition: Record) -> str:
        texts = [text_of(partition[at]) for at in range(len(partition))]
        names = self.plan.partition_by if len(texts) == len(self.plan.partition_by) else ()
        return plain_folder(dict(zip(names, texts, strict=False)))


def read_positions(io: FileIO, files: Iterable[DataFile]) -> dict[str, dict[str, np.ndarray]]:
    """For each delete file its data files, by path, with the deleted positions."""
    listed = list(files)
    read = ExecutorFactory.get_or_create().map(lambda each: _read_deletes(io, each), listed)
    return {
        file.file_path: {path: positions.to_numpy() for path, positions in found.items()}
        for file, found in zip(listed, read, strict=True)
    }


def deleted_rows(io: FileIO, tasks: Sequence[FileScanTask]) -> dict[str, np.ndarray]:
    """The deleted positions, by their delete files, of each data file that has any."""
    read = read_positions(io, {each for task in tasks for each in task.delete_files})
    result = {}
    for task in tasks:
        path = task.file.file_path
        found = [read[each.file_path][path] for each in task.delete_files if path in read[each.file_path]]
        if found:
            result[path] = np.unique(np.concatenate(found))
    return result
