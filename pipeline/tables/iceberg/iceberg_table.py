"""Iceberg tables through pyiceberg: no JAR, any catalog that pyiceberg supports.

A batch is one snapshot, whose summary has the app_id, the batch and the offsets; the table's properties have them too,
set by the same commit, for when snapshots have expired. A commit is based on the snapshot that was read: the catalog
refuses it if another came in between, and then the notes are read again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, BinaryIO, cast

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.io import load_file_io
from pyiceberg.table import CreateTableTransaction, TableProperties, Transaction
from pyiceberg.table import Table as IcebergTable
from pyiceberg.transforms import IdentityTransform

from sordini.pipeline.errors import BadSetting
from sordini.pipeline.tables.arrow_reading import Within
from sordini.pipeline.tables.batch_append import BatchTable, TableState
from sordini.pipeline.tables.batch_upsert import StagedChanges
from sordini.pipeline.tables.columns import arrow_schema, spark_schema
from sordini.pipeline.tables.file_names import attempt_of, new_attempt
from sordini.pipeline.tables.iceberg import compaction, health, maintenance
from sordini.pipeline.tables.iceberg.column_names import check_names
from sordini.pipeline.tables.iceberg.files import planned
from sordini.pipeline.tables.iceberg.location import IcebergLocation, catalog_errors
from sordini.pipeline.tables.iceberg.positions import PositionsOutput
from sordini.pipeline.tables.iceberg.reading import read_table
from sordini.pipeline.tables.iceberg.upsert import Added, IcebergUpserts, check_format, stored_keys
from sordini.pipeline.tables.local_files import LocalOutputs, local_path
from sordini.pipeline.tables.staging import FileSettings, Outputs, Staged, StagingPlan, is_bulky
from sordini.pipeline.tables.store_client import in_store
from sordini.pipeline.tables.table import DAY_SECONDS, Compacted, TableError, Written
from sordini.pipeline.tables.upsert import Upsert
from sordini.pipeline.tables.widening import fields_to_add
from sordini.pipeline.tables.writer_positions import WriterPosition, from_json, to_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sordini.pipeline.tables.health import TableHealth

WRITER_PROPERTY = "sordini.writer."
"""Of the table and of snapshots: the note about a writer, as JSON. Its app_id follows."""

FIRST_SEQUENCE_NUMBER = 1
"""Of a table's first snapshot. That one has no parent is no sign of it: so has one whose parent has expired."""

KEPT_SHORT = {
    TableProperties.MANIFEST_MERGE_ENABLED: "true",
    TableProperties.MANIFEST_MIN_MERGE_COUNT: "32",
    TableProperties.MANIFEST_TARGET_SIZE_BYTES: str(256 * 1024),
    TableProperties.METADATA_DELETE_AFTER_COMMIT_ENABLED: "true",
    TableProperties.METADATA_PREVIOUS_VERSIONS_MAX: "20",
}
"""Properties of a table that has none of its own. Each commit reads and writes the list of all manifests, and merging
rewrites a manifest as a whole: both stay short."""

METRICS_PROPERTY = "write.metadata.metrics.column."


@dataclass(frozen=True)
class RemoteOutputs:
    """Creates files through pyiceberg's file system, with the properties of the table's catalog."""

    location: str
    properties: tuple[tuple[str, str], ...] = field(repr=False)

    def create(self, path: str) -> BinaryIO:
        where = f"{self.location}/{path}"
        return cast("BinaryIO", load_file_io(dict(self.properties), where).new_output(where).create())


class Iceberg(BatchTable):
    """An Iceberg table, see `Table`."""

    no_upserts = ""

    def __init__(
        self, iceberg_location: IcebergLocation, app_id: str, partition_by: tuple[str, ...], settings: FileSettings
    ) -> None:
        folder = local_path(iceberg_location.uri)
        where = iceberg_location
        super().__init__(where.location, where.storage, app_id, partition_by, settings, folder)
        self._iceberg_location = iceberg_location
        self._catalog: Catalog | None = None
        self._table: IcebergTable | None = None
        self._upserts: IcebergUpserts | None = None

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """Also raises what a REST catalog refuses as TableError."""
        with super().reporting(), catalog_errors(self._iceberg_location):
            yield

    @in_store
    def files(self) -> list[str]:
        table = self._opened()
        return sorted(_path(task.file.file_path) for task in planned(table)) if table else []

    @in_store
    def read(self, spark: SparkSession, columns: Sequence[str] = (), within: Within | None = None) -> DataFrame:
        table = self._opened()
        if table is None:
            raise TableError(
                f"there is no Iceberg table {'.'.join(self._iceberg_location.identifier)} at {self.location}"
            )
        return read_table(spark, table, _schema(table), columns, within)

    @in_store
    def compact(self, target_bytes: int, cluster_by: Sequence[str] = ()) -> Compacted:
        table = self._opened()
        if table is None:
            return Compacted(0, 0, 0, 0)
        check_format(table, upserts=False)
        plan = self.plan(_schema(table), _partition_by(table))
        return compaction.compact(table, plan, target_bytes, cluster_by, once)

    @in_store
    def health(self, target_bytes: int, older_than_seconds: float = DAY_SECONDS) -> TableHealth | None:
        table = self._opened()
        if table is None:
            return None
        keys = stored_keys(table) or ()
        return health.examine(table, WRITER_PROPERTY, tuple(keys), target_bytes, older_than_seconds)

    @in_store
    def last(self) -> WriterPosition | None:
        # Also of a table that is refused.
        table = self._opened()
        return self._note(table) if table else None

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        table = self._opened()
        if table is None:
            raise TableError(f"there is no Iceberg table at {self.location}")
        return iter(table.scan(selected_fields=tuple(columns)).to_arrow_batch_reader())

    @in_store
    def small_files(self, target_bytes: int) -> int:
        table = self._opened()
        return maintenance.small_files(table, target_bytes) if table else 0

    @in_store
    def drop_versions(self, keep: int | None = None) -> int:
        table = self._opened()
        return maintenance.drop_versions(table, keep) if table else 0

    @in_store
    def clean_up(self, older_than_seconds: float = DAY_SECONDS) -> list[str]:
        """As `Table.clean_up`; also expires snapshots older than the table keeps them (five days by default)."""
        table = self._opened()
        return maintenance.clean_up(table, older_than_seconds) if table else []

    def read_state(self) -> TableState:
        table = self._opened()
        if table is None:
            return TableState(None, (), None)
        return TableState(_schema(table), _partition_by(table), self._note(table), stored_keys(table))

    def check(self, columns: pa.Schema, *, upserts: bool) -> None:
        if self._table is not None:
            check_format(self._table, upserts=upserts)
            check_names(self._table, columns)

    def plan(self, schema: pa.Schema, partition_by: tuple[str, ...]) -> StagingPlan:
        below = self._data_uri()
        folder = local_path(below)
        outputs: Outputs
        if folder:
            outputs = LocalOutputs(str(folder))
        else:
            properties = self._table.io.properties if self._table else self._iceberg_location.properties()
            outputs = RemoteOutputs(below, tuple(properties.items()))
        settings = self._settings
        # Partition values are read from the files' statistics, so the files have all columns.
        return StagingPlan(
            outputs, new_attempt(), schema, partition_by, keeps_partition_columns=True, settings=settings
        )

    def commit(self, staged: list[Staged], schema: pa.Schema, note: WriterPosition) -> bool:
        below = self._data_uri()

        def add(change: Transaction, notes: dict[str, str]) -> None:
            # Each attempt has new file names, so the table is not searched for them.
            change.add_files([f"{below}/{each.path}" for each in staged], notes, check_duplicate_files=False)

        return self._change(schema, note, add)

    def commit_upsert(
        self, staged: StagedChanges, schema: pa.Schema, note: WriterPosition, how: Upsert
    ) -> Written | None:
        if self._upserts is None or self._upserts.how != how:
            self._upserts = IcebergUpserts(how)
        upserts, table = self._upserts, self._table
        upserts.begin(table, schema)
        partition_by = _partition_by(table) if table else self.partition_by
        plan = replace(self.plan(schema, partition_by), attempt=_attempt_of(staged))
        output = PositionsOutput(plan, self._data_uri())
        made: list[Added] = []
        if not self._change(
            schema, note, lambda change, notes: made.append(upserts.add(change, output, staged, notes))
        ):
            self._delete([each.file_path for one in made for each in one.deletes])
            return None
        upserts.committed(made[0])
        self._delete(made[0].unneeded)
        return made[0].written(staged)

    def discard(self, attempts: set[str]) -> None:
        table = self._opened()
        assert table is not None, "a batch is in it"
        files = maintenance.uncommitted_files(table)
        maintenance.delete(table, [file for file in files if attempt_of(file.name) in attempts])

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

    def _change(
        self, schema: pa.Schema, note: WriterPosition, add: Callable[[Transaction, dict[str, str]], None]
    ) -> bool:
        """Commit added columns, the note, and what `add` puts into the snapshot, which has the notes as properties."""
        notes = {WRITER_PROPERTY + self.app_id: json.dumps(to_json(note))}
        table = self._table
        try:
            if table is None:
                with self._creation(schema) as change:
                    with change.update_spec() as spec:
                        for name in self.partition_by:
                            spec.add_identity(name)
                    change.set_properties({**_kept_short(change), **_without_metrics(change), **notes})
                    add(change, notes)
                return True
            new = fields_to_add(_schema(table), schema)
            with table.transaction() as change:
                if new:
                    with change.update_schema() as update:
                        update.union_by_name(pa.schema(new))
                change.set_properties({**_kept_short(change), **_without_metrics(change), **notes})
                add(change, notes)
        except (CommitFailedException, TableAlreadyExistsError):
            return False
        except ValueError:
            # pyiceberg's, for a table that another program has given a newer format meanwhile: the next check names it.
            now = self._opened()
            if table is None or now is None or now.metadata.format_version == table.metadata.format_version:
                raise
            return False
        return True

    def _data_uri(self) -> str:
        return f"{self._table.location() if self._table else self._iceberg_location.uri}/data"

    def _delete(self, uris: list[str]) -> None:
        table = self._table
        for uri in uris:
            load_file_io(dict(table.io.properties if table else self._iceberg_location.properties()), uri).delete(uri)

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
        ancestors = set()
        while snapshot and text is None:
            ancestors.add(snapshot.snapshot_id)
            text = snapshot.summary.additional_properties.get(name) if snapshot.summary else None
            if text is None and snapshot.sequence_number == FIRST_SEQUENCE_NUMBER:
                return None
            parent = snapshot.parent_snapshot_id
            snapshot = table.snapshot_by_id(parent) if parent is not None else None
        if text is None and (text := table.properties.get(name)):
            # The snapshots that would have the note have expired; but it may be that of a batch that was rolled back.
            others = (each.summary for each in table.snapshots() if each.snapshot_id not in ancestors)
            if any(each.additional_properties.get(name) == text for each in others if each):
                raise TableError(
                    f"{table.location()} was rolled back to before a batch of '{self.app_id}', and the snapshot of the "
                    "one before that has expired: load the topic into another table"
                )
        return from_json(json.loads(text)) if text else None


def once(table: IcebergTable) -> IcebergTable:
    """The table, with pyiceberg's retries of refused commits switched off.

    A retry would be based on commits in between, which may have the same batch. Only this handle's properties change,
    not the table's.
    """
    properties = {**table.metadata.properties, TableProperties.COMMIT_NUM_RETRIES: "0"}
    table.metadata = table.metadata.model_copy(update={"properties": properties})
    return table


def _attempt_of(staged: StagedChanges) -> str:
    """That of the staged files, whose crash also removes what is written for the commit."""
    for file in [*staged.rows, *staged.deletions]:
        return attempt_of(file.path)
    return new_attempt()


def _schema(table: IcebergTable) -> pa.Schema:
    return arrow_schema(spark_schema(table.schema().as_arrow()))


def _partition_by(table: IcebergTable) -> tuple[str, ...]:
    fields = table.spec().fields
    if not all(isinstance(each.transform, IdentityTransform) for each in fields):
        by = ", ".join(f"{each.transform}({table.schema().find_column_name(each.source_id)})" for each in fields)
        raise TableError(f"{table.location()} is partitioned by {by}: only columns as they are can be written")
    return tuple(table.schema().find_column_name(each.source_id) or "" for each in fields)


def _kept_short(change: Transaction) -> dict[str, str]:
    """The properties that keep metadata short, as far as the table has none of its own."""
    known = change.table_metadata.properties
    return {name: value for name, value in KEPT_SHORT.items() if name not in known}


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
