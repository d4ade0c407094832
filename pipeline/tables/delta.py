"""Delta Lake tables through deltalake: no JAR, and any Delta reader.

The commit of a batch carries a transaction identifier (`txn` in Delta's protocol: app_id and batch_id), by which the
protocol itself refuses a second commit of the same batch, and the offsets after it, see delta_positions.py.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import pyarrow as pa
import pyarrow.fs
from deltalake import CommitProperties, DeltaTable, Schema, WriterProperties
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.fs import DeltaStorageHandler
from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions
from pyspark.sql.types import StructType

from sordini.pipeline.tables import batch_append
from sordini.pipeline.tables.columns import added, arrow_schema
from sordini.pipeline.tables.delta_positions import NOTES_KEY, all_positions, last_position, transactions
from sordini.pipeline.tables.file_names import DATA_FILE, attempt_of, new_attempt
from sordini.pipeline.tables.file_rows import read_files
from sordini.pipeline.tables.local_files import LocalOutputs, local_path
from sordini.pipeline.tables.staging import FileSettings, Outputs, Staged, StagingPlan
from sordini.pipeline.tables.table import DAY_SECONDS, Compacted, Offsets, TableError, Written
from sordini.pipeline.tables.write_attempts import WriteAttempts
from sordini.pipeline.tables.writer_positions import WriterPosition, to_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

READ_FEATURES = frozenset({"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"})
"""Features of a table that a plain reader of its Parquet files can ignore."""


@dataclass(frozen=True)
class RemoteOutputs:
    """Creates files through deltalake's file system, with the storage options of the table."""

    location: str
    storage_options: tuple[tuple[str, str], ...]

    def create(self, path: str) -> BinaryIO:
        system = pa.fs.PyFileSystem(DeltaStorageHandler(self.location, dict(self.storage_options)))
        return cast("BinaryIO", system.open_output_stream(path))


class DeltaLake:
    """A Delta table, see `Table`."""

    def __init__(
        self,
        location: str,
        app_id: str,
        partition_by: tuple[str, ...],
        settings: FileSettings,
        storage_options: Mapping[str, str],
    ) -> None:
        self.location = location
        self.app_id = app_id
        self.partition_by = partition_by
        self._settings = settings
        self._storage_options = dict(storage_options)
        self._folder = local_path(location)
        self._uri = str(self._folder) if self._folder else location
        self.attempts = WriteAttempts(self._folder, app_id)
        self._table: DeltaTable | None = None
        self._last: WriterPosition | None = None

    def append(
        self,
        frame: DataFrame,
        batch_id: int,
        offsets: Offsets | None = None,
        before_commit: Callable[[], object] | None = None,
    ) -> Written:
        return batch_append.append(self, frame, WriterPosition(batch_id, offsets or {}), before_commit)

    def last(self) -> tuple[int, Offsets] | None:
        return self.read_state().note

    def schema(self) -> pa.Schema | None:
        table = self._opened()
        return _schema(table) if table else None

    def files(self) -> list[str]:
        table = self._opened()
        return sorted(table.file_uris()) if table else []

    def read(self, spark: SparkSession) -> DataFrame:
        table = self._opened()
        if table is None:
            raise TableError(f"there is no Delta table at {self.location}")
        unknown = set(table.protocol().reader_features or ()) - READ_FEATURES
        if unknown:
            raise TableError(
                f"{self.location} uses {', '.join(sorted(unknown))}, which needs a Delta reader: "
                "deltalake, or Spark with Delta's connector"
            )
        actions = pa.table(table.get_add_actions())
        values: list[dict[str, Any]] = []
        partition_by = table.metadata().partition_columns
        if partition_by:
            values = actions["partition"].to_pylist()
        names = [Path(path).name for path in actions["path"].to_pylist()]
        schema = _schema(table)
        return read_files(spark, sorted(table.file_uris()), schema, dict(zip(names, values, strict=False)))

    def compact(self, target_bytes: int) -> Compacted:
        for _ in range(batch_append.COMMIT_TRIES):
            table = self._opened()
            if table is None:
                return Compacted(0, 0, 0, 0)
            properties = WriterProperties(compression=_compression(self._settings.compression))
            try:
                done = table.optimize.compact(target_size=target_bytes, writer_properties=properties)
            except CommitFailedError:
                continue
            before, after = _details(done["filesRemoved"]), _details(done["filesAdded"])
            return Compacted(before["totalFiles"], after["totalFiles"], before["totalSize"], after["totalSize"])
        raise TableError(
            f"{self.location} was not compacted: another writer was faster {batch_append.COMMIT_TRIES} times"
        )

    def clean_up(self, older_than_seconds: float = DAY_SECONDS) -> list[str]:
        """As `Table.clean_up`; also files replaced by compaction, after Delta's retention (a week by default)."""
        table = self._opened()
        if table is None:
            return []
        system = self._file_system()
        deleted = [path for path in _uncommitted_files(table) if self._is_older(system, path, older_than_seconds)]
        for path in deleted:
            system.delete_file(path)
        return deleted + table.vacuum(dry_run=False, full=False)

    def read_state(self) -> batch_append.TableState:
        self._last = None
        table = self._opened()
        if table is None:
            return batch_append.TableState(None, (), None)
        self._last = last_position(table, self.app_id, self._file_system())
        return batch_append.TableState(_schema(table), tuple(table.metadata().partition_columns), self._last)

    def plan(self, schema: pa.Schema, partition_by: tuple[str, ...]) -> StagingPlan:
        outputs: Outputs
        if self._folder:
            outputs = LocalOutputs(str(self._folder))
        else:
            outputs = RemoteOutputs(self._uri, tuple(self._storage_options.items()))
        return StagingPlan(outputs, new_attempt(), schema, partition_by, settings=self._settings)

    def commit(self, staged: list[Staged], schema: pa.Schema, note: WriterPosition) -> bool:
        table = self._table
        now_ms = int(time.time() * 1000)
        actions: list[AddAction | RemoveAction] = [
            AddAction(each.path, each.bytes, each.partition, now_ms, True, each.statistics) for each in staged
        ]
        properties = self._properties(note)
        try:
            if table is None:
                if self._folder:
                    self._folder.mkdir(parents=True, exist_ok=True)
                create_table_with_add_actions(
                    self._uri,
                    Schema.from_arrow(schema),
                    [each for each in actions if isinstance(each, AddAction)],
                    partition_by=list(self.partition_by),
                    storage_options=self._storage_options,
                    commit_properties=properties,
                )
            else:
                new = added(_schema(table), schema)
                if new:
                    # This is a separate commit, and other writers may have committed in between: read their commits.
                    table.alter.add_columns(Schema.from_arrow(pa.schema(new)).fields)
                    return False
                partition_by = table.metadata().partition_columns
                table.create_write_transaction(
                    actions, "append", Schema.from_arrow(schema), partition_by, commit_properties=properties
                )
        except CommitFailedError:
            return False
        except DeltaError as error:
            # If two writers create a table at the same moment, the error is not a CommitFailedError.
            if table is None and self._opened() is not None:
                return False
            raise TableError(f"{self.location}: {error}") from error
        return True

    def set_position(self, batch_id: int, offsets: Offsets) -> None:
        """Note a batch without rows, for a table that has lost its position. Raises TableError."""
        table = self._opened()
        if table is None or not self.commit([], _schema(table), WriterPosition(batch_id, offsets)):
            raise TableError(f"{self.location} was changed at the same moment, or does not exist: nothing was noted")

    def discard(self, attempts: set[str]) -> None:
        table = self._opened()
        assert table is not None, "a batch is in it"
        system = self._file_system()
        for path in _uncommitted_files(table):
            if attempt_of(path) in attempts:
                system.delete_file(path)

    def _opened(self) -> DeltaTable | None:
        """The table at its newest version."""
        try:
            if self._table is None:
                self._table = DeltaTable(self._uri, storage_options=self._storage_options)
            else:
                self._table.update_incremental()
        except TableNotFoundError:
            self._table = None
        return self._table

    def _properties(self, note: WriterPosition) -> CommitProperties:
        notes = {**(all_positions(self._table) if self._table else {}), self.app_id: to_json(note)}
        return CommitProperties(
            custom_metadata={NOTES_KEY: notes},
            # Conflicts are handled here, not retried by deltalake.
            max_commit_retries=0,
            app_transactions=transactions(self.app_id, note, self._last),
        )

    def _file_system(self) -> pa.fs.FileSystem:
        return pa.fs.PyFileSystem(DeltaStorageHandler(self._uri, self._storage_options))

    @staticmethod
    def _is_older(system: pa.fs.FileSystem, path: str, seconds: float) -> bool:
        changed = system.get_file_info(path).mtime
        return changed is not None and time.time() - changed.timestamp() >= seconds


def _uncommitted_files(table: DeltaTable) -> list[str]:
    """Files written by Sordini and never committed, relative to the table."""
    listed, removed = (
        set(table.vacuum(0, dry_run=True, enforce_retention_duration=False, full=full)) for full in (True, False)
    )
    # The list contains removed files, which are kept for readers of older versions.
    return sorted(path for path in listed - removed if DATA_FILE.fullmatch(Path(path).name))


def _schema(table: DeltaTable) -> pa.Schema:
    """The columns of Delta's metadata, which has Spark's JSON form."""
    return arrow_schema(StructType.fromJson(json.loads(table.schema().to_json())))


def _details(text: Any) -> dict[str, int]:
    """The counts of a compaction, which deltalake gives as JSON inside JSON."""
    return dict(json.loads(text)) if isinstance(text, str) else dict(text)


def _compression(name: str) -> Any:
    return {"none": "UNCOMPRESSED", "lz4": "LZ4_RAW"}.get(name, name.upper())
