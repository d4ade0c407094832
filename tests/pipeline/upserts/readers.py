"""The rows of a table as each reader sees them, in one form: an Arrow table sorted by id, plain types."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv

if TYPE_CHECKING:
    from pyiceberg.table import Table as IcebergTable

COLUMNS = pa.schema(
    {
        "id": pa.int64(),
        "name": pa.string(),
        "age": pa.int32(),
        "score": pa.float64(),
        "active": pa.bool_(),
        "born": pa.date32(),
        "note": pa.string(),
    }
)
"""Of the workload's table."""


def of_postgres(path: Path) -> pa.Table:
    """What `Postgres.export` wrote."""
    options = pa.csv.ConvertOptions(
        column_types=COLUMNS,
        true_values=["t"],
        false_values=["f"],
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    return plain(
        pa.csv.read_csv(path, convert_options=options, parse_options=pa.csv.ParseOptions(newlines_in_values=True))
    )


def by_deltalake(location: str) -> pa.Table:
    from deltalake import DeltaTable

    return plain(pa.table(DeltaTable(location).scan()))


def by_duckdb(location: str) -> pa.Table:
    """DuckDB over deltalake's Arrow stream: its own extension for Delta is a download."""
    import duckdb
    from deltalake import DeltaTable

    changes = DeltaTable(location).scan()
    with duckdb.connect() as connection:
        connection.register("people", changes)
        return plain(connection.sql(f"SELECT {', '.join(COLUMNS.names)} FROM people").to_arrow_table())


def by_polars(location: str) -> pa.Table:
    """Polars' own reader of Delta's deletion vectors."""
    import polars as pl

    return plain(pl.scan_delta(location).select(COLUMNS.names).collect().to_arrow())


def by_spark(kind: str, location: str, spark: Any) -> pa.Table:
    """Spark by `Table.read`, without a JAR."""
    from sordini.pipeline.tables import open_table

    return plain(open_table(kind, location, app_id="reader").read(spark).select(*COLUMNS.names).toArrow())


@contextmanager
def loaded(location: str) -> Iterator[IcebergTable]:
    """An Iceberg table of ours as pyiceberg has it."""
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("sordini", uri=f"sqlite:///{location}/catalog.db", warehouse=f"file://{location}")
    try:
        yield catalog.load_table(f"default.{Path(location).name}")
    finally:
        catalog.close()


def by_pyiceberg(location: str) -> pa.Table:
    with loaded(location) as table:
        return plain(table.scan().to_arrow())


def iceberg_by_duckdb(location: str) -> pa.Table:
    """DuckDB's own reader of Iceberg, from the packages that carry its extensions."""
    import duckdb
    import duckdb_extension_avro
    import duckdb_extension_iceberg

    with loaded(location) as table, duckdb.connect() as connection:
        for package in (duckdb_extension_avro, duckdb_extension_iceberg):
            (file,) = Path(str(package.__file__)).parent.rglob("*.duckdb_extension")
            connection.execute(f"LOAD '{file}'")
        return plain(connection.execute(f"SELECT * FROM iceberg_scan('{table.metadata_location}')").to_arrow_table())


def iceberg_by_polars(location: str) -> pa.Table:
    import polars as pl

    with loaded(location) as table:
        return plain(pl.scan_iceberg(table).select(COLUMNS.names).collect().to_arrow())


READERS: Mapping[str, Mapping[str, Callable[[str], pa.Table]]] = {
    "delta": {"deltalake": by_deltalake, "DuckDB": by_duckdb, "polars": by_polars},
    "iceberg": {"pyiceberg": by_pyiceberg, "DuckDB": iceberg_by_duckdb, "polars": iceberg_by_polars},
}
"""By the kind of table."""


def plain(rows: pa.Table) -> pa.Table:
    """The columns of the workload's table, in order."""
    return rows.select(COLUMNS.names).cast(COLUMNS).sort_by("id").combine_chunks()


def differences(expected: pa.Table, found: pa.Table, shown_max: int = 5) -> Sequence[str]:
    """How the tables differ, in words; nothing if they are equal."""
    if expected.equals(found):
        return ()
    said = [f"{expected.num_rows} rows expected, {found.num_rows} found"]
    ours, theirs = set(_tuples(expected)), set(_tuples(found))
    said += [f"missing: {row}" for row in sorted(ours - theirs, key=str)[:shown_max]]
    said += [f"unexpected: {row}" for row in sorted(theirs - ours, key=str)[:shown_max]]
    return said


def _tuples(rows: pa.Table) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in rows.to_pylist()]


def count(kind: str, location: str) -> int:
    """How many rows a table has."""
    from sordini.pipeline.tables import open_table

    return sum(batch.num_rows for batch in open_table(kind, location, app_id="reader").batches(["offset"]))
