"""A schema of Avro as a tree; a type that is only named is `Named`, whose definition is in `AvroSchema.names`. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from sordini.system.named_tuple import NamedTuple

PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})


class Name(NamedTuple):
    """A name and its namespace, which is empty where there is none."""

    name: str
    namespace: str

    @property
    def full(self) -> str:
        return f"{self.namespace}.{self.name}" if self.namespace else self.name

    def within(self, namespace: str) -> str:
        """As it is written inside a namespace; one that is called as a primitive is always written in full."""
        return self.name if self.namespace == namespace and self.name not in PRIMITIVES else self.full


@dataclass(slots=True, eq=False)
class Primitive:
    kind: str
    props: dict[str, Any]


@dataclass(slots=True, eq=False)
class Array:
    items: Node
    props: dict[str, Any]
    kind: str = "array"


@dataclass(slots=True, eq=False)
class Map:
    values: Node
    props: dict[str, Any]
    kind: str = "map"


@dataclass(slots=True, eq=False)
class Union:
    branches: list[Node]
    kind: str = "union"


@dataclass(slots=True, eq=False)
class Named:
    """A type that is defined elsewhere; `is_relative` where the text has no namespace."""

    name: Name
    is_relative: bool
    kind: str = "name"


@dataclass(slots=True, eq=False)
class Field:
    name: str
    schema: Node
    doc: str | None
    has_default: bool
    default: Any
    order: str
    aliases: list[str]
    props: dict[str, Any]


@dataclass(slots=True, eq=False)
class Definition:
    """A record, error, enum or fixed; `kind` is "record" for an error, too. `fields` are a record's, and so on."""

    kind: str
    name: Name
    doc: str | None
    aliases: list[Name]
    props: dict[str, Any]
    is_error: bool = False
    fields: list[Field] = field(default_factory=list)
    symbols: list[str] = field(default_factory=list)
    enum_default: str | None = None
    size: int = 0


Node = Primitive | Array | Map | Union | Named | Definition


class AvroSchema(NamedTuple):
    """The root, and all definitions by full name: `own` has the names of those that are not of references."""

    root: Node
    names: dict[str, Definition]
    own: list[str]

    def resolved(self, node: Node) -> Primitive | Array | Map | Union | Definition:
        return self.names[node.name.full] if isinstance(node, Named) else node
