"""The columns of a job's rows, from its file alone, if it has no transform.

Errors name the allowed columns. With a transform Spark has to analyse the columns: see spark_checks.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NoReturn

from sordini.cli.common.settings_tree import near_to
from sordini.pipeline.jobs.job import Decode, DecodeMode
from sordini.pipeline.schemas.fields import RECORD
from sordini.pipeline.schemas.kinds import has_column, kind_of

_RECORD_KINDS: Final = ("string", "int", "long", "timestamp")
"""Kinds of the record's columns, in their order."""
_PARTITION_KINDS: Final = frozenset({"string", "int", "long", "boolean", "date", "date_days", "uuid", ""})
"""Kinds by which a table can be partitioned; the kind of a measure is not known."""
DEAD_COLUMNS: Final = {
    "reason": "string",
    **dict(zip(RECORD, _RECORD_KINDS, strict=True)),
    "key": "binary",
    "value": "binary",
}
WITHOUT_TIME: Final = frozenset({"delta", "kafka"})
"""Kinds of sinks without a type for a time of the day."""
TIMES: Final = {"event_date": "date", "event_hour": "int"}
"""Derived from the event's time if a sink is partitioned by them."""


def columns_of(how: Decode) -> dict[str, str] | None:
    """The columns of a decoded row and their kinds; None if the registry has them."""
    if how.mode is DecodeMode.RAW:
        found = {"key": "binary", "value": "binary"}
    elif how.schema is None:
        return None
    else:
        found = {field.name: field.kind for field in how.schema.fields}
    found |= {name: field.kind for name, (_, field) in how.columns.items()}
    kept = (f"{how.record_prefix}{name}" for name in how.keep)
    of_record = dict(zip(how.record, _RECORD_KINDS, strict=True))
    return {**found, **of_record, **dict.fromkeys((name for name in kept if name not in found), "binary")}


def columns_of_windows(by: Iterable[str], measures: Iterable[str], columns: Mapping[str, str]) -> dict[str, str]:
    """The columns of an aggregate's rows."""
    kinds = {name: columns.get(name, "") for name in by}
    return {"window_start": "timestamp", "window_end": "timestamp", **kinds, **dict.fromkeys(measures, "")}


def check_column(name: str, columns: Mapping[str, str], wrong: Callable[[str], NoReturn]) -> None:
    """Check that a column exists; `wrong` raises the error. Spark ignores case."""
    if name.lower() not in {column.lower() for column in columns}:
        wrong(f"has {name!r}, and the rows have no such column; they have {', '.join(columns)}{near_to(name, columns)}")


def check_same_column(name: str, columns: Mapping[str, str], wrong: Callable[[str], NoReturn]) -> None:
    """As `check_column`, for names that are looked for in tables, where case matters."""
    if name not in columns:
        same = next((f" (did you mean {column}?)" for column in columns if column.lower() == name.lower()), "")
        known = ", ".join(columns)
        wrong(f"has {name!r}, and the rows have no such column; they have {known}{same or near_to(name, columns)}")


def check_partition(name: str, columns: Mapping[str, str], wrong: Callable[[str], NoReturn]) -> None:
    """Check that a table can be partitioned by a column."""
    check_same_column(name, columns, wrong)
    if not _can_partition(columns[name]):
        can_be = ", ".join(column for column, kind in columns.items() if _can_partition(kind))
        wrong(f"has {name!r}, which is a {columns[name]}: a table can be partitioned by {can_be}")


def check_kinds(of_table: str, columns: Mapping[str, str], wrong: Callable[[str], NoReturn]) -> None:
    """Check that a kind of table has a type for each column."""
    for name, kind in columns.items():
        if of_table in WITHOUT_TIME and kind and has_column(kind_of(kind), "time"):
            wrong(
                f"is {of_table}, which has no type for a time of the day, as column {name!r} ({kind}) has: iceberg has "
                "one, or make it a string"
            )


def _can_partition(kind: str) -> bool:
    return kind in _PARTITION_KINDS or kind.startswith("enum(")
