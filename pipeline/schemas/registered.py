"""Values behind a schema's id, as serializers of schema registries write them:

    byte 0      0
    bytes 1-4   the id of the schema that the value was written with, big-endian
    bytes 5-    Avro in its binary form, a JSON object, or the indexes of a Protobuf message and the message

Each value is read by the schema it was written with, and its fields go to the columns by their names. The schemas come
from the job file (Avro), or from a registry. Runs in Spark's Python workers, where a process keeps what it has made of
each schema for all later batches. What is made of a value is a plan's: rows here, envelopes and keys of changes in
`changes/registered_parts.py`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Generic, Protocol, TypeVar

from sordini.pipeline.errors import PipelineError
from sordini.pipeline.schemas.fields import Schema
from sordini.pipeline.schemas.kept_schemas import Kept, KeptSchemas, UnknownId
from sordini.pipeline.schemas.kinds import Kind
from sordini.pipeline.schemas.registered_forms import Form, form_of
from sordini.pipeline.schemas.registry_settings import RegistrySettings
from sordini.pipeline.schemas.values.row_reader import ReadOne, Row, Unreadable, shortened
from sordini.schemas.codecs import MissingLibrary, SchemaError, ValueRefused
from sordini.schemas.registered.types import SchemaSource, SchemaType
from sordini.schemas.registered.wire import read_indexes

Made = TypeVar("Made")
Made_co = TypeVar("Made_co", covariant=True)
_PREFIX: Final = struct.Struct(">bI")
READERS_MAX: Final = 1000
"""Schemas, and messages of them, of which a process keeps readers; beyond it, they are made again."""
_DECODERS: Final = 32
_FIRST_MESSAGE: Final[tuple[int, ...]] = (0,)


class Plan(Protocol[Made_co]):
    """What is made of values; hashable, as a process keeps one decoder for each."""

    def __hash__(self) -> int: ...

    @property
    def kinds(self) -> Sequence[Kind]:
        """Those of all columns."""
        ...

    def reader(self, form: Form) -> Callable[[Any], Made_co]:
        """How a parsed value of one schema is read. The reader raises Unreadable."""
        ...


@dataclass(frozen=True)
class RegisteredSchemas:
    """Where schemas come from: the job file, or a registry with the place where they are kept."""

    named: tuple[tuple[int, str], ...] = ()
    """Ids, and Avro as JSON text."""
    registry: RegistrySettings | None = None
    kept: Callable[[], Kept] | None = None

    def reader(self, schema: Schema) -> ReadOne:
        """From the bytes of a value to the schema's columns; this process has one for each schema."""
        decode = self.decoder(_Rows(schema))

        def read(value: bytes) -> Row:
            try:
                return decode(value)
            except Unreadable as error:
                return None, str(error)

        return read

    def decoder(self, plan: Plan[Made]) -> Callable[[bytes], Made]:
        """From the bytes of a value to what a plan makes of it. Raises Unreadable, whose text is the reason."""
        return _decoder(self, plan).read


@dataclass(frozen=True)
class _Rows:
    """Rows of one schema."""

    schema: Schema

    @property
    def kinds(self) -> Sequence[Kind]:
        return [field.type for field in self.schema.fields]

    def reader(self, form: Form) -> Callable[[Any], Row]:
        rows = form.rows(self.schema)
        return lambda value: rows.row(record_of(value))


def record_of(value: Any) -> dict[str, Any]:
    """A value with fields. Raises Unreadable for another one."""
    if type(value) is not dict:
        raise Unreadable("not a record, so it has no fields")
    return value


class _Decoder(Generic[Made]):
    """All schemas of one job, and what a plan makes of their values."""

    def __init__(self, registered: RegisteredSchemas, plan: Plan[Made]) -> None:
        self._plan = plan
        self._named = {number: SchemaSource(SchemaType.AVRO, text, (), {}) for number, text in registered.named}
        self._schemas: KeptSchemas | None = None
        if registered.registry is not None:
            assert registered.kept is not None, "a registry's schemas are kept"
            self._schemas = KeptSchemas(registered.registry, registered.kept())
        self._readers: dict[tuple[int, tuple[int, ...]], Callable[[bytes], Made] | str] = {}
        """The reason where a schema cannot be read at all."""

    def read(self, value: bytes) -> Made:
        """Raises Unreadable."""
        if len(value) < _PREFIX.size:
            raise Unreadable("too short for the id of a schema")
        magic, schema_id = _PREFIX.unpack_from(value)
        if magic:
            raise Unreadable(f"begins with byte {magic & 0xFF}, not 0: there is no schema id")
        try:
            source = self._source(schema_id)
            indexes, start = _FIRST_MESSAGE, _PREFIX.size
            if source.type is SchemaType.PROTOBUF:
                indexes, start = read_indexes(value, start)
            return self._reader(schema_id, source, indexes)(value[start:])
        except UnknownId:
            which = "the job does not name" if self._schemas is None else "the registry does not have"
            raise Unreadable(f"was written with schema {schema_id}, which {which}") from None
        except ValueRefused as error:
            raise Unreadable(shortened(f"not of schema {schema_id}: {error}")) from None
        except Unreadable as error:
            raise Unreadable(shortened(f"{error} (schema {schema_id})")) from None

    def _source(self, schema_id: int) -> SchemaSource:
        if self._schemas is not None:
            try:
                return self._schemas.source_of(schema_id)
            except SchemaError as error:
                raise Unreadable(f"its schema is refused: {error}") from None
        if schema_id not in self._named:
            raise UnknownId(schema_id)
        return self._named[schema_id]

    def _reader(self, schema_id: int, source: SchemaSource, indexes: tuple[int, ...]) -> Callable[[bytes], Made]:
        key = schema_id, indexes
        if key not in self._readers:
            if len(self._readers) >= READERS_MAX:
                self._readers.clear()
            try:
                form = form_of(source, indexes, self._plan.kinds)
                self._readers[key] = _after(form.parse, self._plan.reader(form))
            except MissingLibrary as error:
                raise PipelineError(str(error)) from None
            except SchemaError as error:
                self._readers[key] = f"its schema cannot be used: {error}"
        found = self._readers[key]
        if isinstance(found, str):
            raise Unreadable(found)
        return found


def _after(parse: Callable[[bytes], Any], read: Callable[[Any], Made]) -> Callable[[bytes], Made]:
    return lambda data: read(parse(data))


@lru_cache(maxsize=_DECODERS)
def _decoder(registered: RegisteredSchemas, plan: Plan[Any]) -> _Decoder[Any]:
    return _Decoder(registered, plan)
