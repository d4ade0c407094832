"""Codecs of registered schemas: of one schema without a header, and of all that a registry knows, by the header."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final

from sordini.schemas.codecs import CheckingCodec, Json
from sordini.schemas.registered.parsing import parse
from sordini.schemas.registered.types import InvalidSchema, ParsedSchema, SchemaSource, SchemaType
from sordini.schemas.registered.wire import read_header, read_indexes, write_header, write_indexes
from sordini.system.named_tuple import NamedTuple

CODECS_MAX: Final = 1_000
"""Codecs that are kept, by schema and message; beyond it the first is made again when it is needed."""
_FIRST_MESSAGE: Final[tuple[int, ...]] = (0,)


def codec_of(source: SchemaSource, message_index: Sequence[int] = _FIRST_MESSAGE) -> CheckingCodec:
    """A schema with its references; `message_index` leads to the message of Protobuf, the first of the file.

    Raises InvalidSchema, and MissingLibrary.
    """
    return codec_of_parsed(parse(source), message_index)


def codec_of_parsed(schema: ParsedSchema, message_index: Sequence[int] = _FIRST_MESSAGE) -> CheckingCodec:
    """As `codec_of`, of a schema that was parsed before."""
    if schema.type is SchemaType.AVRO:
        from sordini.schemas.avro import avro_codec
        from sordini.schemas.registered.avro.parsed import ParsedAvro

        assert isinstance(schema, ParsedAvro)
        return avro_codec(json.loads(schema.resolved))
    if schema.type is SchemaType.JSON:
        from sordini.schemas.json_schema import JsonSchemaCodec
        from sordini.schemas.registered.json.parsed import ParsedJsonSchema

        assert isinstance(schema, ParsedJsonSchema)
        return JsonSchemaCodec(schema.validator)
    from sordini.schemas.protobuf import ProtobufCodec
    from sordini.schemas.registered.protobuf.parsed import ParsedProtobuf

    assert isinstance(schema, ParsedProtobuf)
    try:
        return ProtobufCodec(*schema.message_class(message_index))
    except LookupError as error:
        raise InvalidSchema(str(error.args[0])) from None


def message_index(source: SchemaSource, wanted: str | None, where: str) -> tuple[int, ...]:
    """The way to a message by its full or last name, None being the only one; of other kinds than Protobuf the first.

    `where` is what errors call the schema. Raises SchemaError.
    """
    if source.type is not SchemaType.PROTOBUF:
        return _FIRST_MESSAGE
    schema = parse(source)
    from sordini.schemas.protobuf import chosen_message
    from sordini.schemas.registered.protobuf.parsed import ParsedProtobuf

    assert isinstance(schema, ParsedProtobuf)
    indexes = schema.message_indexes()
    return indexes[chosen_message(where, list(indexes), wanted)]


class FoundCodec(NamedTuple):
    """How to read some bytes: by the schema of this id, from `start` on."""

    schema_id: int
    codec: CheckingCodec
    start: int


class RegisteredCodecs:
    """Values with the header of a registry.

    `source_of` finds the schema of an id; what it raises passes. It is called once for each schema that is kept. With
    `checks_json` false, values of JSON Schema are read as JSON and not checked: no pattern of a schema is run on them.
    """

    def __init__(self, source_of: Callable[[int], SchemaSource], *, checks_json: bool = True) -> None:
        self._source_of = source_of
        self._checks_json = checks_json
        self._sources: dict[int, SchemaSource] = {}
        self._codecs: dict[tuple[int, tuple[int, ...]], CheckingCodec] = {}

    def decode(self, data: bytes) -> tuple[int, Json]:
        """The id of the schema, and the value. Raises ValueRefused for the bytes, InvalidSchema for the schema."""
        found = self.find(data)
        return found.schema_id, found.codec.decode(data[found.start :])

    def find(self, data: bytes) -> FoundCodec:
        """The codec of some bytes, which is made where it is not kept. Raises as `decode`."""
        schema_id, start = read_header(data)
        indexes = _FIRST_MESSAGE
        if self._source(schema_id).type is SchemaType.PROTOBUF:
            indexes, start = read_indexes(data, start)
        return FoundCodec(schema_id, self._codec(schema_id, indexes), start)

    def find_kept(self, data: bytes) -> FoundCodec | None:
        """As `find`; None where the codec is not kept, and would have to be made."""
        schema_id, start = read_header(data)
        source, indexes = self._sources.get(schema_id), _FIRST_MESSAGE
        if source is None:
            return None
        if source.type is SchemaType.PROTOBUF:
            indexes, start = read_indexes(data, start)
        codec = self._codecs.get((schema_id, indexes))
        return None if codec is None else FoundCodec(schema_id, codec, start)

    def encode(self, schema_id: int, value: Json, message_index: Sequence[int] = _FIRST_MESSAGE) -> bytes:
        """The reverse of `decode`. Raises ValueRefused for the value, InvalidSchema for the schema."""
        indexes = tuple(message_index)
        is_protobuf = self._source(schema_id).type is SchemaType.PROTOBUF
        header = write_header(schema_id) + (write_indexes(indexes) if is_protobuf else b"")
        return header + self._codec(schema_id, indexes).encode(value)

    def prepare(self, schema_id: int, message_index: Sequence[int] = _FIRST_MESSAGE) -> None:
        """Find a schema before its first value. Raises InvalidSchema."""
        self._codec(schema_id, tuple(message_index))

    def _source(self, schema_id: int) -> SchemaSource:
        if schema_id not in self._sources:
            _make_room(self._sources)
            self._sources[schema_id] = self._source_of(schema_id)
        return self._sources[schema_id]

    def _codec(self, schema_id: int, indexes: tuple[int, ...]) -> CheckingCodec:
        key = schema_id, indexes
        if key not in self._codecs:
            source = self._source(schema_id)
            is_plain = source.type is SchemaType.JSON and not self._checks_json
            made = _plain_json() if is_plain else codec_of(source, indexes)
            _make_room(self._codecs)
            self._codecs[key] = made
        return self._codecs[key]


def _plain_json() -> CheckingCodec:
    from sordini.schemas.json_schema import JsonCodec

    return JsonCodec()


def _make_room(kept: dict[Any, Any]) -> None:
    if len(kept) >= CODECS_MAX:
        del kept[next(iter(kept))]
