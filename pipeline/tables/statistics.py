"""Delta's statistics of a file from its Parquet footer: readers skip files by them, so a wrong bound hides rows."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pyarrow.parquet as pq

TEXT_CHARS_MAX = 32
"""Columns with longer texts have no bounds: a truncated maximum would have to be rounded up."""


def delta_statistics(footer: pq.FileMetaData) -> str:
    """JSON as an AddAction takes it.

    Bounds are given for columns of integers, texts, dates and timestamps; not for floats, whose bounds in Parquet
    leave NaN out.
    """
    smallest: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for at in range(footer.num_columns):
        name = footer.schema.column(at).path
        # Nested columns have a path of several names. A column whose own name has a dot is ambiguous, and skipped.
        if "." in name:
            continue
        groups = [footer.row_group(group).column(at).statistics for group in range(footer.num_row_groups)]
        if not groups or any(each is None or not each.has_null_count for each in groups):
            continue
        nulls[name] = sum(each.null_count for each in groups)
        filled = [each for each in groups if each.num_values]
        if filled and all(each.has_min_max and _bounds(each.min) and _bounds(each.max) for each in filled):
            smallest[name] = _written(min(each.min for each in filled))
            greatest[name] = _written(max(each.max for each in filled))
    body = {"numRecords": footer.num_rows, "minValues": smallest, "maxValues": greatest, "nullCount": nulls}
    return json.dumps(body)


def _bounds(value: Any) -> bool:
    """Whether a value can be a bound."""
    if isinstance(value, str):
        return len(value) <= TEXT_CHARS_MAX
    return isinstance(value, int | dt.date) and not isinstance(value, bool)


def _written(bound: Any) -> Any:
    match bound:
        case dt.datetime():
            text = bound.replace(tzinfo=None).isoformat(timespec="microseconds")
            return f"{text}Z" if bound.tzinfo else text
        case dt.date():
            return bound.isoformat()
        case _:
            return bound
