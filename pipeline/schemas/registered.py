"""Values behind a schema's id, as serializers of schema registries write them:

    byte 0      0
    bytes 1-4   the id of the schema that the value was written with, big-endian
    bytes 5-    Avro in its binary form, a JSON object, or the indexes of a Protobuf message and the message

Each value is read by the schema it was written with, and its fields go to the columns by their names. The schemas come
from the job file (Avro), or from a registry. Runs in Spark's Python workers, where a process keeps what it has made of
each schema for all later batches.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple

from sordini.pipeline.errors import PipelineError
from sordini.pipeline.schemas.fields import Schema
from sordini.pipeline.schemas.kept_schemas import Kept, KeptSchemas, UnknownId
from sordini.pipeline.schemas.registry_settings import RegistrySettings
from sordini.pipeline.schemas.values.avro_values import avro_reader_at
from sordini.pipeline.schemas.values.json_values import json_reader
from sordini.pipeline.schemas.values.parsing import json_parser
from sordini.pipeline.schemas.values.row_reader import ReadOne, RowReader, Unreadable, shortened
from sordini.schemas.codecs import MissingLibrary, SchemaError, ValueRefused
from sordini.schemas.registered.parsing import parse
from sordini.schemas.registered.types import SchemaSource, SchemaType
from sordini.schemas.registered.wire import read_indexes

_PREFIX: Final = struct.Struct(">bI")
READERS_MAX: Final = 1000
"""Schemas, and messages of them, of which a process keeps readers; beyond it, they are made again."""
_DECODERS: Final = 32
_FIRST_MESSAGE: Final[tuple[int, ...]] = (0,)


@dataclass(frozen=True)
class RegisteredSchemas:
    """Where schemas come from: the job file, or a registry with the place where they are kept."""

    named: tuple[tuple[int, str], ...] = ()
    """Ids, and Avro as JSON text."""
    registry: RegistrySettings | None = None
    kept: Callable[[], Kept] | None = None

    def reader(self, schema: Schema) -> ReadOne:
        """From the bytes of a value to the schema's columns; this process has one for each schema."""
        return _decoder(self, schema).row


class _Form(NamedTuple):
    """How values of one registered schema are read."""

    parse: Callable[[bytes], dict[str, Any]]
    rows: RowReader


class _Decoder:
    """All schemas of one job."""

    def __init__(self, registered: RegisteredSchemas, schema: Schema) -> None:
        self._schema = schema
        self._named = {number: SchemaSource(SchemaType.AVRO, text, (), {}) for number, text in registered.named}
        self._schemas: KeptSchemas | None = None
        if registered.registry is not None:
            assert registered.kept is not None, "a registry's schemas are kept"
            self._schemas = KeptSchemas(registered.registry, registered.kept())
        self._forms: dict[tuple[int, tuple[int, ...]], _Form | str] = {}
        """The reason where a schema cannot be read at all."""

    def row(self, value: bytes) -> tuple[list[Any] | None, str | None]:
        if len(value) < _PREFIX.size:
            return None, "too short for the id of a schema"
        magic, schema_id = _PREFIX.unpack_from(value)
        if magic:
            return None, f"begins with byte {magic & 0xFF}, not 0: there is no schema id"
        try:
            source = self._source(schema_id)
            indexes, start = _FIRST_MESSAGE, _PREFIX.size
            if source.type is SchemaType.PROTOBUF:
                indexes, start = read_indexes(value, start)
            form = self._form(schema_id, source, indexes)
            return form.rows.row(form.parse(value[start:]))
        except UnknownId:
            who = "the job" if self._schemas is None else "the registry"
            return None, f"was written with schema {schema_id}, which {who} does not {_verb(self._schemas)}"
        except ValueRefused as error:
            return None, shortened(f"not of schema {schema_id}: {error}")
        except Unreadable as error:
            return None, shortened(f"{error} (schema {schema_id})")

    def _source(self, schema_id: int) -> SchemaSource:
        if self._schemas is not None:
            try:
                return self._schemas.source_of(schema_id)
            except SchemaError as error:
                raise Unreadable(f"its schema is refused: {error}") from None
        if schema_id not in self._named:
            raise UnknownId(schema_id)
        return self._named[schema_id]

    def _form(self, schema_id: int, source: SchemaSource, indexes: tuple[int, ...]) -> _Form:
        key = schema_id, indexes
        if key not in self._forms:
            if len(self._forms) >= READERS_MAX:
                self._forms.clear()
            try:
                self._forms[key] = form_of(source, indexes, self._schema)
            except MissingLibrary as error:
                raise PipelineError(str(error)) from None
            except SchemaError as error:
                self._forms[key] = f"its schema cannot be used: {error}"
        found = self._forms[key]
        if isinstance(found, str):
            raise Unreadable(found)
        return found


def form_of(source: SchemaSource, indexes: tuple[int, ...], schema: Schema) -> _Form:
    """How values of a registered schema become rows. Raises SchemaError."""
    if source.type is SchemaType.JSON:  # The value is not checked by its schema, but by the columns.
        kinds = [field.type for field in schema.fields]
        return _Form(json_parser(kinds), RowReader(schema, [json_reader(kind) for kind in kinds]))
    if source.type is SchemaType.AVRO:
        return _avro_form(source, schema)
    from sordini.schemas.registered.registered_codecs import codec_of

    codec: Any = codec_of(source, indexes)
    readers = [json_reader(field.type, numbers_as_text=True) for field in schema.fields]
    return _Form(lambda data: _object(codec.decode_with_defaults(data)), RowReader(schema, readers))


def _avro_form(source: SchemaSource, schema: Schema) -> _Form:
    from sordini.schemas.avro import BareAvro
    from sordini.schemas.registered.avro.parsed import ParsedAvro

    if source.references:
        parsed = parse(source)
        assert isinstance(parsed, ParsedAvro)
        bare = BareAvro(json.loads(parsed.resolved))
    else:
        bare = BareAvro(json.loads(source.text))
    written = bare.schema
    if not isinstance(written, dict) or written.get("type") != "record":
        return _Form(lambda data: _object(bare.read(data)), RowReader(schema, [_unused for _ in schema.fields]))
    readers = [avro_reader_at(written, field.name, field, bare.named) for field in schema.fields]
    return _Form(lambda data: _object(bare.read(data)), RowReader(schema, readers))


def _object(value: Any) -> dict[str, Any]:
    if type(value) is not dict:
        raise Unreadable("not a record, so it has no fields")
    return value


def _unused(value: Any) -> Any:
    raise AssertionError(value)


def _verb(schemas: KeptSchemas | None) -> str:
    return "name" if schemas is None else "have"


@lru_cache(maxsize=_DECODERS)
def _decoder(registered: RegisteredSchemas, schema: Schema) -> _Decoder:
    return _Decoder(registered, schema)
