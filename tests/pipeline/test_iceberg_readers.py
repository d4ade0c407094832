"""Iceberg tables of upserts beside other engines: all read the same rows, and may change the table while a job runs."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import duckdb_extension_avro
import duckdb_extension_iceberg
import polars as pl
import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table as IcebergTable

from sordini.pipeline.tables import Table, Upsert, open_table
from tests.outside.needs import need_iceberg
from tests.support.frames import LocalFrame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOW = Upsert(("id",), ("at",))
Rows = list[tuple[int, int, str]]
Change = tuple[int, int, str | None]
TABLE = "sordini.default.events"


def frame(changes: Iterable[Change]) -> Any:
    """Changes of an id at a sequence; a name of None deletes."""
    rows = [{"id": key, "at": at, "name": name, "_deleted": name is None} for key, at, name in changes]
    columns = pa.schema({"id": pa.int64(), "at": pa.int64(), "name": pa.string(), "_deleted": pa.bool_()})
    return LocalFrame(*([pa.RecordBatch.from_pylist(rows[half::2], schema=columns)] for half in range(2)))


class Upserted:
    """A table, and the rows that it must have."""

    def __init__(self, location: Path, partition_by: tuple[str, ...] = ()) -> None:
        self.location = str(location)
        self.table: Table = open_table("iceberg", self.location, app_id="app", partition_by=partition_by)
        self._batch = 0
        self._newest: dict[int, Change] = {}

    def upsert(self, *changes: Change) -> None:
        self.table.upsert(frame(changes), self._batch, HOW, {"t": {0: self._batch}})
        self._batch += 1
        for change in changes:
            if change[0] not in self._newest or self._newest[change[0]][1] <= change[1]:
                self._newest[change[0]] = change

    @property
    def rows(self) -> Rows:
        return sorted((key, at, name) for key, at, name in self._newest.values() if name is not None)


def filled(location: Path, partition_by: tuple[str, ...] = ()) -> Upserted:
    """A table with replaced rows, deletions, late changes and remembered deletions, in part compacted."""
    made = Upserted(location, partition_by)
    made.upsert(*((key, 1, "abc"[key % 3]) for key in range(20)))
    made.upsert(*((key, 2, "cab"[key % 3]) for key in range(0, 20, 2)), (3, 2, None), (30, 5, None))
    made.table.compact(1_000_000)
    made.upsert((2, 1, "late"), (3, 1, "late"), (30, 4, "late"), (5, 3, None), (7, 3, "new"), (40, 1, "new"))
    made.upsert((7, 4, "newer"), (8, 3, None))
    return made


@contextmanager
def loaded(location: str) -> Iterator[IcebergTable]:
    catalog = SqlCatalog("sordini", uri=f"sqlite:///{location}/catalog.db")
    try:
        yield catalog.load_table("default.events")
    finally:
        catalog.close()


def by_pyiceberg(location: str) -> Rows:
    with loaded(location) as table:
        return in_order(table.scan().to_arrow().to_pylist())


def by_polars(location: str) -> Rows:
    with loaded(location) as table:
        return in_order(pl.scan_iceberg(table, reader_override="pyiceberg").collect().to_dicts())


def by_duckdb(location: str) -> Rows:
    """Through DuckDB's own reader of Iceberg, in SQL."""
    with loaded(location) as table, duckdb.connect() as connection:
        for package in (duckdb_extension_avro, duckdb_extension_iceberg):
            (file,) = Path(str(package.__file__)).parent.rglob("*.duckdb_extension")
            connection.execute(f"LOAD '{file}'")
        found = connection.execute(f"SELECT * FROM iceberg_scan('{table.metadata_location}')").to_arrow_table()
    return in_order(found.to_pylist())


def in_order(rows: Iterable[dict[str, Any]]) -> Rows:
    return sorted((row["id"], row["at"], row["name"]) for row in rows)


READERS = (by_pyiceberg, by_polars, by_duckdb)


@pytest.mark.parametrize("partition_by", [(), pytest.param(("name",), marks=pytest.mark.long)])
def test_every_reader_sees_the_newest_row_of_each_key_and_nothing_else(
    partition_by: tuple[str, ...], tmp_path: Path
) -> None:
    made = filled(tmp_path / "events", partition_by)
    for reader in READERS:
        assert reader(made.location) == made.rows
    made.table.compact(1_000_000)
    for reader in READERS:
        assert reader(made.location) == made.rows


@pytest.mark.long
@pytest.mark.parametrize("partition_by", [(), ("name",)])
def test_spark_reads_a_table_with_deleted_rows_without_a_connector(
    partition_by: tuple[str, ...], spark: SparkSession, tmp_path: Path
) -> None:
    made = filled(tmp_path / "events", partition_by)
    assert in_order(row.asDict() for row in made.table.read(spark).collect()) == made.rows


class Engine:
    """Iceberg's own engine on the catalog of a table."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "it has ended"
        return json.loads(line)

    def sql(self, statement: str) -> list[list[Any]]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(statement) + "\n")
        self._process.stdin.flush()
        found = self.answer()
        assert isinstance(found, list), found["error"][:2000]
        return found

    @property
    def rows(self) -> Rows:
        return [(key, at, name) for key, at, name in self.sql(f"SELECT id, at, name FROM {TABLE} ORDER BY id")]


@contextmanager
def engine(location: str, log: Path) -> Iterator[Engine]:
    python, jars = need_iceberg()
    with closing(sqlite3.connect(f"{location}/catalog.db")) as catalog:
        # Its driver keeps reading transactions open, for which a writer of the plain journal would wait.
        catalog.execute("PRAGMA journal_mode = WAL")
    command = [str(python), str(Path(__file__).with_name("iceberg_engine.py")), ",".join(map(str, jars)), location]
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PYSPARK"))}
    pipe = subprocess.PIPE
    with (
        log.open("w", encoding="utf-8") as errors,
        subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=errors, text=True, env=environment) as process,
    ):
        try:
            started = Engine(process)
            assert started.answer() == "ready"
            yield started
            assert process.stdin is not None
            process.stdin.close()
            process.wait(60)
        finally:
            process.kill()


@pytest.mark.long
def test_a_row_that_another_engine_deletes_is_inserted_again_by_the_next_change_of_its_key(tmp_path: Path) -> None:
    made = filled(tmp_path / "events")
    with engine(made.location, tmp_path / "log") as spark:
        spark.sql(f"ALTER TABLE {TABLE} SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")
        spark.sql(f"DELETE FROM {TABLE} WHERE id = 0")
        assert spark.rows == [row for row in made.rows if row[0] != 0]
        made.upsert((0, 9, "again"))
    # Not by the engine: its driver of SQLite keeps a transaction open, which does not see what came since.
    for reader in READERS:
        assert reader(made.location) == made.rows
