"""What Debezium and Kafka Connect say of a value's type by a name, where its type has no word for it. Pure.

A converter writes the name of a schema of Connect into Avro as `connect.name`, and into a JSON schema as `title`. Names
without a line below say nothing that their base type does not (Json, Xml, Enum, Year, ZonedTime, ...).

    io.debezium.time.Timestamp, MicroTimestamp, NanoTimestamp   ms, µs, ns since 1970, in UTC
    io.debezium.time.ZonedTimestamp                             text in ISO 8601, with its zone

(Debezium, "Temporal types" of each connector; Kafka Connect, `org.apache.kafka.connect.data`.)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sordini.pipeline.schemas.fields import Field, field_of
from sordini.pipeline.schemas.kinds import (
    PRECISION_MAX,
    Decimal,
    Kind,
    ListOf,
    MapOf,
    Plain,
    SchemaError,
    StructOf,
    check_names,
    kind_of,
    text_of,
)

NAME: Final = "connect.name"
_NUMBERS: Final = {
    "io.debezium.time.Date": "date_days",
    "io.debezium.time.Time": "time_ms",
    "io.debezium.time.MicroTime": "time_us",
    "io.debezium.time.NanoTime": "time_ns",
    "io.debezium.time.Timestamp": "timestamp_ms",
    "io.debezium.time.MicroTimestamp": "timestamp_us",
    "io.debezium.time.NanoTimestamp": "timestamp_ns",
    "org.apache.kafka.connect.data.Date": "date_days",
    "org.apache.kafka.connect.data.Time": "time_ms",
    "org.apache.kafka.connect.data.Timestamp": "timestamp_ms",
}
_TEXTS: Final = {"io.debezium.time.ZonedTimestamp": "timestamp", "io.debezium.data.Uuid": "uuid"}
_BASES: Final = {
    "int8": "int",
    "int16": "int",
    "int32": "int",
    "int64": "long",
    "float": "float",
    "double": "double",
    "boolean": "boolean",
    "string": "string",
    "bytes": "binary",
}
"""Types of Connect, as JSON's converter calls them."""
_DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
VARIABLE_DECIMAL: Final = "io.debezium.data.VariableScaleDecimal"
"""A record with `scale` and `value`, the bytes of the digits: of numbers whose scale a database does not say."""


def connect_fields(schema: Mapping[str, Any]) -> tuple[Field, ...]:
    """The fields of a struct's schema as JSON's converter writes it beside a payload; none where one has no column."""
    try:
        found = tuple(field_of(str(each["field"]), _connect_kind(each)) for each in schema["fields"])
        check_names(found, "after")
        for field in found:
            kind_of(text_of(field.type))  # As a job file has it: not too deep.
    except (SchemaError, KeyError, TypeError, AttributeError, RecursionError):
        return ()
    return found


def _connect_kind(schema: Mapping[str, Any]) -> Kind:
    name, base = str(schema.get("name")), str(schema["type"])
    match base:
        case "struct":
            return StructOf(tuple(field_of(str(each["field"]), _connect_kind(each)) for each in schema["fields"]))
        case "array":
            return ListOf(_connect_kind(schema["items"]))
        case "map":
            return MapOf(_connect_kind(schema["values"]))
        case "bytes" if name == _DECIMAL:
            return _decimal(schema.get("parameters"), is_unscaled=True) or Plain("binary")
        case "int32" | "int64" if name in _NUMBERS:
            return Plain(_NUMBERS[name])
        case "string" if name in _TEXTS:
            return Plain(_TEXTS[name])
    return Plain(_BASES[base])


def _decimal(parameters: Any, *, is_unscaled: bool) -> Decimal | None:
    """A decimal by the parameters of its schema; 38 digits if they do not say how many."""
    said = parameters if isinstance(parameters, dict) else {}
    scale, digits = str(said.get("scale")), str(said.get("connect.decimal.precision", PRECISION_MAX))
    if not (scale.isdecimal() and digits.isdecimal()):
        return None
    return Decimal(min(int(digits), PRECISION_MAX), int(scale), is_unscaled=is_unscaled)


def kind_of_avro(written: Mapping[str, Any]) -> str | None:
    """The plain kind that a type's name says, if it has one that says more than its logical type."""
    if "logicalType" in written:
        return None
    name, base = written.get(NAME), written.get("type")
    return _NUMBERS.get(str(name)) if base in {"int", "long"} else _TEXTS.get(str(name)) if base == "string" else None


def kind_of_json(form: Mapping[str, Any], base: str) -> Kind | None:
    """The kind that the title of a JSON schema says, if it says more than its type. Raises SchemaError."""
    title = str(form.get("title"))
    if base == "integer" and title in _NUMBERS:
        return Plain(_NUMBERS[title])
    if base == "string" and title in _TEXTS:
        return Plain(_TEXTS[title])
    if title == _DECIMAL and base in {"number", "string"}:
        return _decimal(form.get("connect.parameters"), is_unscaled=base == "string")
    return None
