"""A schema: named fields, each of a kind, some of them required.

All other forms are derived from it. The kinds and their types elsewhere:

    kind           in Spark         in JSON                   in Avro
    string         string           text                      string
    int            int              a whole number            int
    long           bigint           a whole number            long
    float          float            a number                  float
    double         double           a number                  double
    boolean        boolean          true, false               boolean
    date           date             text, 2026-11-22          int, logical type date
    time           time             text, 08:00:00.25         long, logical type time-micros
    timestamp      timestamp        text, ISO 8601            long, logical type timestamp-micros
    timestamp_ntz  timestamp_ntz    text without a zone       long, logical type local-timestamp-micros
    date_days      date             days since 1970           int, logical type date
    time_ms        time             ms since midnight         int, logical type time-millis
    time_us        time             µs since midnight         long, logical type time-micros
    time_ns        time             ns since midnight         long
    timestamp_ms   timestamp        ms since 1970, a number   long, logical type timestamp-millis
    timestamp_us   timestamp        µs since 1970, a number   long, logical type timestamp-micros
    timestamp_ns   timestamp        ns since 1970, a number   long, logical type timestamp-nanos
    uuid           string           text                      string, logical type uuid
    binary         binary           text in base 64           bytes
    decimal(p,s)   decimal(p,s)     a number, or text         bytes, logical type decimal
    decimal_base64(p,s)  the same   text in base 64           bytes, logical type decimal
    enum(A,B)      string           text                      enum
    list<...>      array<...>       an array                  array
    map<string,..> map<string,...>  an object                 map
    struct<...>    struct<...>      an object                 record

A `timestamp` whose text has no zone is in UTC. A field may be read from other places of a value than its own name:
`sources.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from sordini.pipeline.schemas.kinds import Kind, ListOf, SchemaError, check_names, is_moment, kind_of, text_of
from sordini.pipeline.schemas.sources import source_of

__all__ = ["RECORD", "Field", "RecordColumns", "Schema", "SchemaError", "field_of", "schema_of"]

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class RecordColumns(NamedTuple):
    """The columns with a record's position and time, which every row has; a schema's fields have other names."""

    topic: str = "topic"
    partition: str = "partition"
    offset: str = "offset"
    timestamp: str = "timestamp"

    @classmethod
    def prefixed(cls, prefix: str) -> RecordColumns:
        """All with one prefix, for schemas with such fields of their own."""
        return cls(*(f"{prefix}{name}" for name in cls()))

    @property
    def identity(self) -> tuple[str, str, str]:
        """Those that identify a record."""
        return self[:3]


RECORD: Final = RecordColumns()
"""The columns of a source, and of dead letters."""


@dataclass(frozen=True)
class Field:
    """One field. `about` describes it in a sentence; with `is_required` a value without it is a dead letter."""

    name: str
    kind: str
    """The text of its kind."""
    about: str = ""
    is_required: bool = False
    sources: tuple[str, ...] = ()
    """Where in a value it is, the first that is there; by default under its name."""
    given: Kind | None = None
    """The kind itself, if its text does not say all of it."""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise SchemaError(f"{self.name!r} is no name of a field: letters, digits and _, no digit first")
        try:
            kind = kind_of(self.kind) if self.given is None else self.given
        except SchemaError as error:
            raise SchemaError(f"{self.name}: {error}") from None
        object.__setattr__(self, "given", kind)
        object.__setattr__(self, "kind", text_of(kind))
        try:
            for source in self.sources:
                source_of(source)
        except SchemaError as error:
            raise SchemaError(f"{self.name}: {error}") from None

    @property
    def type(self) -> Kind:
        """The kind."""
        assert self.given is not None, "set above"
        return self.given

    @property
    def element(self) -> Kind:
        """The kind itself, or that of a list's elements."""
        return self.type.items if isinstance(self.type, ListOf) else self.type

    @property
    def is_list(self) -> bool:
        return isinstance(self.type, ListOf)


def field_of(
    name: str, kind: Kind, about: str = "", *, is_required: bool = False, sources: tuple[str, ...] = ()
) -> Field:
    """A field of a kind that is at hand. Raises SchemaError."""
    return Field(name, text_of(kind), about, is_required, sources, kind)


@dataclass(frozen=True)
class Schema:
    """Fields in order. `event_time` names the field with the time of the event, or is empty."""

    name: str
    fields: tuple[Field, ...]
    event_time: str = ""
    about: str = ""

    def __post_init__(self) -> None:
        check_names(self.fields, self.name)
        if self.event_time:
            kinds = {field.name: field.type for field in self.fields}
            kind = kinds.get(self.event_time)
            if kind is None or not is_moment(kind):
                raise SchemaError(f"{self.name}: event_time {self.event_time!r} is not a field that is a timestamp")

    def check_record_columns(self, record: RecordColumns) -> None:
        """That no field has the name of a column of the record. Raises SchemaError."""
        for field in self.fields:
            if field.name.lower() in record:
                raise SchemaError(
                    f"a field cannot be called {field.name!r}: each row keeps its record's {field.name} there; "
                    "decode.record_prefix gives the record's columns other names"
                )


def schema_of(name: str, fields: Mapping[str, str], event_time: str = "") -> Schema:
    """A schema of texts: name -> kind, with `!` behind the kind where it is required.

    The default for `event_time` is a field of that name, if there is one. Raises SchemaError.
    """
    made = tuple(
        Field(field, kind.removesuffix("!").strip(), is_required=kind.endswith("!")) for field, kind in fields.items()
    )
    return Schema(name, made, event_time or ("event_time" if "event_time" in fields else ""))
