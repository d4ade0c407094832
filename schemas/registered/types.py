"""What a registry knows of schemas: texts with references, what is parsed of them, levels of compatibility. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Protocol

from sordini.schemas.codecs import SchemaError
from sordini.system.named_tuple import NamedTuple


class InvalidSchema(SchemaError):
    """A schema that cannot be registered; the text says why and where."""


class SchemaType(StrEnum):
    """The kinds, by their names in the REST API (`schemaType`; AVRO where it is left out)."""

    AVRO = "AVRO"
    JSON = "JSON"
    PROTOBUF = "PROTOBUF"


class Reference(NamedTuple):
    """Another registered schema, and what it is called in the text: a type of Avro, a `$ref` or an import."""

    name: str
    subject: str
    version: int


class SchemaSource(NamedTuple):
    """A schema as it was written, and the schemas that it refers to.

    `resolved` has a source for the name of each reference, whose own `resolved` has those of its references.
    """

    type: SchemaType
    text: str
    references: tuple[Reference, ...]
    resolved: Mapping[str, SchemaSource]


class Roles(NamedTuple):
    """What messages call the two schemas of a comparison: `new` and `old`, or the reverse."""

    reader: str
    writer: str


class ParsedSchema(Protocol):
    """A valid schema."""

    @property
    def type(self) -> SchemaType: ...

    @property
    def source(self) -> SchemaSource: ...

    @property
    def canonical(self) -> str:
        """The text that is stored, returned and compared: without insignificant spaces."""
        ...

    @property
    def normalized(self) -> str:
        """The text with `normalize=true`: alike for schemas that differ in the order of what has none."""
        ...

    @property
    def names(self) -> Sequence[str]:
        """What it defines itself: named types of Avro, messages of Protobuf, the title of a JSON schema."""
        ...

    def unreadable(self, written: ParsedSchema, roles: Roles) -> list[str]:
        """Why data that was written with `written`, of the same kind, cannot be read with this one; empty: it can."""
        ...


class Level(StrEnum):
    """Which earlier schemas a new one is compared with, and in which direction, by the names in the REST API."""

    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"
