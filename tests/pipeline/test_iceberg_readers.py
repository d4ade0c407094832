"""Iceberg tables of upserts beside other engines that read them: all read the same rows.

Spark with Iceberg's runtime, which also changes them, is in test_tables_beside_spark.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import duckdb_extension_avro
import duckdb_extension_iceberg
import polars as pl
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table as IcebergTable

from tests.pipeline.upserted import Rows, Upserted, in_order

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def filled(location: Path, partition_by: tuple[str, ...] = ()) -> Upserted:
    """A table with replaced rows, deletions, late changes and remembered deletions, in part compacted."""
    made = Upserted("iceberg", location, partition_by)
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
