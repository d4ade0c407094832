"""Proposes how a topic of Debezium's envelopes is upserted: its keys, and what orders the changes. Pure.

A topic is one of envelopes if nine of ten values are. Keys are those that records have, as far as rows have them. The
sequence is the position in the database's log: `source.lsn` of PostgreSQL, `source.file` and `source.pos` of MySQL and
MariaDB. Of other connectors none is proposed, as the positions of some are missing in the rows of a snapshot.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from sordini.pipeline.schemas.connect_names import connect_fields
from sordini.pipeline.schemas.fields import Field
from sordini.pipeline.schemas.kinds import ListOf, MapOf, StructOf

_SEQUENCES: Final = ({"lsn": "long"}, {"file": "string", "pos": "long"})
"""Names in `source`, and their kinds."""
_NO_KEYS: Final = (ListOf, MapOf, StructOf)
_INEXACT: Final = frozenset({"float", "double"})
_OPS: Final = frozenset("crudt")


class ChangesProposal(NamedTuple):
    """Settings of a job whose values are envelopes, and what was seen, in sentences."""

    keys: tuple[str, ...]
    sequence: tuple[str, ...]
    columns: Mapping[str, str]
    """Name -> the path in the envelope and the kind, as a job file has them."""
    seen: tuple[str, ...]


def opened(value: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The envelope that an object is, or that is its payload; None if it is none."""
    payload = value.get("payload")
    found = payload if isinstance(payload, dict) and "schema" in value else value
    op = found.get("op")
    is_envelope = isinstance(op, str) and op in _OPS and ("after" in found or "before" in found)
    return found if is_envelope else None


def rows_of(envelopes: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The rows in envelopes, for their names and values."""
    parts = (envelope.get(name) for envelope in envelopes for name in ("after", "before"))
    return [part for part in parts if isinstance(part, dict)]


def schema_fields(values: Iterable[Mapping[str, Any]]) -> tuple[Field, ...]:
    """The fields of rows that the last `schema` beside a payload says; none if there is no such schema."""
    found: tuple[Field, ...] = ()
    for value in values:
        schema = value.get("schema")
        inner = schema.get("fields") if isinstance(schema, dict) else None
        for each in inner if isinstance(inner, list) else ():
            if isinstance(each, dict) and each.get("field") == "after":
                found = connect_fields(each) or found
    return found


def key_names(keys: Iterable[bytes | None]) -> tuple[str, ...]:
    """The names in records' keys that are JSON objects, of the first one."""
    for key in keys:
        try:
            found = json.loads(key) if key else None
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            inner = found.get("payload", found)
            if isinstance(inner, dict) and inner:
                return tuple(inner)
    return ()


def changes_proposal(keys: Sequence[str], source: Iterable[str], fields: Sequence[Field]) -> ChangesProposal:
    """From the names in records' keys, in `source`, and the fields of rows, of which there is at least one."""
    there, seen = set(source), ["the values are changes in Debezium's envelope"]
    can_be = [each.name for each in fields if not isinstance(each.type, _NO_KEYS) and each.kind not in _INEXACT]
    known = tuple(name for name in keys if name in can_be)
    lacking = [name for name in keys if name not in can_be]
    if known and lacking:
        seen.append(
            f"sink.keys has a part of the records' keys, as {', '.join(lacking)} can be none here: rows that differ in "
            "that alone replace each other"
        )
    if not known:
        guess = next((name for name in can_be if name.lower() == "id"), (can_be or [fields[0].name])[0])
        known = (guess,)
        seen.append(f"records' keys do not name the columns that identify a row: sink.keys is a guess ({guess})")
    for kinds in _SEQUENCES:
        if there >= set(kinds):
            taken = {each.name.lower() for each in fields}
            names = {name: name if name not in taken else f"source_{name}" for name in kinds}
            columns = {column: f"source.{name} {kinds[name]}" for name, column in names.items()}
            return ChangesProposal(known, tuple(columns), columns, tuple(seen))
    seen.append("`source` has no position that all records have: the order of the topic is that of the changes")
    return ChangesProposal(known, (), {}, tuple(seen))
