"""Parts of changes, read from values behind a schema's id: of an envelope, of a plain record, and of a record's key.

    envelope   op, status, before, after, and what columns take of it, each by its own kind
    row        a plain record: `after` alone, the value itself
    key        a record with the key's fields, or a single value, which is the only key's

A key without a schema's id in front of it is read as JSON, or as the text that it is. Runs in Spark's Python workers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

from sordini.pipeline.changes.keys import Key
from sordini.pipeline.schemas.fields import Field, Schema, field_of
from sordini.pipeline.schemas.kinds import Kind, Plain
from sordini.pipeline.schemas.registered import Plan, RegisteredSchemas, record_of
from sordini.pipeline.schemas.registered_forms import Form
from sordini.pipeline.schemas.values.json_values import json_reader
from sordini.pipeline.schemas.values.misfit import Misfit, Reader, misfit
from sordini.pipeline.schemas.values.parsing import json_parser
from sordini.pipeline.schemas.values.plain_values import plain_reader
from sordini.pipeline.schemas.values.row_reader import Row, RowReader, Unreadable
from sordini.schemas.registered.wire import HEADER_BYTES, MAGIC

Made = TypeVar("Made")
_TEXTS: Final = (Field("op", "string"), Field("status", "string"))
_NONE: Final[Row] = (None, None)


class Parts(NamedTuple):
    """What was read of one value."""

    op: str | None = None
    status: str | None = None
    before: tuple[list[Any] | None, str | None] = _NONE
    """The values that fit, and the reason why others do not: a deletion needs the key alone."""
    after: Row = _NONE
    has_after: bool = False
    """Whether there is one, also if it does not fit."""
    taken: Sequence[Any] = ()
    """Of the columns that are taken from the envelope."""
    unreadable: str | None = None
    """Why nothing was read."""


ReadParts = Callable[[bytes], Parts]


def envelopes(registered: RegisteredSchemas, schema: Schema, taken: Sequence[tuple[str, Field]]) -> ReadParts:
    """Reads Debezium's envelopes of rows; `taken` are paths in them and the fields that they become."""
    columns = tuple(field_of(each.name, each.type, sources=(f"$.{path}",)) for path, each in taken)
    return _decoding(registered, _Envelopes(schema, columns), lambda reason: Parts(unreadable=reason))


def plain_rows(registered: RegisteredSchemas, schema: Schema) -> ReadParts:
    """Reads plain records."""
    read = registered.reader(schema)
    return lambda value: Parts(after=read(value), has_after=True)


def record_keys(registered: RegisteredSchemas, schema: Schema, keys: Sequence[Key]) -> Callable[[bytes], Row]:
    """Reads records' keys to the columns of the rows, as far as they have them."""
    names = tuple(key.name for key in keys)
    of_schema = _decoding(registered, _Keys(schema, names), lambda reason: (None, _of_key(reason)))
    of_text = _text_keys(schema, names)

    def read(key: bytes) -> Row:
        return of_schema(key) if len(key) >= HEADER_BYTES and key[0] == MAGIC else of_text(key)

    return read


def _decoding(
    registered: RegisteredSchemas, plan: Plan[Made], refused: Callable[[str], Made]
) -> Callable[[bytes], Made]:
    decode = registered.decoder(plan)

    def read(value: bytes) -> Made:
        try:
            return decode(value)
        except Unreadable as error:
            return refused(str(error))

    return read


@dataclass(frozen=True)
class _Envelopes:
    """The plan of envelopes."""

    schema: Schema
    taken: tuple[Field, ...]

    @property
    def kinds(self) -> Sequence[Kind]:
        return [field.type for field in (*self.schema.fields, *self.taken)]

    def reader(self, form: Form) -> Callable[[Any], Parts]:
        texts = form.rows(Schema("texts", _TEXTS))
        taken = _Taken(self.taken, form)
        before, after = (form.rows(self.schema, (name,)) for name in ("before", "after"))

        def read(value: Any) -> Parts:
            found = record_of(value)
            op, status = texts.fitting(found)
            return Parts(
                # A text that Protobuf does not have is empty.
                op=op or None,
                status=status or None,
                before=_former(before, found.get("before")),
                after=_part(after, found.get("after"), "after"),
                has_after=found.get("after") is not None,
                taken=taken.values(found),
            )

        return read


class _Taken:
    """Columns from an envelope, by their types, or as the numbers that texts are. What does not fit is null."""

    def __init__(self, fields: tuple[Field, ...], form: Form) -> None:
        self._typed = form.rows(Schema("taken", fields)) if fields else None
        self._texts = [RowReader(Schema("taken", (field,)), [_text_reader(field.type)]) for field in fields]

    def values(self, envelope: dict[str, Any]) -> list[Any]:
        if self._typed is None:
            return []
        found = self._typed.fitting(envelope)
        for number, value in enumerate(found):
            if value is None:
                [found[number]] = self._texts[number].fitting(envelope)
        return found


def _text_reader(kind: Kind) -> Reader:
    """Of texts alone, such as the system change numbers of Oracle's connector."""
    read = plain_reader(kind, numbers_as_text=True)

    def of_text(value: Any) -> Any:
        if type(value) is str:
            return read(value)
        raise misfit(kind)

    return of_text


def _former(rows: RowReader, found: Any) -> Row:
    """What `before` has that fits, also beside values that do not."""
    row, reason = _part(rows, found, "before")
    return (row if reason is None or type(found) is not dict else rows.fitting(found)), reason


def _part(rows: RowReader, found: Any, name: str) -> Row:
    if found is None:
        return _NONE
    return rows.row(found) if type(found) is dict else (None, f"{name} is not a struct")


@dataclass(frozen=True)
class _Keys:
    """The plan of records' keys."""

    schema: Schema
    names: tuple[str, ...]

    @property
    def kinds(self) -> Sequence[Kind]:
        return [field.type for field in self.schema.fields]

    def reader(self, form: Form) -> Callable[[Any], Row]:
        rows, single = form.rows(self.schema), _single(self.schema, self.names, form.single)
        return lambda value: rows.row(value) if type(value) is dict else single(value)


def _single(schema: Schema, names: tuple[str, ...], reader_of: Callable[[Kind], Reader]) -> Callable[[Any], Row]:
    """Reads a key that is a single value."""
    at = next((number for number, field in enumerate(schema.fields) if field.name == names[0]), None)
    readers = [reader_of(field.type) for field in schema.fields if field.name == names[0]]
    is_only = len(names) == 1

    def read(value: Any) -> Row:
        if value is None:
            return _NONE
        if not is_only or at is None:
            return None, _of_key(f"is a single value, and the table has the keys {', '.join(names)}")
        row: list[Any] = [None] * len(schema.fields)
        try:
            row[at] = readers[0](value)
        except Misfit as error:
            return None, str(error.within(names[0]))
        return row, None

    return read


def _text_keys(schema: Schema, names: tuple[str, ...]) -> Callable[[bytes], Row]:
    """Reads keys that no schema of a registry says anything of."""
    kinds = [field.type for field in schema.fields]
    parse = json_parser(kinds, objects_only=False)
    rows = RowReader(schema, [json_reader(kind) for kind in kinds])
    single = _single(schema, names, json_reader)
    of_text = any(field.type == Plain("string") for field in schema.fields if field.name == names[0])

    def read(key: bytes) -> Row:
        try:
            text = key.decode()
        except UnicodeDecodeError:
            return None, _of_key("is neither behind the id of a schema nor UTF-8")
        try:
            found = parse(key)
        except Unreadable:
            found = text
        if type(found) is not dict:
            # The digits of a text that is a number stay as they are.
            return single(text if of_text and type(found) is not str else found)
        inner = found.get("payload", found)
        return rows.row(inner) if type(inner) is dict else single(inner)

    return read


def _of_key(reason: str) -> str:
    joint = " " if reason.startswith(("was ", "is ")) else ": "
    return f"the record's key{joint}{reason}"
