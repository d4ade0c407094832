"""Schemas in Avro's form, both ways, for records: https://avro.apache.org/docs/1.12.0/specification/."""

from __future__ import annotations

import json
from typing import Any, Final

from sordini.pipeline.schemas.fields import Field, Schema, SchemaError

_AVRO: Final[dict[str, Any]] = {
    "string": "string",
    "int": "int",
    "long": "long",
    "double": "double",
    "boolean": "boolean",
    "binary": "bytes",
    "date": {"type": "int", "logicalType": "date"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros"},
    "timestamp_ms": {"type": "long", "logicalType": "timestamp-millis"},
}
_LOGICAL: Final = {"date": "date", "timestamp-micros": "timestamp", "timestamp-millis": "timestamp_ms"}
_PLAIN: Final = {
    "string": "string",
    "int": "int",
    "long": "long",
    "float": "double",
    "double": "double",
    "boolean": "boolean",
    "bytes": "binary",
    "enum": "string",
}


def to_avro(schema: Schema) -> dict[str, Any]:
    """The Avro record of a schema; what is not required is a union with null, null first and the default."""
    return {
        "type": "record",
        "name": schema.name,
        "namespace": "sordini",
        **({"doc": schema.about} if schema.about else {}),
        "fields": [_avro_field(field) for field in schema.fields],
    }


def avro_text(schema: Schema) -> str:
    """`to_avro` as JSON text."""
    return json.dumps(to_avro(schema))


def read_avro(text: str, name: str) -> Schema:
    """The schema that an Avro record's JSON text describes; `name` is its file's, for errors.

    Raises SchemaError, which names the file and the field, for a type without a column.

    A field is required unless null is among its types or it has a default. Maps, records inside records, and unions of
    several types have no column here. A timestamp field `event_time` is the time of the event.
    """
    try:
        record = json.loads(text)
    except json.JSONDecodeError as error:
        raise SchemaError(f"{name} is not JSON: {error}") from None
    if not isinstance(record, dict) or record.get("type") != "record" or not isinstance(record.get("fields"), list):
        raise SchemaError(f'{name} is not an Avro record: an object with "type": "record" and a list of "fields"')
    try:
        fields = tuple(_read_field(field) for field in record["fields"])
        times = [field.name for field in fields if field.kind.startswith("timestamp") and field.name == "event_time"]
        title = str(record.get("name", name.rpartition("/")[2].removesuffix(".avsc")))
        return Schema(title, fields, "".join(times), str(record.get("doc", "")))
    except SchemaError as error:
        raise SchemaError(f"{name}: {error}") from None


def _avro_field(field: Field) -> dict[str, Any]:
    kind = _AVRO[field.element]
    kind = {"type": "array", "items": kind} if field.is_list else kind
    about = {"doc": field.about} if field.about else {}
    if field.is_required:
        return {"name": field.name, "type": kind, **about}
    return {"name": field.name, "type": ["null", kind], "default": None, **about}


def _read_field(field: Any) -> Field:
    if not isinstance(field, dict) or not isinstance(field.get("name"), str) or "type" not in field:
        raise SchemaError(f"{field!r} is not a field of Avro's")
    kind = field["type"]
    alternatives = [one for one in kind if one != "null"] if isinstance(kind, list) else [kind]
    if len(alternatives) != 1:
        raise SchemaError(f"{field['name']}: a union of several types has no column")
    is_required = "default" not in field and not (isinstance(kind, list) and "null" in kind)
    return Field(field["name"], _kind(field["name"], alternatives[0]), str(field.get("doc", "")), is_required)


def _kind(name: str, kind: Any) -> str:
    if isinstance(kind, str) and kind in _PLAIN:
        return _PLAIN[kind]
    if isinstance(kind, dict):
        if kind.get("logicalType") in _LOGICAL:
            return _LOGICAL[kind["logicalType"]]
        if kind.get("type") == "array":
            element = _kind(name, kind.get("items"))
            if not element.startswith("list"):
                return f"list<{element}>"
        elif kind.get("type") in _PLAIN and "logicalType" not in kind:
            return _PLAIN[kind["type"]]
    raise SchemaError(
        f"{name}: {json.dumps(kind)} has no column here; a field can be {', '.join(_PLAIN)}, an array of one of these, "
        f"or of the logical types {', '.join(_LOGICAL)}"
    )
