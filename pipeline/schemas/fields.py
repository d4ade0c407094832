"""A schema: named fields, each of a kind, some of them required.

All other forms are derived from it. The kinds and their types elsewhere:

    kind          in Spark    in JSON                   in Avro
    string        string      text                      string
    int           int         a whole number            int
    long          bigint      a whole number            long
    double        double      a number                  double
    boolean       boolean     true, false               boolean
    date          date        text, 2026-11-22          int, logical type date
    timestamp     timestamp   text, ISO 8601            long, logical type timestamp-micros
    timestamp_ms  timestamp   ms since 1970, a number   long, logical type timestamp-millis
    binary        binary      text in base 64           bytes

Times without a zone are in UTC. A list of one of these is a kind, too: `list<string>`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sordini.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

SPARK_NAMES: Final = {
    "string": "string",
    "int": "int",
    "long": "bigint",
    "double": "double",
    "boolean": "boolean",
    "date": "date",
    "timestamp": "timestamp",
    "timestamp_ms": "timestamp",
    "binary": "binary",
}
"""Kind -> the name of its type in Spark's SQL."""

JSON_TYPES: Final[Mapping[str, Mapping[str, Any]]] = {
    "string": {"type": "string"},
    "int": {"type": "integer", "minimum": -(2**31), "maximum": 2**31 - 1},
    "long": {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1},
    "double": {"type": "number"},
    "boolean": {"type": "boolean"},
    "date": {"type": "string", "format": "date"},
    "timestamp": {"type": "string", "format": "date-time"},
    "timestamp_ms": {"type": "integer"},
    "binary": {"type": "string", "contentEncoding": "base64"},
}
"""Kind -> what JSON Schema (draft 2020-12) says of it."""

RECORD_COLUMNS: Final = ("topic", "partition", "offset", "timestamp")
"""Columns with a record's position, which every row has; a schema's fields have other names."""

_LIST = re.compile(r"list<(\w+)>")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class SchemaError(PipelineError):
    """An invalid schema; the text names the field and the reason."""


@dataclass(frozen=True)
class Field:
    """One field. `about` describes it in a sentence; with `is_required` a value without it is a dead letter."""

    name: str
    kind: str
    about: str = ""
    is_required: bool = False

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise SchemaError(f"{self.name!r} is no name of a field: letters, digits and _, no digit first")
        if self.name.lower() in RECORD_COLUMNS:
            raise SchemaError(f"a field cannot be called {self.name!r}: each row keeps its record's {self.name} there")
        if self.element not in SPARK_NAMES:
            raise SchemaError(f"{self.name}: {self.kind!r} is not one of {', '.join(SPARK_NAMES)}, or list<...> of one")

    @property
    def element(self) -> str:
        """The kind itself, or that of a list's elements."""
        found = _LIST.fullmatch(self.kind)
        return found[1] if found else self.kind

    @property
    def is_list(self) -> bool:
        return self.element != self.kind

    @property
    def spark_name(self) -> str:
        """The type's name in Spark's SQL."""
        name = SPARK_NAMES[self.element]
        return f"array<{name}>" if self.is_list else name


@dataclass(frozen=True)
class Schema:
    """Fields in order. `event_time` names the field with the time of the event, or is empty."""

    name: str
    fields: tuple[Field, ...]
    event_time: str = ""
    about: str = ""

    def __post_init__(self) -> None:
        names = [field.name.lower() for field in self.fields]
        for name in names:
            if names.count(name) > 1:
                raise SchemaError(f"{self.name}: two fields are called {name!r} (Spark does not tell capitals apart)")
        if not names:
            raise SchemaError(f"{self.name} has no fields")
        if self.event_time:
            kinds = {field.name: field.kind for field in self.fields}
            if kinds.get(self.event_time) not in {"timestamp", "timestamp_ms"}:
                raise SchemaError(f"{self.name}: event_time {self.event_time!r} is not a field that is a timestamp")

    def to_json_schema(self) -> dict[str, Any]:
        """JSON Schema, draft 2020-12. Further properties are allowed, as producers may have a newer schema."""
        return {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": self.name,
            **({"description": self.about} if self.about else {}),
            "type": "object",
            "properties": {field.name: _json_property(field) for field in self.fields},
            "required": [field.name for field in self.fields if field.is_required],
        }


def schema_of(name: str, fields: Mapping[str, str], event_time: str = "") -> Schema:
    """A schema as it stands in a job file: name -> kind, with `!` behind the kind where it is required.

    The default for `event_time` is a field of that name, if there is one. Raises SchemaError.
    """
    made = tuple(
        Field(field, kind.removesuffix("!").strip(), is_required=kind.endswith("!")) for field, kind in fields.items()
    )
    return Schema(name, made, event_time or ("event_time" if "event_time" in fields else ""))


def spark_type(field: Field) -> DataType:
    """The type of a field's column."""
    from pyspark.sql import types

    element: DataType = {
        "string": types.StringType(),
        "int": types.IntegerType(),
        "bigint": types.LongType(),
        "double": types.DoubleType(),
        "boolean": types.BooleanType(),
        "date": types.DateType(),
        "timestamp": types.TimestampType(),
        "binary": types.BinaryType(),
    }[SPARK_NAMES[field.element]]
    return types.ArrayType(element) if field.is_list else element


def _json_property(field: Field) -> dict[str, Any]:
    said = dict(JSON_TYPES[field.element])
    if field.is_list:
        said = {"type": "array", "items": said}
    if not field.is_required:
        said["type"] = [said["type"], "null"]
    return {**said, **({"description": field.about} if field.about else {})}
