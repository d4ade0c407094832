"""The rows of a table as each reader sees them, in one form: an Arrow table sorted by id, plain types."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv

if TYPE_CHECKING:
    from pathlib import Path

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


def by_spark(location: str, spark: Any) -> pa.Table:
    """Spark by `Table.read`, without a JAR."""
    from sordini.pipeline.tables import open_table

    return plain(open_table("delta", location, app_id="reader").read(spark).select(*COLUMNS.names).toArrow())


READERS: Mapping[str, Callable[[str], pa.Table]] = {
    "deltalake": by_deltalake,
    "DuckDB": by_duckdb,
    "polars": by_polars,
}


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


def count(location: str) -> int:
    """How many rows a table has."""
    from deltalake import DeltaTable

    return pa.table(DeltaTable(location).scan(columns=["offset"])).num_rows
