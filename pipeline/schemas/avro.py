"""Schemas in Avro's form, both ways, for records: https://avro.apache.org/docs/1.12.0/specification/.

Names of nested types are made of the names of the fields that lead to them. A field's sources are its aliases in Avro
as far as they are names; all of them are in the attribute `sordini.from`.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any, Final

from sordini.pipeline.schemas.connect_names import kind_of_avro
from sordini.pipeline.schemas.fields import Field, Schema, field_of
from sordini.pipeline.schemas.kinds import (
    PRECISION_MAX,
    Decimal,
    Enum,
    Kind,
    ListOf,
    MapOf,
    Plain,
    SchemaError,
    StructOf,
    column_of,
    is_moment,
    kind_of,
    text_of,
)
from sordini.pipeline.schemas.sources import is_name

FROM, EVENT_TIME, KIND = "sordini.from", "sordini.event_time", "sordini.kind"
_AVRO: Final[dict[str, Any]] = {
    "string": "string",
    "int": "int",
    "long": "long",
    "float": "float",
    "double": "double",
    "boolean": "boolean",
    "binary": "bytes",
    "date": {"type": "int", "logicalType": "date"},
    "time": {"type": "long", "logicalType": "time-micros"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros"},
    "timestamp_ntz": {"type": "long", "logicalType": "local-timestamp-micros"},
    "date_days": {"type": "int", "logicalType": "date", KIND: "date_days"},
    "time_ms": {"type": "int", "logicalType": "time-millis", KIND: "time_ms"},
    "time_us": {"type": "long", "logicalType": "time-micros", KIND: "time_us"},
    "time_ns": {"type": "long", KIND: "time_ns"},
    "timestamp_ms": {"type": "long", "logicalType": "timestamp-millis"},
    "timestamp_us": {"type": "long", "logicalType": "timestamp-micros", KIND: "timestamp_us"},
    "timestamp_ns": {"type": "long", "logicalType": "timestamp-nanos", KIND: "timestamp_ns"},
    "uuid": {"type": "string", "logicalType": "uuid"},
}
LOGICAL: Final = {
    "date": "date",
    "time-millis": "time",
    "time-micros": "time",
    "timestamp-micros": "timestamp",
    "timestamp-millis": "timestamp_ms",
    "timestamp-nanos": "timestamp",
    "local-timestamp-micros": "timestamp_ntz",
    "local-timestamp-millis": "timestamp_ntz",
    "local-timestamp-nanos": "timestamp_ntz",
    "uuid": "uuid",
}
"""The kinds of Avro's logical types, beside decimals."""
_PLAIN: Final = {
    "string": "string",
    "int": "int",
    "long": "long",
    "float": "float",
    "double": "double",
    "boolean": "boolean",
    "bytes": "binary",
    "fixed": "binary",
}


def to_avro(schema: Schema) -> dict[str, Any]:
    """The Avro record of a schema; what is not required is a union with null, null first and the default."""
    return {
        "type": "record",
        "name": schema.name,
        "namespace": "sordini",
        **({"doc": schema.about} if schema.about else {}),
        **({EVENT_TIME: schema.event_time} if schema.event_time else {}),
        "fields": [_avro_field(field, schema.name) for field in schema.fields],
    }


def avro_text(schema: Schema) -> str:
    """`to_avro` as JSON text."""
    return json.dumps(to_avro(schema))


def read_avro(text: str, name: str, within: str = "") -> Schema:
    """The schema that an Avro record's JSON text describes; `name` is its file's, for errors.

    `within` names the field whose record it is, by default the whole one.

    Raises SchemaError, which names the file and the field, for a type without a column.

    A field is required unless null is among its types or it has a default. Unions of several types, and records within
    themselves, have no column here. A timestamp field `event_time` is the time of the event.
    """
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"{name} is not JSON: {error}") from None
    if not isinstance(record, dict) or record.get("type") != "record" or not isinstance(record.get("fields"), list):
        raise SchemaError(f'{name} is not an Avro record: an object with "type": "record" and a list of "fields"')
    try:
        fields = _Reading().fields(record, "") if not within else _fields_within(record, within)
        times = [field.name for field in fields if is_moment(field.type) and field.name == "event_time"]
        title = within or str(record.get("name", name.rpartition("/")[2].removesuffix(".avsc")))
        return Schema(title, fields, str(record.get(EVENT_TIME, "".join(times))), str(record.get("doc", "")))
    except SchemaError as error:
        raise SchemaError(f"{name}: {error}") from None


def avro_names(written: Any, within: str = "") -> set[str]:
    """The names of a record's fields, or of those of a field's record, which may be beside null in a union."""
    types = written if isinstance(written, list) else [written]
    for one in types:
        inner = one.get("type") if isinstance(one, dict) else None
        if isinstance(inner, (dict, list)):
            return avro_names(inner, within)
        if inner == "record" and isinstance(one.get("fields"), list):
            fields = {field["name"]: field["type"] for field in one["fields"]}
            return avro_names(fields.get(within)) if within else set(fields)
    return set()


def _fields_within(record: dict[str, Any], within: str) -> tuple[Field, ...]:
    """The fields of a record's field, which is a record."""
    reading = _Reading()
    # Only it, and what is before it: that may define its type. Of the rest no column is made.
    names = [field.get("name") if isinstance(field, dict) else None for field in record["fields"]]
    if within not in names:
        raise SchemaError(f"it has no field {within}, whose record would have the columns")
    before = record["fields"][: names.index(within)]
    reading.define({**record, "fields": before})
    [found] = reading.fields({**record, "fields": [record["fields"][names.index(within)]]}, "")
    if not isinstance(found.type, StructOf):
        raise SchemaError(f"{within} is a {found.kind}, and no record, which would have the columns")
    return found.type.fields


def _avro_field(field: Field, within: str) -> dict[str, Any]:
    kind = _avro_type(field.type, f"{within}_{field.name}")
    names = [source for source in field.sources if is_name(source) and source != field.name]
    more = {
        **({"doc": field.about} if field.about else {}),
        **({"aliases": names} if names else {}),
        **({FROM: list(field.sources)} if field.sources else {}),
    }
    if field.is_required:
        return {"name": field.name, "type": kind, **more}
    return {"name": field.name, "type": ["null", kind], "default": None, **more}


def _avro_type(kind: Kind, name: str) -> Any:
    match kind:
        case Plain():
            return _AVRO[kind.name]
        case Decimal():
            form = {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
            return {**form, KIND: text_of(kind)} if kind.is_unscaled else form
        case Enum():
            return {"type": "enum", "name": name, "symbols": list(kind.symbols)}
        case ListOf():
            return {"type": "array", "items": _avro_type(kind.items, f"{name}_item")}
        case MapOf():
            return {"type": "map", "values": _avro_type(kind.values, f"{name}_value")}
        case StructOf():
            return {"type": "record", "name": name, "fields": [_avro_field(field, name) for field in kind.fields]}


def full_name(kind: dict[str, Any], namespace: str) -> str:
    """The name of a type with its namespace."""
    name, own = str(kind.get("name", "")), kind.get("namespace", namespace)
    return name if "." in name or not own else f"{own}.{name}"


class _Reading:
    """One record; types that were defined can be named after that."""

    def __init__(self) -> None:
        self._named: dict[str, Kind | SchemaError | None] = {}
        """None while it is being read; the reason why a type has no column."""

    def fields(self, record: dict[str, Any], namespace: str) -> tuple[Field, ...]:
        name = full_name(record, namespace)
        self._named[name] = None
        try:
            return tuple(self._field(field, name.rpartition(".")[0]) for field in record["fields"])
        except SchemaError as error:
            self._named[name] = error
            raise

    def define(self, record: dict[str, Any]) -> None:
        """Read fields for the types that they define; those without a column are left out."""
        for field in record["fields"]:
            with suppress(SchemaError):
                self.fields({**record, "fields": [field]}, "")

    def _field(self, field: Any, namespace: str) -> Field:
        if not isinstance(field, dict) or not isinstance(field.get("name"), str) or "type" not in field:
            raise SchemaError(f"{field!r} is not a field of Avro's")
        written, name = field["type"], field["name"]
        try:
            kind = self._kind(written, namespace)
        except SchemaError as error:
            raise SchemaError(f"{name}: {error}") from None
        is_required = "default" not in field and not (isinstance(written, list) and "null" in written)
        aliases = [str(alias).rpartition(".")[2] for alias in field.get("aliases", ())]
        sources = tuple(map(str, field.get(FROM, (name, *aliases) if aliases else ())))
        return field_of(name, kind, str(field.get("doc", "")), is_required=is_required, sources=sources)

    def _kind(self, written: Any, namespace: str) -> Kind:
        if isinstance(written, list):
            others = [one for one in written if one != "null"]
            if len(others) != 1:
                raise SchemaError("a union of several types has no column")
            return self._kind(others[0], namespace)
        if isinstance(written, str):
            return self._named_kind(written, namespace)
        if not isinstance(written, dict):
            raise SchemaError(f"{json.dumps(written)} is no type of Avro's")
        if isinstance(written.get("type"), (dict, list)):
            return self._kind(written["type"], namespace)
        kind = self._of_dict(written, namespace)
        if "name" in written:
            self._named[full_name(written, namespace)] = kind
        return kind

    def _named_kind(self, name: str, namespace: str) -> Kind:
        if name in _PLAIN and name != "fixed":
            return Plain(_PLAIN[name])
        for known in (f"{namespace}.{name}" if namespace else name, name):
            if known in self._named:
                kind = self._named[known]
                if kind is None:
                    raise SchemaError(f"the record {name} is within itself, which has no column")
                if isinstance(kind, SchemaError):
                    raise SchemaError(str(kind))
                return kind
        return self._none_here(name)

    def _of_dict(self, written: dict[str, Any], namespace: str) -> Kind:
        logical, base = written.get("logicalType"), written.get("type")
        if KIND in written and isinstance(base, str) and base in _PLAIN:
            return kind_of(str(written[KIND]))
        if logical == "decimal" and base in {"bytes", "fixed"}:
            precision, scale = written.get("precision"), written.get("scale", 0)
            if isinstance(precision, int) and isinstance(scale, int):
                # Kafka Connect writes 64 where a database did not say; values that have more digits do not fit.
                return Decimal(min(precision, PRECISION_MAX), scale)
        elif (meant := kind_of_avro(written)) is not None:
            return Plain(column_of(meant))
        elif logical in LOGICAL and base in {"int", "long", "string", "fixed"}:
            return Plain(LOGICAL[logical])
        elif base == "array" and "items" in written:
            return ListOf(self._kind(written["items"], namespace))
        elif base == "map" and "values" in written:
            return MapOf(self._kind(written["values"], namespace))
        elif base == "record" and isinstance(written.get("fields"), list):
            return StructOf(self.fields(written, namespace))
        elif base == "enum" and isinstance(written.get("symbols"), list):
            return Enum(tuple(map(str, written["symbols"])))
        elif isinstance(base, str):
            return Plain(_PLAIN[base]) if base in _PLAIN else self._named_kind(base, namespace)
        return self._none_here(written)

    @staticmethod
    def _none_here(written: Any) -> Kind:
        raise SchemaError(
            f"{json.dumps(written)[:200]} has no column here; a field can be {', '.join(_PLAIN)}, an enum, an array, a "
            f"map, a record, or of the logical types decimal, {', '.join(LOGICAL)}"
        )
