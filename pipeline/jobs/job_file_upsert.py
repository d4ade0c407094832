"""Upserts in a job file: the sink's mode, keys, sequence and condition of deletions; changes under `decode`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from sordini.cli.common.settings_tree import Section
from sordini.pipeline.changes.envelope import Envelope, is_part
from sordini.pipeline.jobs.job import Decode, DecodeMode, SinkKind, SinkMode, UpsertSettings
from sordini.pipeline.jobs.row_columns import check_same_column
from sordini.pipeline.schemas.fields import Field, SchemaError
from sordini.pipeline.tables.upsert import DELETED, DELETIONS_KEPT_SECONDS

_KINDS: Final = (
    "string", "int", "long", "double", "boolean", "date", "timestamp", "timestamp_ms", "timestamp_us", "timestamp_ns",
)  # fmt: skip
"""Of columns that are taken from an envelope."""
_FROM: Final = re.compile(r"(\w+(?:\.\w+)*)\s+(\w+)")


def upsert_of(
    section: Section, kind: SinkKind, decode: Decode, columns: Mapping[str, str] | None
) -> UpsertSettings | None:
    """How the sink's rows are upserted; None if they are appended."""
    mode = section.choice("mode", SinkMode.APPEND)
    if mode is SinkMode.APPEND:
        for name in ("keys", "sequence", "delete_when", "deletions_kept"):
            if name in section:
                section.wrong(name, "says nothing where the mode is append")
        if decode.changes is not Envelope.NONE:
            section.wrong("mode", f"is append, and decode.changes is {decode.changes.value}: changes need mode: upsert")
        return None
    if kind is SinkKind.KAFKA:
        section.wrong("mode", "is upsert, and the sink is a topic, whose compaction keeps the last record of each key")
    upsert = UpsertSettings(
        keys=section.texts("keys"),
        sequence=section.texts("sequence"),
        delete_when=section.text("delete_when", ""),
        deletions_kept=section.interval("deletions_kept", f"{round(DELETIONS_KEPT_SECONDS / 86400)} days"),
    )
    if not upsert.keys:
        section.wrong("keys", "is missing: the columns that identify a row")
    if columns is not None:
        for what, names in (("keys", upsert.keys), ("sequence", upsert.sequence)):
            for name in names:
                check_same_column(name, columns, lambda problem, what=what: section.wrong(what, problem))  # type: ignore[misc]
        for name in upsert.keys:
            if columns[name] == "double" or columns[name].startswith("list<"):
                section.wrong("keys", f"has {name!r}, which is a {columns[name]}: its values cannot be keys")
        if DELETED in columns:
            section.wrong("mode", f"is upsert, and the rows have a column {DELETED}, which marks deletions there")
    return upsert


def changes_of(section: Section, mode: DecodeMode) -> Envelope:
    """What the values are, under `decode`."""
    changes = section.choice("changes", Envelope.NONE)
    if changes is not Envelope.NONE and mode not in {DecodeMode.JSON, DecodeMode.SCHEMA_ID_PREFIX}:
        section.wrong(
            "changes",
            f"is {changes.value}, whose envelope is read from JSON, or by its schema's id (schema_id_prefix): the "
            f"mode is {mode.value}",
        )
    if changes is Envelope.NONE and "columns" in section:
        section.wrong("columns", "says nothing where there is no envelope: `changes: debezium`")
    return changes


def envelope_columns(section: Section, taken: Mapping[str, str]) -> dict[str, tuple[str, Field]]:
    """Columns from the envelope: name -> the path in it, and a field. `taken` are the row's other columns."""
    found: dict[str, tuple[str, Field]] = {}
    for name, written in section.options("columns").items():
        inner = section.section("columns")
        parts = _FROM.fullmatch(written.strip())
        if parts is None:
            inner.wrong(name, f"is {written!r}, not a path in the envelope and a kind, such as `source.lsn long`")
        path, kind = parts.groups()
        if not is_part(path):
            inner.wrong(name, f"is {written!r}: an envelope has op, source, transaction, ts_ms, before and after")
        if kind not in _KINDS:
            inner.wrong(name, f"is {written!r}, whose kind is none of {', '.join(_KINDS)}")
        try:
            found[name] = path, Field(name, kind)
        except SchemaError as error:
            inner.wrong(name, f"cannot be: {error}")
        if name in taken:
            inner.wrong(name, "is a field of the schema, too")
    return found
