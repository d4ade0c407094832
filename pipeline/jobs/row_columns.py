"""The columns of a job's rows, from its file alone, if it has no transform.

Errors name the allowed columns. With a transform Spark has to analyse the columns: see spark_checks.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NoReturn

from sordini.cli.common.settings_tree import near_to
from sordini.pipeline.jobs.job import Decode, DecodeMode

_KIND_OF_RECORD: Final = {"topic": "string", "partition": "int", "offset": "long", "timestamp": "timestamp"}
_PARTITION_KINDS: Final = frozenset({"string", "int", "long", "boolean", "date", ""})
"""Kinds by which a table can be partitioned; the kind of a measure is not known."""
DEAD_COLUMNS: Final = {"reason": "string", **_KIND_OF_RECORD, "key": "binary", "value": "binary"}
TIMES: Final = {"event_date": "date", "event_hour": "int"}
"""Derived from the event's time if a sink is partitioned by them."""


def columns_of(how: Decode) -> dict[str, str]:
    """The columns of a decoded row and their kinds."""
    if how.mode is DecodeMode.RAW or how.schema is None:
        found = {"key": "binary", "value": "binary"}
    else:
        found = {field.name: field.kind for field in how.schema.fields}
    return {**found, **_KIND_OF_RECORD, **dict.fromkeys((name for name in how.keep if name not in found), "binary")}


def columns_of_windows(by: Iterable[str], measures: Iterable[str], columns: Mapping[str, str]) -> dict[str, str]:
    """The columns of an aggregate's rows."""
    kinds = {name: columns.get(name, "") for name in by}
    return {"window_start": "timestamp", "window_end": "timestamp", **kinds, **dict.fromkeys(measures, "")}


def check_column(name: str, columns: Mapping[str, str], wrong: Callable[[str], NoReturn]) -> None:
    """Check that a column exists; `wrong` raises the error. Spark ignores case."""
    if name.lower() not in {column.lower() for column in columns}:
        wrong(f"has {name!r}, and the rows have no such column; they have {', '.join(columns)}{near_to(name, columns)}")


def check_partition(name: str, columns: Mapping[str, str], wrong: Callable[[str], NoReturn]) -> None:
    """Check that a table can be partitioned by a column."""
    if name not in columns:
        wrong(f"has {name!r}, and the rows have no such column; they have {', '.join(columns)}{near_to(name, columns)}")
    if columns[name] not in _PARTITION_KINDS:
        can_be = ", ".join(column for column, kind in columns.items() if kind in _PARTITION_KINDS)
        wrong(f"has {name!r}, which is a {columns[name]}: a table can be partitioned by {can_be}")
