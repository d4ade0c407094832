"""Delta Lake tables through deltalake: no JAR, and any Delta reader.

The commit of a batch carries a transaction identifier (`txn` in Delta's protocol: app_id and batch_id), by which the
protocol itself refuses a second commit of the same batch, and the offsets after it, see positions.py.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.fs
from deltalake import CommitProperties, DeltaTable, Schema, TableFeatures
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction
from pyspark.sql.types import StructType

from sordini.pipeline.tables.arrow_reading import ParquetFiles, Within, chosen, read_parts
from sordini.pipeline.tables.batch_append import COMMIT_TRIES, BatchTable, TableState
from sordini.pipeline.tables.batch_upsert import StagedChanges
from sordini.pipeline.tables.columns import arrow_schema
from sordini.pipeline.tables.delta import features, health, maintenance, unused_files
from sordini.pipeline.tables.delta.commit_infos import CommitInfos
from sordini.pipeline.tables.delta.files import Access, RemoteOutputs, open_files, parts_of, unreadable_features
from sordini.pipeline.tables.delta.log import (
    CHECKPOINT_COMMITS,
    Action,
    DeltaLog,
    LiveFile,
    LocalPuts,
    LogPuts,
    StorePuts,
)
from sordini.pipeline.tables.delta.positions import (
    NOTES_KEY,
    WRITER_KEY,
    all_positions,
    last_position,
    transactions,
)
from sordini.pipeline.tables.file_names import attempt_of, new_attempt
from sordini.pipeline.tables.local_files import LocalOutputs, local_path
from sordini.pipeline.tables.staging import FileSettings, Outputs, Staged, StagingPlan
from sordini.pipeline.tables.store_client import in_store, problem_of
from sordini.pipeline.tables.table import DAY_SECONDS, Compacted, Offsets, TableError, Written
from sordini.pipeline.tables.upsert import Upsert
from sordini.pipeline.tables.widening import fields_to_add, is_widened
from sordini.pipeline.tables.writer_positions import WriterPosition, to_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sordini.pipeline.tables.delta.upsert import DeltaUpserts
    from sordini.pipeline.tables.health import TableHealth


class DeltaLake(BatchTable):
    """A Delta table, see `Table`."""

    no_upserts = ""

    def __init__(
        self,
        location: str,
        app_id: str,
        partition_by: tuple[str, ...],
        settings: FileSettings,
        access: Access,
    ) -> None:
        self._folder = local_path(location)
        super().__init__(location, access.storage, app_id, partition_by, settings, self._folder)
        self._access = access
        self._storage_options: dict[str, str] = {}
        self._uri = str(self._folder) if self._folder else location
        self._table: DeltaTable | None = None
        self._last: WriterPosition | None = None
        self._upserts: DeltaUpserts | None = None
        self._commit_infos: CommitInfos | None = None

    @in_store
    def schema(self) -> pa.Schema | None:
        table = self._opened()
        return _schema(table) if table else None

    @in_store
    def files(self) -> list[str]:
        table = self._opened()
        return sorted(table.file_uris()) if table else []

    @in_store
    def health(self, target_bytes: int, older_than_seconds: float = DAY_SECONDS) -> TableHealth | None:
        table = self._opened()
        if table is None:
            return None
        vectors = len(self._deleted_rows(table))
        files, commits = self._file_system(), self._commits(table)
        return health.examine(table, files, commits, vectors, target_bytes, older_than_seconds)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        table, reader = self._readable(None)
        parts = [part for part, _ in parts_of(table, None, self._deleted_rows(table))]
        return reader.rows(parts, chosen(_schema(table), columns))

    @in_store
    def read(self, spark: SparkSession, columns: Sequence[str] = (), within: Within | None = None) -> DataFrame:
        table, reader = self._readable(within)
        parts = parts_of(table, within, self._deleted_rows(table))
        return read_parts(spark, reader, parts, chosen(_schema(table), columns))

    def _readable(self, within: Within | None) -> tuple[DeltaTable, ParquetFiles]:
        """The table, and what reads its files. Raises TableError."""
        table = self._opened()
        if table is None:
            raise TableError(f"there is no Delta table at {self.location}")
        unknown = unreadable_features(table)
        if unknown:
            raise TableError(
                f"{self.location} uses {', '.join(unknown)}, which needs a Delta reader: "
                "deltalake, or Spark with Delta's connector"
            )
        partition_by = table.metadata().partition_columns
        inside = pa.schema([each for each in _schema(table) if each.name not in partition_by])
        return table, ParquetFiles(partial(open_files, self._uri, self._storage_options), inside, within)

    @in_store
    def compact(self, target_bytes: int, cluster_by: Sequence[str] = ()) -> Compacted:
        for _ in range(COMMIT_TRIES):
            table = self._opened()
            if table is None:
                return Compacted(0, 0, 0, 0)
            if features.stored_keys(table) is not None:
                from sordini.pipeline.tables.delta import upsert_compaction

                features.check_features(table, self.location)
                return upsert_compaction.compact(self, self._delta_upserts(), self._staging, target_bytes, cluster_by)
            try:
                if cluster_by:
                    plan = self.plan(_schema(table), tuple(table.metadata().partition_columns))
                    return maintenance.cluster(table, self._file_system(), plan, target_bytes, cluster_by)
                return maintenance.compact(table, self._settings.compression, target_bytes)
            except CommitFailedError:
                continue
        raise TableError(f"{self.location} was not compacted: another writer was faster {COMMIT_TRIES} times")

    @in_store
    def small_files(self, target_bytes: int) -> int:
        table = self._opened()
        return maintenance.small_files(table, target_bytes) if table else 0

    @in_store
    def drop_versions(self, keep: int | None = None) -> int:
        table = self._opened()
        return maintenance.drop_versions(table, self._file_system(), keep) if table else 0

    @in_store
    def clean_up(self, older_than_seconds: float = DAY_SECONDS) -> list[str]:
        """As `Table.clean_up`; also files replaced by compaction, after Delta's retention (a week by default)."""
        table = self._opened()
        if table is None:
            return []
        return unused_files.delete_unused(table, self._file_system(), self._log, older_than_seconds)

    def read_state(self) -> TableState:
        self._last = None
        table = self._opened()
        if table is None:
            return TableState(None, (), None)
        commits = self._commits(table)
        self._last = last_position(table, self.app_id, self._file_system(), self._storage_options, commits)
        by = tuple(table.metadata().partition_columns)
        return TableState(_schema(table), by, self._last, features.stored_keys(table))

    def check(self, columns: pa.Schema, *, upserts: bool) -> None:
        del columns  # Their types are compared where they are merged.
        if upserts and self._table is not None:
            features.check_upserts(self._table, self.location)

    def plan(self, schema: pa.Schema, partition_by: tuple[str, ...]) -> StagingPlan:
        outputs: Outputs
        if self._folder:
            outputs = LocalOutputs(str(self._folder))
        else:
            outputs = RemoteOutputs(self._uri, tuple(self._storage_options.items()))
        return StagingPlan(outputs, new_attempt(), schema, partition_by, settings=self._settings)

    def _staging(self) -> StagingPlan:
        """For files with the columns of the version that was read last: files of it may have newer ones than before."""
        assert self._table is not None, "its files were listed"
        return self.plan(_schema(self._table), tuple(self._table.metadata().partition_columns))

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
                added = [each for each in actions if isinstance(each, AddAction)]
                features.create(self._uri, schema, added, self.partition_by, self._storage_options, properties)
            else:
                features.check_rows(table, staged, self.location)
                if self._change_columns(table, schema):
                    return False
                partition_by = table.metadata().partition_columns
                table.create_write_transaction(
                    actions,
                    "append",
                    Schema.from_arrow(schema),
                    partition_by,
                    commit_properties=properties,
                    post_commithook_properties=maintenance.hooks_after(table.version()),
                )
        except CommitFailedError:
            return False
        except DeltaError as error:
            # If two writers create a table at the same moment, the error is not a CommitFailedError.
            if table is None and self._opened() is not None:
                return False
            if problem_of(error):
                raise  # It is the store's, and named by the caller.
            raise TableError(f"{self.location}: {error}") from error
        return True

    def commit_upsert(
        self, staged: StagedChanges, schema: pa.Schema, note: WriterPosition, how: Upsert
    ) -> Written | None:
        table, upserts = self._table, self._delta_upserts()
        partition_by: tuple[str, ...] = self.partition_by
        actions: list[Action] = []
        files = {}
        if table is None:
            actions += features.creation(schema, partition_by, how)
        else:
            features.check_rows(table, staged.rows, self.location)
            if self._change_columns(table, schema):
                return None
            partition_by = tuple(table.metadata().partition_columns)
            files = upserts.log.snapshot(table.version()).files
            upserts.forget_vectors(files)
        made = upserts.actions(files, staged, schema, partition_by, how)
        transactions = [{"txn": each} for each in self._transactions(note)]
        if not self.commit_actions("MERGE", [*actions, *transactions, *made.actions], note):
            return None
        upserts.committed(made)
        return made.written

    @in_store
    def set_position(self, batch_id: int, offsets: Offsets) -> None:
        """Note a batch without rows, for a table that has lost its position. Raises TableError."""
        table = self._opened()
        if table is None or not self.commit([], _schema(table), WriterPosition(batch_id, offsets)):
            raise TableError(f"{self.location} was changed at the same moment, or does not exist: nothing was noted")

    def discard(self, attempts: set[str]) -> None:
        table = self._opened()
        assert table is not None, "a batch is in it"
        system = self._file_system()
        for path in unused_files.uncommitted_files(table):
            if attempt_of(path) in attempts:
                system.delete_file(path)

    def _opened(self) -> DeltaTable | None:
        """The table at its newest version."""
        options = self._access.to(self._uri)
        if options != self._storage_options:  # A provider's keys have changed.
            self._table, self._storage_options = None, options
            if self._upserts is not None:
                self._upserts.open(*self._log_and_files())
        try:
            if self._table is None:
                self._commit_infos = None
                self._table = DeltaTable(self._uri, storage_options=self._storage_options)
            else:
                self._table.update_incremental()
        except TableNotFoundError:
            self._table = None
        return self._table

    def _log(self) -> DeltaLog:
        return self._delta_upserts().log

    def _delta_upserts(self) -> DeltaUpserts:
        if self._upserts is None:
            # Its library of bitmaps is only needed for tables of upserts.
            from sordini.pipeline.tables.delta.upsert import DeltaUpserts

            self._upserts = DeltaUpserts(*self._log_and_files())
        return self._upserts

    def _log_and_files(self) -> tuple[DeltaLog, pa.fs.FileSystem]:
        files: pa.fs.FileSystem
        puts: LogPuts
        if self._folder:
            files = pa.fs.SubTreeFileSystem(str(self._folder), pa.fs.LocalFileSystem())
            puts = LocalPuts(self._folder)
        else:
            files, puts = self._file_system(), StorePuts(self._uri, self._storage_options)
        return DeltaLog(files, puts), files

    def live_files(self) -> Mapping[str, LiveFile]:
        """Of the newest version, by their paths."""
        table = self._opened()
        return self._log().snapshot(table.version()).files if table else {}

    def commit_actions(self, operation: str, actions: list[Action], note: WriterPosition | None) -> bool:
        """Commit on top of the version that was opened last, or as the first one; False if it has changed since."""
        info: Action = {"timestamp": int(time.time() * 1000), "operation": operation, "engineInfo": "sordini"}
        if note is not None:
            info |= self._notes(note)
        version = self._table.version() + 1 if self._table else 0
        if not self._log().commit(version, [{"commitInfo": info}, *actions]):
            return False
        if version and version % CHECKPOINT_COMMITS == 0:
            table = self._opened()
            assert table is not None, "a version of it was made"
            table.create_checkpoint()
            if not maintenance.keeps_log(table):
                table.cleanup_metadata()
        return True

    def _change_columns(self, table: DeltaTable, schema: pa.Schema) -> bool:
        """Give the table the columns of `schema`; whether that was needed.

        It is a commit of its own, and other writers may have committed in between: the caller reads their commits.
        """
        there = _schema(table)
        if not (new := fields_to_add(there, schema)):
            return False
        if features.lacks_feature_of(table, schema):
            table.alter.add_feature(TableFeatures.TimestampWithoutTimezone, allow_protocol_versions_increase=True)
            return True
        if all(field.name not in there.names for field in new):
            table.alter.add_columns(Schema.from_arrow(pa.schema(new)).fields)
            return True
        features.check_features(table, self.location)
        actions: list[Action] = [{"metaData": features.metadata_of(table, schema)}]
        attempts: set[str] = set()
        if is_widened(there, schema):
            from sordini.pipeline.tables.delta import upsert_compaction

            # By the protocol all files have the table's types: they are written again, in the commit that changes them.
            staging = partial(self.plan, schema, tuple(table.metadata().partition_columns))
            more, attempts = upsert_compaction.all_rewritten(
                self._delta_upserts(), self._log().snapshot(table.version()).files.values(), staging
            )
            actions += more
        if not self.commit_actions("CHANGE COLUMN", actions, None):
            self.discard(attempts)
        return True

    def _deleted_rows(self, table: DeltaTable) -> dict[str, bytes]:
        """The vectors of files by their paths, serialized."""
        if "deletionVectors" not in (table.protocol().reader_features or ()):
            return {}
        upserts = self._delta_upserts()
        files = upserts.log.snapshot(table.version()).files.values()
        return {file.name: upserts.vector(file).serialize() for file in files if file.deleted_rows}

    def _transactions(self, note: WriterPosition) -> list[Action]:
        return [
            {"appId": each.app_id, "version": each.version, "lastUpdated": each.last_updated}
            for each in transactions(self.app_id, note, self._last)
        ]

    def _notes(self, note: WriterPosition) -> dict[str, Any]:
        """What the commitInfo of a batch says of it."""
        others = all_positions(self._commits(self._table)) if self._table else {}
        return {NOTES_KEY: {**others, self.app_id: to_json(note)}, WRITER_KEY: self.app_id}

    def _properties(self, note: WriterPosition) -> CommitProperties:
        return CommitProperties(
            custom_metadata=self._notes(note),
            # Conflicts are handled here, not retried by deltalake.
            max_commit_retries=0,
            app_transactions=transactions(self.app_id, note, self._last),
        )

    def _commits(self, table: DeltaTable) -> CommitInfos:
        """Of the table's version; what was read for its position is not read again for the notes of its next commit."""
        if self._commit_infos is None or self._commit_infos.version != table.version():
            self._commit_infos = CommitInfos(table, self._file_system(), self._storage_options)
        return self._commit_infos

    def _file_system(self) -> pa.fs.FileSystem:
        return open_files(self._uri, self._storage_options)


def _schema(table: DeltaTable) -> pa.Schema:
    """The columns of Delta's metadata, which has Spark's JSON form."""
    return arrow_schema(StructType.fromJson(json.loads(table.schema().to_json())))
