"""Names of files, and of folders from partition values (Apache Hive's convention)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

INSIDE = "_sordini"
"""The folder of Sordini's own files. Spark, Hive and pyarrow skip names with an underscore when they list."""

NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
"""Stands for null. An empty string is written in the same way, as in Spark."""

# The characters that Spark and Hive escape; others are kept, also those beyond ASCII.
ESCAPED = re.compile(r"[\x00-\x1f\x7f\"#%'*/:=?\\{\[\]^ ]")
PLAIN = re.compile(r"[A-Za-z0-9_.\-]+")

DATA_FILE = re.compile(r"part-[0-9a-f]{32}-[0-9]{5}-[0-9a-f]{16}\.parquet")
"""The names that `file_name` returns; identifies files written by Sordini."""

Values = Mapping[str, str | None]
"""The text of each partition column's value, in the order of the columns."""


def new_attempt() -> str:
    """A unique name for one attempt to write one batch."""
    return uuid4().hex


def file_name(attempt: str, count: int) -> str:
    """A name unique to the task; `count` is the number of the file within its task."""
    return f"part-{attempt}-{count:05d}-{uuid4().hex[:16]}.parquet"


def attempt_of(path: str) -> str:
    """The attempt is in the name of the file."""
    return path.rpartition("/")[2].split("-")[1]


def text_of(value: Any) -> str | None:
    """A partition value (str, bool, int, date or None) as Delta, Hive and Spark write it."""
    if value is None or value == "":
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


def folder(values: Values) -> str:
    """`day=2026-11-22/site=a%2Fb`: readers that know the convention get the values back from the path."""
    return "/".join(f"{_escaped(name)}={_escaped(text)}" for name, text in values.items())


def plain_folder(values: Values) -> str:
    """As `folder`, or "" where a name or value would have to be escaped.

    Delta and Iceberg keep the values in their logs, so these folders are only informative; and readers differ in how
    they parse an escaped path.
    """
    parts = [part for name, text in values.items() for part in (name, text or "")]
    return folder(values) if all(PLAIN.fullmatch(part) for part in parts) else ""


def _escaped(text: str | None) -> str:
    if not text:
        return NULL_FOLDER
    return ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", text)
