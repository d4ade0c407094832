"""The columns of registered schemas: of one, and of all versions of a subject.

No column is required: a record of one version may lack what another has.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from sordini.pipeline.schemas.avro import avro_names, read_avro
from sordini.pipeline.schemas.fields import Field, Schema, field_of
from sordini.pipeline.schemas.json_schema import json_names, read_json_schema
from sordini.pipeline.schemas.kinds import (
    Decimal,
    Enum,
    Kind,
    ListOf,
    MapOf,
    Plain,
    SchemaError,
    StructOf,
    column_of,
)
from sordini.pipeline.schemas.sources import is_name
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


def schema_of_versions(subject: str, versions: Sequence[SchemaSource], within: str = "") -> Schema:
    """The columns of all versions: those of the latest first. Raises SchemaError for a type without a column.

    `within` names the field that has the columns, such as `after` in an envelope; by default the value itself has them.
    """
    found: Schema | None = None
    for version in versions:
        new = schema_of_source(version, subject, within)
        found = new if found is None else replace(new, fields=_merged(found.fields, new.fields), name=new.name)
    if found is None:
        raise SchemaError(f"the subject {subject} has no versions")
    return found


def schema_of_source(source: SchemaSource, name: str, within: str = "") -> Schema:
    """The columns of one schema, or of the field `within` it; of Protobuf of its first message. Raises SchemaError."""
    try:
        parsed: Any = parse(source)
        match source.type:
            case SchemaType.AVRO:
                made = read_avro(parsed.resolved, name, within)
            case SchemaType.JSON:
                made = read_json_schema(source.text, name, within)
            case SchemaType.PROTOBUF:
                made = _of_message(parsed.message_class((0,))[0].DESCRIPTOR, within)
    except (SchemaFault, LookupError) as error:
        raise SchemaError(f"{name}: {error}") from None
    return replace(made, fields=optional(made.fields))


def is_envelope(source: SchemaSource) -> bool:
    """Whether the values of a schema are changes in Debezium's envelope."""
    return {"op", "after", "source"} <= names_within(source)


def names_within(source: SchemaSource, within: str = "") -> set[str]:
    """The names in values of a schema, or in the field `within` them; none if it has no fields."""
    try:
        parsed: Any = parse(source)
        match source.type:
            case SchemaType.AVRO:
                return avro_names(json.loads(parsed.resolved), within)
            case SchemaType.JSON:
                return json_names(source.text, (within,) if within else ())
            case SchemaType.PROTOBUF:
                descriptor = parsed.message_class((0,))[0].DESCRIPTOR
                inner = descriptor.fields_by_name.get(within)
                found = descriptor if not within else None if inner is None else inner.message_type
                return set() if found is None else {field.name for field in found.fields}
    except (SchemaFault, LookupError):
        return set()


def optional(fields: tuple[Field, ...]) -> tuple[Field, ...]:
    """The same fields, none of them required, at any depth; read from their names, and then from their aliases."""
    return tuple(
        field_of(field.name, _optional_kind(field.type), field.about, sources=_names(field)) for field in fields
    )


def _names(field: Field) -> tuple[str, ...]:
    """A field's own name and those that it had before; none if there is nothing but its own."""
    before = [source for source in field.sources if is_name(source) and source != field.name]
    return (field.name, *before) if before and field.sources[0] == field.name else ()


def without_times(schema: Schema, source: SchemaType) -> Schema:
    """The same for tables that have no type for a time of the day: the number that is written, or the text.

    `source` is the type of the registered schemas, of which only Avro has its times as numbers without a kind of them.
    """
    of_time = Plain("long" if source is SchemaType.AVRO else "string")
    fields = (
        field_of(field.name, _without_time(field.type, of_time), field.about, sources=field.sources)
        for field in schema.fields
    )
    return replace(schema, fields=tuple(fields))


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
            return Decimal(digits + scale, scale, new.is_unscaled) if digits + scale <= 38 else new
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
    names = {field.name.lower() for field in new}
    kept = []
    renamed: set[str] = set()
    for field in new:
        # A name that another field has now is none that this one had.
        had = [name for name in field.sources[1:] if name.lower() not in names]
        own = (field.name, *had)
        same = [one for one in old if one.name in own or one.name.lower() == field.name.lower()]
        kind, earlier = field.type, list(had)
        for one in same:
            kind = merged_kind(one.type, kind)
            earlier += [name for name in one.sources[1:] if name.lower() not in names and name not in earlier]
        renamed.update(had)
        kept.append(field_of(field.name, kind, field.about, sources=(field.name, *earlier) if earlier else ()))
    return (*kept, *(field for field in old if field.name.lower() not in names and field.name not in renamed))


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


def _without_time(kind: Kind, of_time: Plain) -> Kind:
    match kind:
        case Plain("time"):
            return of_time
        case Plain(name) if column_of(name) == "time":
            return Plain("long")
        case ListOf():
            return ListOf(_without_time(kind.items, of_time))
        case MapOf():
            return MapOf(_without_time(kind.values, of_time))
        case StructOf():
            return StructOf(
                tuple(
                    field_of(field.name, _without_time(field.type, of_time), field.about, sources=field.sources)
                    for field in kind.fields
                )
            )
        case _:
            return kind


def _of_message(descriptor: Any, within: str = "") -> Schema:
    if within:
        field = descriptor.fields_by_name.get(within)
        if field is None or field.message_type is None:
            raise SchemaError(f"{descriptor.name} has no message {within}, which would have the columns")
        descriptor = field.message_type
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
