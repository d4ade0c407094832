"""Iceberg tables through pyiceberg: no JAR, any catalog that pyiceberg supports.

A batch is one snapshot, whose summary has the app_id, the batch and the offsets; the table's properties have them too,
set by the same commit, for when snapshots have expired. A commit is based on the snapshot that was read: the catalog
refuses it if another came in between, and then the notes are read again.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.io import load_file_io
from pyiceberg.table import CreateTableTransaction, TableProperties, Transaction
from pyiceberg.table import Table as IcebergTable
from pyiceberg.transforms import IdentityTransform

from sordini.pipeline.errors import BadSetting
from sordini.pipeline.tables import batch_append, iceberg_maintenance
from sordini.pipeline.tables.columns import added, arrow_schema, spark_schema
from sordini.pipeline.tables.file_names import attempt_of, new_attempt
from sordini.pipeline.tables.file_rows import read_files
from sordini.pipeline.tables.iceberg_location import IcebergLocation
from sordini.pipeline.tables.local_files import LocalOutputs, local_path
from sordini.pipeline.tables.staging import FileSettings, Outputs, Staged, StagingPlan, is_bulky
from sordini.pipeline.tables.table import DAY_SECONDS, Compacted, Offsets, TableError, Written
from sordini.pipeline.tables.write_attempts import WriteAttempts
from sordini.pipeline.tables.writer_positions import WriterPosition, from_json, to_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WRITER_PROPERTY = "sordini.writer."
"""Of the table and of snapshots: the note about a writer, as JSON. Its app_id follows."""

FIRST_SEQUENCE_NUMBER = 1
"""Of a table's first snapshot. That one has no parent is no sign of it: so has one whose parent has expired."""

METRICS_PROPERTY = "write.metadata.metrics.column."


@dataclass(frozen=True)
class RemoteOutputs:
    """Creates files through pyiceberg's file system, with the properties of the table's catalog."""

    location: str
    properties: tuple[tuple[str, str], ...]

    def create(self, path: str) -> BinaryIO:
        where = f"{self.location}/{path}"
        return cast("BinaryIO", load_file_io(dict(self.properties), where).new_output(where).create())


class Iceberg:
    """An Iceberg table, see `Table`."""

    def __init__(
        self, iceberg_location: IcebergLocation, app_id: str, partition_by: tuple[str, ...], settings: FileSettings
    ) -> None:
        self.location = iceberg_location.location
        self.app_id = app_id
        self.partition_by = partition_by
        self.attempts = WriteAttempts(local_path(iceberg_location.uri), app_id)
        self._iceberg_location = iceberg_location
        self._settings = settings
        self._catalog: Catalog | None = None
        self._table: IcebergTable | None = None

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
        return self.read_state().schema

    def files(self) -> list[str]:
        table = self._opened()
        return sorted(_path(task.file.file_path) for task in table.scan().plan_files()) if table else []

    def read(self, spark: SparkSession) -> DataFrame:
        table = self._opened()
        if table is None:
            raise TableError(
                f"there is no Iceberg table {'.'.join(self._iceberg_location.identifier)} at {self.location}"
            )
        tasks = list(table.scan().plan_files())
        if any(task.delete_files for task in tasks):
            raise TableError(f"rows of {self.location} were deleted by delete files: pyiceberg can read it")
        return read_files(spark, sorted(_path(task.file.file_path) for task in tasks), _schema(table), {})

    def compact(self, target_bytes: int) -> Compacted:
        table = self._opened()
        if table is None:
            return Compacted(0, 0, 0, 0)
        return iceberg_maintenance.compact(table, self.plan(_schema(table), _partition_by(table)), target_bytes, once)

    def clean_up(self, older_than_seconds: float = DAY_SECONDS) -> list[str]:
        """As `Table.clean_up`; also expires snapshots older than the table keeps them (five days by default)."""
        table = self._opened()
        return iceberg_maintenance.clean_up(table, older_than_seconds) if table else []

    def read_state(self) -> batch_append.TableState:
        table = self._opened()
        if table is None:
            return batch_append.TableState(None, (), None)
        return batch_append.TableState(_schema(table), _partition_by(table), self._note(table))

    def plan(self, schema: pa.Schema, partition_by: tuple[str, ...]) -> StagingPlan:
        below = f"{self._table.location() if self._table else self._iceberg_location.uri}/data"
        folder = local_path(below)
        outputs: Outputs
        if folder:
            outputs = LocalOutputs(str(folder))
        else:
            properties = self._table.io.properties if self._table else self._iceberg_location.catalog
            outputs = RemoteOutputs(below, tuple(properties.items()))
        settings = self._settings
        # Partition values are read from the files' statistics, so the files have all columns.
        return StagingPlan(
            outputs, new_attempt(), schema, partition_by, keeps_partition_columns=True, settings=settings
        )

    def commit(self, staged: list[Staged], schema: pa.Schema, note: WriterPosition) -> bool:
        table = self._table
        try:
            if table is None:
                below = f"{self._iceberg_location.uri}/data"
                with self._creation(schema) as creation:
                    with creation.update_spec() as spec:
                        for name in self.partition_by:
                            spec.add_identity(name)
                    self._add(creation, [f"{below}/{each.path}" for each in staged], note)
            else:
                new = added(_schema(table), schema)
                with table.transaction() as change:
                    if new:
                        with change.update_schema() as update:
                            update.union_by_name(pa.schema(new))
                    self._add(change, [f"{table.location()}/data/{each.path}" for each in staged], note)
        except (CommitFailedException, TableAlreadyExistsError):
            return False
        return True

    def discard(self, attempts: set[str]) -> None:
        table = self._opened()
        assert table is not None, "a batch is in it"
        for path in iceberg_maintenance.uncommitted_files(table):
            if attempt_of(path.name) in attempts:
                path.unlink(missing_ok=True)

    def _creation(self, schema: pa.Schema) -> CreateTableTransaction:
        self._catalog = catalog = self._catalog or self._iceberg_location.create_catalog()
        catalog.create_namespace_if_not_exists(self._iceberg_location.identifier[:-1])
        try:
            return catalog.create_table_transaction(
                self._iceberg_location.identifier, schema, self._iceberg_location.uri
            )
        except ValueError as error:
            # Some catalogs have namespaces of one level only.
            raise BadSetting(f"the Iceberg catalog refuses the table: {error}") from error

    def _add(self, change: Transaction, paths: list[str], note: WriterPosition) -> None:
        text = json.dumps(to_json(note))
        name = WRITER_PROPERTY + self.app_id
        properties: dict[str, Any] = {**_without_metrics(change), name: text}
        change.set_properties(properties)
        # Each attempt has new file names, so the table is not searched for them.
        change.add_files(paths, {name: text}, check_duplicate_files=False)

    def _opened(self) -> IcebergTable | None:
        """The table in the catalog's current version."""
        self._table = None
        # One catalog for all calls: each would open another connection.
        self._catalog = self._catalog or self._iceberg_location.open_catalog()
        if self._catalog:
            try:
                self._table = once(self._catalog.load_table(self._iceberg_location.identifier))
            except NoSuchTableError:
                return None
        return self._table

    def _note(self, table: IcebergTable) -> WriterPosition | None:
        """From the ancestors of the current snapshot: after a rollback later batches are not in the table."""
        name = WRITER_PROPERTY + self.app_id
        text = None
        snapshot = table.current_snapshot()
        while snapshot and text is None:
            text = snapshot.summary.additional_properties.get(name) if snapshot.summary else None
            if text is None and snapshot.sequence_number == FIRST_SEQUENCE_NUMBER:
                return None
            parent = snapshot.parent_snapshot_id
            snapshot = table.snapshot_by_id(parent) if parent is not None else None
        # Else the snapshots that would have the note have expired.
        text = text or table.properties.get(name)
        return from_json(json.loads(text)) if text else None


def once(table: IcebergTable) -> IcebergTable:
    """The table, with pyiceberg's retries of refused commits switched off.

    A retry would be based on commits in between, which may have the same batch. Only this handle's properties change,
    not the table's.
    """
    properties = {**table.metadata.properties, TableProperties.COMMIT_NUM_RETRIES: "0"}
    table.metadata = table.metadata.model_copy(update={"properties": properties})
    return table


def _schema(table: IcebergTable) -> pa.Schema:
    return arrow_schema(spark_schema(table.schema().as_arrow()))


def _partition_by(table: IcebergTable) -> tuple[str, ...]:
    fields = table.spec().fields
    if not all(isinstance(each.transform, IdentityTransform) for each in fields):
        raise TableError(
            f"{table.location()} is partitioned by {table.spec()}: only columns as they are can be written"
        )
    return tuple(table.schema().find_column_name(each.source_id) or "" for each in fields)


def _without_metrics(change: Transaction) -> dict[str, str]:
    """Table properties by which pyiceberg skips statistics of the columns that have none."""
    schema = change.table_metadata.schema()
    bulky = {field.name for field in schema.as_arrow() if is_bulky(field.type) or pa.types.is_large_binary(field.type)}
    wanted = {METRICS_PROPERTY + name: "none" for name in schema.column_names if name.partition(".")[0] in bulky}
    known = change.table_metadata.properties
    return {name: value for name, value in wanted.items() if name not in known}


def _path(uri: str) -> str:
    """Local files as plain paths."""
    folder = local_path(uri)
    return str(folder) if folder else uri
