"""Names of files, and of folders from partition values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

INSIDE = "_sordini"
"""The folder of Sordini's own files. Spark, Hive and pyarrow skip names with an underscore when they list."""

PLAIN = re.compile(r"[A-Za-z0-9_.\-]+")

FOLDER_CHARS_MAX = 200
"""Of one folder's name. Linux and macOS allow 255."""

DATA_FILE = re.compile(r"(part|deletions|positions)-[0-9a-f]{32}-[0-9]{5,}-[0-9a-f]{16}\.parquet")
"""The names that the functions below return; identifies files written by Sordini."""

Values = Mapping[str, str | None]
"""The text of each partition column's value, in the order of the columns."""


def new_attempt() -> str:
    """A unique name for one attempt to write one batch."""
    return uuid4().hex


def file_name(attempt: str, count: int) -> str:
    """A name unique to the task; `count` is the number of the file within its task."""
    return f"part-{attempt}-{count:05d}-{uuid4().hex[:16]}.parquet"


def deletions_name(attempt: str, seconds: int) -> str:
    """Of a file with remembered deletions of an upsert, made at this time since 1970."""
    return f"deletions-{attempt}-{seconds:010d}-{uuid4().hex[:16]}.parquet"


def deletions_time(path: str) -> int | None:
    """The seconds in a name of `deletions_name`; None for all other files."""
    name = path.rpartition("/")[2]
    return int(name.split("-")[2]) if name.startswith("deletions-") and DATA_FILE.fullmatch(name) else None


def positions_name(attempt: str) -> str:
    """Of a file with the positions of deleted rows."""
    return f"positions-{attempt}-00000-{uuid4().hex[:16]}.parquet"


def attempt_of(path: str) -> str:
    """The attempt is in the name of the file."""
    return path.rpartition("/")[2].split("-")[1]


def text_of(value: Any) -> str | None:
    """A partition value (str, bool, int, date or None) as Delta, Hive and Spark write it."""
    if value is None or value == "":
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


def plain_folder(values: Values) -> str:
    """`day=2026-11-22/site=home`, or "" where a value is null or long, or a name or value would have to be escaped.

    Delta and Iceberg keep the values in their logs, so these folders are only informative; and readers differ in how
    they parse an escaped path.
    """
    parts = [part for name, text in values.items() for part in (name, text or "")]
    if not all(PLAIN.fullmatch(part) for part in parts):
        return ""
    folders = [f"{name}={text}" for name, text in values.items()]
    return "/".join(folders) if all(len(each) <= FOLDER_CHARS_MAX for each in folders) else ""
