"""Proposes how a topic's values are decoded, from a sample of them. Pure.

A form is proposed if nine of ten values have it. Numbers are as wide as columns have them, no field is required, and
fields of several types are texts: a proposal has to hold for records that are not in the sample, too.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, NoReturn

from sordini.pipeline.schemas.envelope_inference import (
    ChangesProposal,
    changes_proposal,
    key_names,
    opened,
    rows_of,
    schema_fields,
)
from sordini.pipeline.schemas.fields import RECORD, Field, field_of
from sordini.pipeline.schemas.kinds import DEPTH_MAX, Decimal, Kind, ListOf, MapOf, Plain, StructOf, text_of
from sordini.pipeline.schemas.values.misfit import Misfit
from sordini.pipeline.schemas.values.plain_values import plain_reader

SHARE: Final = 0.9
FIELDS_MAX: Final = 200
"""Of one object; one with more names is a map."""
PREFIX_BYTES: Final = 5
_TEXT: Final = Plain("string")
_TEXT_KINDS: Final = (Plain("uuid"), Plain("date"), Plain("timestamp"))
"""Kinds that texts may have, in this order."""
_PAIRS: Final = re.compile(r"[^=&\s]+=[^&]*(&[^=&\s]+=[^&]*)*")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Proposal(NamedTuple):
    """A mode of `decode`, the fields, and what was seen, in sentences."""

    mode: str
    fields: tuple[Field, ...]
    seen: tuple[str, ...]
    changes: ChangesProposal | None = None
    """Of values that are Debezium's envelopes."""
    columns: tuple[str, ...] = ()
    """Of the rows, where a registry has the fields."""

    @property
    def needs_prefix(self) -> bool:
        """Whether a field has the name of a column of the record."""
        return any(name.lower() in RECORD for name in (*self.columns, *(field.name for field in self.fields)))


def infer(values: Sequence[bytes | None], keys: Iterable[bytes | None] = ()) -> Proposal:
    """What the values are: JSON objects, pairs, or bytes; for those with a schema's id see `schema_ids`.

    `keys` are those of the records, of which changes of rows have theirs.
    """
    given = [value for value in values if value is not None]
    seen = [f"{len(values)} records were read, {len(values) - len(given)} of them without a value"]
    objects = [found for found in map(_object, given) if found is not None]
    if given and len(objects) >= SHARE * len(given):
        seen.append(f"{len(objects)} of {len(given)} values are JSON objects")
        envelopes = [found for found in map(opened, objects) if found is not None]
        fields = schema_fields(objects) or _fields(rows_of(envelopes), 0)
        if fields and len(envelopes) >= SHARE * len(objects):
            return _of_envelopes(fields, envelopes, keys, seen)
        return _with_columns("json", _fields(objects, 0), seen)
    pairs = [found for found in map(_pairs, given) if found is not None]
    if given and len(pairs) >= SHARE * len(given):
        seen.append(f"{len(pairs)} of {len(given)} values are pairs name=value")
        return _with_columns("key_value", _fields(pairs, 0, of_texts=True), seen)
    ids = schema_ids(given)
    if ids:
        listed = ", ".join(map(str, sorted(ids)[:10]))
        seen.append(f"values begin with the ids of schemas ({listed}): --registry URL reads them by those")
    else:
        seen.append(f"{len(objects)} of {len(given)} values are JSON objects, {len(pairs)} pairs: bytes are kept")
    return Proposal("raw", (), tuple(seen))


def _of_envelopes(
    fields: tuple[Field, ...],
    envelopes: Sequence[Mapping[str, Any]],
    keys: Iterable[bytes | None],
    seen: Sequence[str],
) -> Proposal:
    sources = (each.get("source") for each in envelopes)
    names = [
        name for source in sources if isinstance(source, dict) for name, value in source.items() if value is not None
    ]
    # A column's name may differ from the one in the row.
    columns = {source: field.name for field in fields for source in field.sources or (field.name,)}
    wanted = [columns.get(name, name) for name in key_names(keys)]
    changes = changes_proposal(wanted, names, fields)
    return Proposal("json", fields, (*seen, *changes.seen), changes)


def _with_columns(mode: str, fields: tuple[Field, ...], seen: list[str]) -> Proposal:
    """A proposal of this mode, unless nothing in the values can be a column."""
    if fields:
        return Proposal(mode, fields, tuple(seen))
    return Proposal("raw", (), (*seen, "none of them has a field that can be a column: bytes are kept"))


def schema_ids(values: Sequence[bytes]) -> set[int]:
    """The ids in front of values, if nine of ten begin with one."""
    framed = [value for value in values if len(value) >= PREFIX_BYTES and value[0] == 0]
    if not values or len(framed) < SHARE * len(values):
        return set()
    return {int.from_bytes(value[1:PREFIX_BYTES], "big") for value in framed}


def written_fields(fields: Iterable[Field]) -> dict[str, Any]:
    """Fields as a job file has them."""
    return {field.name: _written(field.type, field.sources) for field in fields}


def _written(kind: Kind, sources: tuple[str, ...]) -> Any:
    match kind:
        case StructOf():
            made: Any = {"struct": written_fields(kind.fields)}
        case ListOf(StructOf() | MapOf() | ListOf() as items):
            made = {"list": _written(items, ())}
        case MapOf(StructOf() | MapOf() | ListOf() as items):
            made = {"map": _written(items, ())}
        case _:
            made = {"kind": text_of(kind)} if sources else text_of(kind)
    return {**made, "from": list(sources)} if sources else made


def _object(value: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(value, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _pairs(value: bytes) -> dict[str, Any] | None:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return None
    if not _PAIRS.fullmatch(text):
        return None
    return {name: item or None for name, _, item in (pair.partition("=") for pair in text.split("&"))}


def _fields(objects: Iterable[Mapping[str, Any]], depth: int, *, of_texts: bool = False) -> tuple[Field, ...]:
    kinds: dict[str, Kind | None] = {}
    for one in objects:
        for name, value in one.items():
            kinds[name] = _merged(kinds.get(name), _kind(value, depth + 1, of_texts=of_texts))
    found: dict[str, Field] = {}
    for name, kind in kinds.items():
        column = _column(name)
        source = _source(name)
        if column and source and column.lower() not in found:
            found[column.lower()] = field_of(column, kind or _TEXT, sources=() if column == name else (source,))
    return tuple(found.values())


def _source(name: str) -> str:
    """How a job file names a place for any name; empty for one that it cannot name."""
    if "${" in name:  # A variable of the environment there.
        return ""
    if name.strip() and not name.startswith("$"):
        return name
    quote = next((mark for mark in "'\"" if mark not in name), "")
    return f"$[{quote}{name}{quote}]" if name and quote else ""


def _column(name: str) -> str:
    """A name of a column for any name."""
    if _NAME.fullmatch(name):
        return name
    return re.sub(r"[^A-Za-z0-9_]", "_", f"_{name}" if name[:1].isdigit() else name)


def _kind(value: Any, depth: int, *, of_texts: bool) -> Kind | None:
    """The kind of one value; None for one that says nothing."""
    match value:
        case None:
            return None
        case bool():
            return Plain("boolean")
        case int():
            return Plain("long") if -(2**63) <= value < 2**63 else Decimal(38, 0) if abs(value) < 10**38 else _TEXT
        case float() if math.isfinite(value):
            return Plain("double")
        case str():
            return _kind_of_text(value, of_texts=of_texts)
        case list() if depth < DEPTH_MAX:
            items: Kind | None = None
            for item in value:
                items = _merged(items, _kind(item, depth + 1, of_texts=False))
            return ListOf(items or _TEXT)
        case dict() if depth < DEPTH_MAX and value:
            fields = _fields([value], depth)
            return StructOf(fields) if 0 < len(fields) <= FIELDS_MAX else MapOf(_TEXT)
        case _:
            return _TEXT


def _kind_of_text(text: str, *, of_texts: bool) -> Kind:
    kinds = (Plain("long"), Plain("double"), Plain("boolean"), *_TEXT_KINDS) if of_texts else _TEXT_KINDS
    for kind in kinds:
        try:
            plain_reader(kind, numbers_as_text=True)(text)
        except Misfit:
            continue
        return kind
    return _TEXT


def _merged(old: Kind | None, new: Kind | None) -> Kind | None:
    if old is None or new is None or old == new:
        return new if old is None else old
    match old, new:
        case Plain(one), Plain(other) if {one, other} == {"long", "double"}:
            return Plain("double")
        case Plain(one), Plain(other) if {one, other} == {"date", "timestamp"}:
            return Plain("timestamp")
        case ListOf(), ListOf():
            return ListOf(_merged(old.items, new.items) or _TEXT)
        case StructOf(), StructOf():
            return StructOf(_merged_fields(old.fields, new.fields))
        case _:
            return _TEXT


def _merged_fields(old: tuple[Field, ...], new: tuple[Field, ...]) -> tuple[Field, ...]:
    found = {field.name.lower(): field for field in old}
    for field in new:
        there = found.get(field.name.lower())
        kind = field.type if there is None else _merged(there.type, field.type)
        kept = field if there is None else there
        found[field.name.lower()] = field_of(kept.name, kind or _TEXT, sources=kept.sources)
    return tuple(found.values())
