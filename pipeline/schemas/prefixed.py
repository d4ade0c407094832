"""Avro behind a schema's id, as serializers of schema registries write it:

    byte 0      0
    bytes 1-4   the id of the schema that the value was written with, big-endian
    bytes 5-    the value in Avro's binary form

Runs in Spark's Python workers, one Arrow array of values at a time; values are read one by one, by fastavro.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from sordini.pipeline.schemas.avro import to_avro
from sordini.pipeline.schemas.fields import Field, Schema

if TYPE_CHECKING:
    import pyarrow as pa

REASON: Final = "_corrupt"
"""The last member of a decoded value: the reason why it could not be decoded, or null."""

_PREFIX: Final = struct.Struct(">bI")
_REASON_CHARACTERS_MAX: Final = 200


def reader_for(schema: Schema, writers: Mapping[int, str]) -> Callable[[pa.Array], pa.Array]:
    """A function from an array of values to an array of structs, to be sent to workers.

    `writers` is id -> Avro schema in JSON. A value that is null becomes a struct of nulls.
    """
    texts = dict(writers)

    def read(values: pa.Array) -> pa.Array:
        return _read_all(values, schema, texts)

    # Spark derives the kind of function from the annotations.
    import pyarrow as pa

    read.__annotations__ = {"values": pa.Array, "return": pa.Array}
    return read


def _read_all(values: pa.Array, schema: Schema, writers: Mapping[int, str]) -> pa.Array:
    import pyarrow as pa

    readers = {schema_id: _parsed(_lenient(schema, text)) for schema_id, text in writers.items()}
    events: list[dict[str, Any]] = []
    for value in values.to_pylist():
        event, reason = ({}, None) if value is None else _read_one(value, readers, writers)
        events.append({**event, REASON: reason})
    members = [pa.field(field.name, _arrow_type(field)) for field in schema.fields]
    return pa.array(events, pa.struct([*members, pa.field(REASON, pa.string())]))


def _read_one(
    value: bytes, readers: Mapping[int, Any], writers: Mapping[int, str]
) -> tuple[dict[str, Any], str | None]:
    import fastavro

    if len(value) < _PREFIX.size:
        return {}, "too short for the id of a schema"
    magic, schema_id = _PREFIX.unpack_from(value)
    if magic:
        return {}, f"begins with byte {magic & 0xFF}, not 0: there is no schema id"
    if schema_id not in writers:
        return {}, f"was written with schema {schema_id}, which the job does not name"
    body = io.BytesIO(value)
    body.seek(_PREFIX.size)
    try:
        event: Any = fastavro.schemaless_reader(body, _parsed(writers[schema_id]), readers[schema_id])
    except Exception as error:  # noqa: BLE001 - fastavro raises any error for invalid bytes: it is the reason.
        return {}, f"not Avro of schema {schema_id}: {type(error).__name__} {error}".strip()[:_REASON_CHARACTERS_MAX]
    left = len(value) - body.tell()
    return (event, None) if not left else ({}, f"has {left} bytes after the end of schema {schema_id}")


@cache
def _parsed(text: str) -> Any:
    import fastavro

    return fastavro.parse_schema(json.loads(text))


def _lenient(schema: Schema, writer: str) -> str:
    """The schema as a reader's, with every field nullable: a field that the writer lacks is null, not an error.

    The record has the writer's name: Avro would refuse another one.
    """
    record = to_avro(schema)
    fields = [
        field if isinstance(field["type"], list) else {**field, "type": ["null", field["type"]], "default": None}
        for field in record["fields"]
    ]
    written = json.loads(writer)
    named = {name: written[name] for name in ("name", "namespace") if name in written}
    return json.dumps({"type": "record", **named, "fields": fields})


def _arrow_type(field: Field) -> pa.DataType:
    import pyarrow as pa

    element = {
        "string": pa.string(),
        "int": pa.int32(),
        "long": pa.int64(),
        "double": pa.float64(),
        "boolean": pa.bool_(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "timestamp_ms": pa.timestamp("us", tz="UTC"),
        "binary": pa.binary(),
    }[field.element]
    return pa.list_(element) if field.is_list else element
