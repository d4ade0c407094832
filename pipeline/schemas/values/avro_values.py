"""Readers of Avro's values by the schema that they were written with.

fastavro reads a record without its logical types, so a value is what the schema's base types have: numbers, texts,
bytes, lists, dicts. Here the logical types are applied, where a value that they do not allow is a reason with a path,
and columns take what Avro's rules let a reader take (Avro 1.12, "Schema Resolution"): int as long, float or double,
long as float or double, float as double, text and bytes as each other; beside those a decimal of another precision and
times of another unit, as far as the value stays the same. A type's name in Debezium or Kafka Connect is as a logical
type (`connect_names.py`).
"""

from __future__ import annotations

import decimal
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final

from sordini.pipeline.schemas.connect_names import NAME, VARIABLE_DECIMAL, kind_of_avro
from sordini.pipeline.schemas.kinds import NUMBERED, Decimal, Enum, Kind, ListOf, MapOf, Plain, StructOf, column_of
from sordini.pipeline.schemas.sources import FieldReader, source_of
from sordini.pipeline.schemas.values.json_values import list_reader, map_reader, struct_reader
from sordini.pipeline.schemas.values.misfit import Reader, misfit, never
from sordini.pipeline.schemas.values.plain_values import (
    BOUNDED,
    bounded_days,
    bounded_time,
    bounded_us,
    plain_reader,
    unscaled_decimal,
)

_UNIT_US: Final = {"millis": (1000, 1), "micros": (1, 1), "nanos": (1, 1000)}
"""By the end of a logical type's name: what a number is multiplied by, and divided by, to be in µs."""
_UUID_BYTES: Final = 16
_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "boolean": (bool,),
    "int": (int,),
    "long": (int,),
    "float": (float,),
    "double": (float,),
    "string": (str,),
    "enum": (str,),
    "bytes": (bytes,),
    "fixed": (bytes,),
    "array": (list,),
    "map": (dict,),
    "record": (dict,),
}
"""What fastavro returns for each base type."""
Named = Mapping[str, Any]
"""Types by full name."""


def avro_reader(written: Any, kind: Kind, named: Named) -> Reader:
    """The reader of a kind, of values of an Avro type as fastavro has parsed it."""
    written = resolved(written, named)
    if isinstance(written, list):
        return _union(written, kind, named)
    base = _base(written)
    match kind:
        case ListOf() if base == "array":
            return list_reader(kind, avro_reader(written["items"], kind.items, named))
        case MapOf() if base == "map":
            return map_reader(kind, avro_reader(written["values"], kind.values, named))
        case StructOf() if base in {"record", "map"}:
            return _struct(written, kind, named)
        case ListOf() | MapOf() | StructOf():
            return never(kind)
        case Decimal():
            return _decimal(base, written, kind)
        case Enum():
            return plain_reader(kind)
        case Plain():
            return _plain(base, written, kind)


def resolved(written: Any, named: Named) -> Any:
    """The type behind names and braces."""
    while True:
        if isinstance(written, str) and written in named:
            written = named[written]
        elif isinstance(written, dict) and (isinstance(written["type"], (dict, list)) or written["type"] in named):
            written = written["type"]
        else:
            return written


def _base(written: Any) -> str:
    return str(written["type"] if isinstance(written, dict) else written)


def _union(branches: list[Any], kind: Kind, named: Named) -> Reader:
    """By the type of the value: fastavro does not say which branch it is of. The first branch that fits counts."""
    others = [resolved(branch, named) for branch in branches if branch != "null"]
    if len(others) == 1:
        return avro_reader(others[0], kind, named)
    readers = [(_TYPES[_base(branch)], avro_reader(branch, kind, named)) for branch in others]

    def read(value: Any) -> Any:
        for types, reader in readers:
            if type(value) in types:
                return reader(value)
        raise misfit(kind)

    return read


def _struct(written: dict[str, Any], kind: StructOf, named: Named) -> Reader:
    """Of a record, whose fields are found by name; those that the writer lacks are missing. Or of a map."""
    return struct_reader(kind, ((field, avro_reader_at(written, field.name, field, named)) for field in kind.fields))


def avro_reader_at(written: dict[str, Any], name: str, field: Any, named: Named) -> FieldReader:
    """The reader of a field, which may come from any of its sources; each has a type of its own."""
    places = [source_of(source) for source in field.sources] or [(name,)]
    found = [type_at(written, place, named) for place in places]
    types = [one for one in found if one is not None]
    if not types:
        return never(field.type)
    if all(one == types[0] for one in types):
        return avro_reader(types[0], field.type, named)
    branches = (resolved(one, named) for one in types)
    # For a place of which no type is known: within a union of several.
    by_value = _union(
        [each for one in branches for each in (one if isinstance(one, list) else [one])], field.type, named
    )
    return tuple(by_value if one is None else avro_reader(one, field.type, named) for one in found)


def type_at(written: Any, place: tuple[str | int, ...], named: Named) -> Any:
    """The type at a place; None if there is none. A union is gone through by its only branch beside null."""
    for step in place:
        written = resolved(written, named)
        if isinstance(written, list):
            others = [one for one in written if one != "null"]
            if len(others) != 1:
                return None
            written = resolved(others[0], named)
        base = _base(written)
        if base == "record" and isinstance(step, str):
            written = next((each["type"] for each in written["fields"] if each["name"] == step), None)
        elif base == "map" and isinstance(step, str):
            written = written["values"]
        elif base == "array" and isinstance(step, int):
            written = written["items"]
        else:
            return None
        if written is None:
            return None
    return written


def _decimal(base: str, written: Any, kind: Decimal) -> Reader:
    if base in {"bytes", "fixed"} and isinstance(written, dict) and written.get("logicalType") == "decimal":
        scale = int(written.get("scale", 0))
        return _unscaled(kind, lambda value: (value, scale))
    if base == "record" and written.get(NAME, written.get("name")) == VARIABLE_DECIMAL:
        return _unscaled(kind, lambda value: (value["value"], value["scale"]))
    return plain_reader(kind) if base in {"int", "long", "float", "double", "string"} else never(kind)


def _unscaled(kind: Decimal, parts: Callable[[Any], tuple[bytes, int]]) -> Reader:
    """Of bytes of digits, and how many of them are behind the point."""

    def read(value: Any) -> decimal.Decimal:
        try:
            return unscaled_decimal(*parts(value), kind)
        except (decimal.DecimalException, TypeError, KeyError):
            raise misfit(kind) from None

    return read


def _plain(base: str, written: Any, kind: Plain) -> Reader:
    logical = written.get("logicalType") if isinstance(written, dict) else None
    meant = kind_of_avro(written) if isinstance(written, dict) else None
    if meant in NUMBERED and base in {"int", "long"} and _is_of(kind, NUMBERED[meant].of):
        return _checked(kind, lambda value: BOUNDED[NUMBERED[meant].of](NUMBERED[meant].value(value)))
    column = column_of(kind.name)
    if kind.name in NUMBERED and base in {"int", "long"} and _said(logical, meant) not in {None, column}:
        return never(kind)  # Days are no milliseconds.
    if column in {"timestamp", "timestamp_ntz"}:
        is_local = str(logical).startswith("local-timestamp-")
        if base == "long" and (is_local or str(logical).startswith("timestamp-")):
            return _scaled(kind, str(logical).rpartition("-")[2], bounded_us) if _zones(kind, is_local) else never(kind)
        return plain_reader(kind) if base in {"string", "long", "int"} else never(kind)
    if column == "time" and str(logical).startswith("time-"):
        return _scaled(kind, str(logical).rpartition("-")[2], bounded_time)
    if column == "date" and logical == "date":
        return _checked(kind, bounded_days)
    if kind.name == "uuid" and base == "fixed":
        return _checked(kind, _uuid_of)
    if kind.name == "binary":
        return _same if base in {"bytes", "fixed"} else str.encode if base == "string" else never(kind)
    if kind.name == "string":
        return _checked(kind, _text) if base == "bytes" else plain_reader(kind) if base != "fixed" else never(kind)
    return plain_reader(kind)


def _said(logical: Any, meant: str | None) -> str | None:
    """The column of which a number is, if its type says so: date, time or timestamp."""
    if meant in NUMBERED:
        return NUMBERED[meant].of
    said = str(logical).removeprefix("local-").partition("-")[0]
    return said if said in BOUNDED else None


def _is_of(kind: Plain, column: str) -> bool:
    """Whether a number that is days, a time or a timestamp is one in the column of a kind."""
    return column_of(kind.name) == column or (column, kind.name) == ("timestamp", "timestamp_ntz")


def _zones(kind: Plain, is_local: bool) -> bool:  # noqa: FBT001
    """Whether a moment with a zone becomes one, and a local one a local one."""
    return (kind.name == "timestamp_ntz") == is_local


def _scaled(kind: Kind, unit: str, check: Callable[[int], int]) -> Reader:
    factor, divisor = _UNIT_US[unit]
    return _checked(kind, lambda value: check(value * factor // divisor))


def _checked(kind: Kind, change: Callable[[Any], Any]) -> Reader:
    def read(value: Any) -> Any:
        try:
            return change(value)
        except (ValueError, TypeError):
            raise misfit(kind) from None

    return read


def _uuid_of(value: bytes) -> str:
    if len(value) != _UUID_BYTES:
        raise ValueError(value)
    return str(uuid.UUID(bytes=value))


def _text(value: bytes) -> str:
    return value.decode()


def _same(value: Any) -> Any:
    return value
