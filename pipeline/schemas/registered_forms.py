"""How values of one registered schema are read: they are parsed, and fields of records go to columns by their names.

Avro is read by the schema that it was written with. Values of JSON Schema are not validated by it: the columns say what
fits, and the schema says what numbers and texts mean that are times or decimals (`connect_names.py`). Protobuf is read
as its own mapping to JSON has it, with the names of the .proto file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from sordini.pipeline.schemas.fields import Schema
from sordini.pipeline.schemas.json_schema import written_kinds
from sordini.pipeline.schemas.kinds import Kind
from sordini.pipeline.schemas.values.avro_values import avro_reader, avro_reader_at, type_at
from sordini.pipeline.schemas.values.json_values import json_reader, json_reader_of
from sordini.pipeline.schemas.values.misfit import Reader, never
from sordini.pipeline.schemas.values.parsing import json_parser
from sordini.pipeline.schemas.values.row_reader import RowReader
from sordini.schemas.registered.parsing import parse
from sordini.schemas.registered.types import SchemaSource, SchemaType


class _Rows(Protocol):
    def __call__(self, schema: Schema, within: tuple[str, ...] = ()) -> RowReader:
        """The reader of records with these columns, which are `within` a value: the value itself, or a field of it."""
        ...


class Form(NamedTuple):
    """One schema."""

    parse: Callable[[bytes], Any]
    """A value, from the bytes behind the schema's id. Raises ValueRefused, Unreadable."""
    rows: _Rows
    single: Callable[[Kind], Reader]
    """The reader of values that are no records, for a column of a kind."""


def form_of(source: SchemaSource, indexes: tuple[int, ...], kinds: Sequence[Kind]) -> Form:
    """How values of a schema are read for columns of these kinds. Raises SchemaError, MissingLibrary."""
    if source.type is SchemaType.JSON:
        return _json_form(source, kinds)
    if source.type is SchemaType.AVRO:
        return _avro_form(source)
    from sordini.schemas.registered.registered_codecs import codec_of

    codec: Any = codec_of(source, indexes)

    def rows(schema: Schema, within: tuple[str, ...] = ()) -> RowReader:  # noqa: ARG001 - As wherever it is.
        return RowReader(schema, [json_reader(field.type, numbers_as_text=True) for field in schema.fields])

    return Form(codec.decode_with_defaults, rows, lambda kind: json_reader(kind, numbers_as_text=True))


def _json_form(source: SchemaSource, kinds: Sequence[Kind]) -> Form:
    def rows(schema: Schema, within: tuple[str, ...] = ()) -> RowReader:
        written = written_kinds(source.text, within)
        readers = [json_reader_of(field, written) for field in schema.fields]
        return RowReader(schema, readers)

    return Form(json_parser(kinds, objects_only=False), rows, json_reader)


def _avro_form(source: SchemaSource) -> Form:
    from sordini.schemas.avro import BareAvro
    from sordini.schemas.registered.avro.parsed import ParsedAvro

    if source.references:
        parsed = parse(source)
        assert isinstance(parsed, ParsedAvro)
        bare = BareAvro(json.loads(parsed.resolved))
    else:
        bare = BareAvro(json.loads(source.text))

    def rows(schema: Schema, within: tuple[str, ...] = ()) -> RowReader:
        written = type_at(bare.schema, within, bare.named)
        if written is None:
            return RowReader(schema, [never(field.type) for field in schema.fields])
        readers = [avro_reader_at(written, field.name, field, bare.named) for field in schema.fields]
        return RowReader(schema, readers)

    return Form(bare.read, rows, lambda kind: avro_reader(bare.schema, kind, bare.named))
