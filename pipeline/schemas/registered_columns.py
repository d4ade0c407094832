"""The columns of registered schemas: of one, and of all versions of a subject.

No column is required: a record of one version may lack what another has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from sordini.pipeline.schemas.avro import read_avro
from sordini.pipeline.schemas.fields import Field, Schema, field_of
from sordini.pipeline.schemas.json_schema import read_json_schema
from sordini.pipeline.schemas.kinds import Decimal, Enum, Kind, ListOf, MapOf, Plain, SchemaError, StructOf
from sordini.schemas.codecs import SchemaError as SchemaFault
from sordini.schemas.registered.parsing import parse
from sordini.schemas.registered.types import SchemaSource, SchemaType

_WIDER: Final = {"int": ("long", "float", "double"), "long": ("float", "double"), "float": ("double",)}
_SCALARS: Final = {
    "TYPE_DOUBLE": "double",
    "TYPE_FLOAT": "float",
    "TYPE_INT64": "long",
    "TYPE_SINT64": "long",
    "TYPE_SFIXED64": "long",
    "TYPE_INT32": "int",
    "TYPE_SINT32": "int",
    "TYPE_SFIXED32": "int",
    "TYPE_UINT32": "long",
    "TYPE_FIXED32": "long",
    "TYPE_BOOL": "boolean",
    "TYPE_STRING": "string",
    "TYPE_BYTES": "binary",
}
"""Protobuf's types with one column; numbers of 64 bits without a sign are a decimal."""
_UNSIGNED: Final = Decimal(20, 0)
_WRAPPED: Final = {
    "google.protobuf.Timestamp": "timestamp",
    "google.protobuf.Duration": "string",
    "google.protobuf.FieldMask": "string",
    "google.protobuf.DoubleValue": "double",
    "google.protobuf.FloatValue": "float",
    "google.protobuf.Int64Value": "long",
    "google.protobuf.Int32Value": "int",
    "google.protobuf.UInt32Value": "long",
    "google.protobuf.BoolValue": "boolean",
    "google.protobuf.StringValue": "string",
    "google.protobuf.BytesValue": "binary",
    "google.protobuf.Struct": "string",
    "google.protobuf.Value": "string",
    "google.protobuf.ListValue": "string",
}
"""Messages whose JSON is one value, or any value, which is kept as its text."""


def schema_of_versions(subject: str, versions: Sequence[SchemaSource]) -> Schema:
    """The columns of all versions: those of the latest first. Raises SchemaError for a type without a column."""
    found: Schema | None = None
    for version in versions:
        new = schema_of_source(version, subject)
        found = new if found is None else replace(new, fields=_merged(found.fields, new.fields), name=new.name)
    if found is None:
        raise SchemaError(f"the subject {subject} has no versions")
    return found


def schema_of_source(source: SchemaSource, name: str) -> Schema:
    """The columns of one schema; of Protobuf those of its first message. Raises SchemaError."""
    try:
        parsed: Any = parse(source)
        match source.type:
            case SchemaType.AVRO:
                made = read_avro(parsed.resolved, name)
            case SchemaType.JSON:
                made = read_json_schema(source.text, name)
            case SchemaType.PROTOBUF:
                made = _of_message(parsed.message_class((0,))[0].DESCRIPTOR)
    except (SchemaFault, LookupError) as error:
        raise SchemaError(f"{name}: {error}") from None
    return replace(made, fields=optional(made.fields))


def optional(fields: tuple[Field, ...]) -> tuple[Field, ...]:
    """The same fields, none of them required, at any depth; read from their names."""
    return tuple(field_of(field.name, _optional_kind(field.type), field.about) for field in fields)


def merged_kind(old: Kind, new: Kind) -> Kind:
    """The kind that has the values of both; the new one if there is none."""
    match old, new:
        case Plain(first), Plain(second) if second in _WIDER.get(first, ()):
            return new
        case Plain(first), Plain(second) if first in _WIDER.get(second, ()):
            return old
        case Decimal(), Decimal():
            scale = max(old.scale, new.scale)
            digits = max(old.precision - old.scale, new.precision - new.scale)
            return Decimal(digits + scale, scale) if digits + scale <= 38 else new
        case Enum(first), Enum(second):
            return Enum(tuple(dict.fromkeys((*first, *second))))
        case ListOf(), ListOf():
            return ListOf(merged_kind(old.items, new.items))
        case MapOf(), MapOf():
            return MapOf(merged_kind(old.values, new.values))
        case StructOf(), StructOf():
            return StructOf(_merged(old.fields, new.fields))
        case _:
            return new


def _merged(old: tuple[Field, ...], new: tuple[Field, ...]) -> tuple[Field, ...]:
    before = {field.name.lower(): field for field in old}
    names = {field.name.lower() for field in new}
    kept = [
        field_of(field.name, merged_kind(before[field.name.lower()].type, field.type), field.about)
        if field.name.lower() in before
        else field
        for field in new
    ]
    return (*kept, *(field for field in old if field.name.lower() not in names))


def _optional_kind(kind: Kind) -> Kind:
    match kind:
        case ListOf():
            return ListOf(_optional_kind(kind.items))
        case MapOf():
            return MapOf(_optional_kind(kind.values))
        case StructOf():
            return StructOf(optional(kind.fields))
        case _:
            return kind


def _of_message(descriptor: Any) -> Schema:
    fields = _message_fields(descriptor, ())
    by_default = any(field.name == "event_time" and field.kind == "timestamp" for field in fields)
    return Schema(descriptor.name, fields, "event_time" if by_default else "")


def _message_fields(descriptor: Any, within: tuple[str, ...]) -> tuple[Field, ...]:
    if descriptor.full_name in within:
        raise SchemaError(f"the message {descriptor.full_name} is within itself, which has no column")
    inside = (*within, descriptor.full_name)
    return tuple(field_of(field.name, _protobuf_kind(field, inside)) for field in descriptor.fields)


def _protobuf_kind(field: Any, within: tuple[str, ...]) -> Kind:
    message = field.message_type
    if message is not None and message.GetOptions().map_entry:
        return MapOf(_one(message.fields_by_name["value"], within))
    return ListOf(_one(field, within)) if field.is_repeated else _one(field, within)


def _one(field: Any, within: tuple[str, ...]) -> Kind:
    if field.enum_type is not None:
        return Enum(tuple(value.name for value in field.enum_type.values))
    message = field.message_type
    if message is None:
        name = _type_name(field)
        return _UNSIGNED if name in {"TYPE_UINT64", "TYPE_FIXED64"} else Plain(_SCALARS[name])
    if message.full_name in _WRAPPED:
        return Plain(_WRAPPED[message.full_name])
    return StructOf(_message_fields(message, within))


def _type_name(field: Any) -> str:
    from google.protobuf import descriptor_pb2

    return str(descriptor_pb2.FieldDescriptorProto.Type.Name(field.type))
