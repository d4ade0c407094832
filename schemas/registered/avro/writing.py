"""A schema as text: the form of Avro for Java (`Schema.toString`), and that of `normalize=true`. Pure.

Canonical is not the Parsing Canonical Form: documentation, defaults, aliases and properties stay. Members are in the
order in which Avro for Java 1.12 writes them, and a type is written where it is first used, then named. Types of
references are named only.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sordini.schemas.registered.avro.model import (
    Array,
    AvroSchema,
    Definition,
    Field,
    Map,
    Named,
    Node,
    Primitive,
    Union,
)
from sordini.schemas.registered.json_text import check_bounds, write_json
from sordini.schemas.registered.types import InvalidSchema


def canonical_avro(schema: AvroSchema) -> str:
    referenced = set(schema.names) - set(schema.own)
    return _text(_Writer(schema, referenced))


def resolved_avro(schema: AvroSchema) -> str:
    """With the types of references in it, as `format=resolved` returns it, and codecs need it.

    Raises InvalidSchema where that is too deep.
    """
    return _text(_Writer(schema, ()))


def normalized_avro(schema: AvroSchema) -> str:
    """Properties, and aliases, in the order of their names; an empty `doc` of a type is left out."""
    referenced = set(schema.names) - set(schema.own)
    return _text(_Normalizer(schema, referenced))


def _text(writer: _Writer) -> str:
    """Types that are used before they are defined are written inside each other, and so may be too deep."""
    try:
        value = writer.root()
    except RecursionError:
        raise InvalidSchema("types inside each other, too deep") from None
    check_bounds(value)
    return write_json(value)


class _Writer:
    """Writes one schema; `known` are the names that need no definition any more."""

    def __init__(self, schema: AvroSchema, known: Iterable[str]) -> None:
        self._schema = schema
        self._known = set(known)

    def root(self) -> Any:
        return self.written(self._schema.root, "")

    def written(self, node: Node, namespace: str) -> Any:
        if isinstance(node, Union):
            return [self.written(branch, namespace) for branch in node.branches]
        if isinstance(node, Primitive):
            return {"type": node.kind, **self._props(node.props)} if node.props else node.kind
        if isinstance(node, Array):
            return {"type": "array", "items": self.written(node.items, namespace), **self._props(node.props)}
        if isinstance(node, Map):
            return {"type": "map", "values": self.written(node.values, namespace), **self._props(node.props)}
        return self._written_definition(node, namespace)

    def _written_definition(self, node: Named | Definition, outer: str) -> Any:
        name = node.name
        if name.full in self._known:
            return name.within(outer)
        self._known.add(name.full)
        node = self._schema.names[name.full]
        made: dict[str, Any] = {"type": "error" if node.is_error else node.kind, "name": name.name}
        if name.namespace != outer:
            made["namespace"] = name.namespace
        if (doc := self._type_doc(node.doc)) is not None:
            made["doc"] = doc
        if node.kind == "record":
            made["fields"] = [self._written_field(field, name.namespace) for field in node.fields]
        elif node.kind == "enum":
            made["symbols"] = node.symbols
            if node.enum_default is not None:
                made["default"] = node.enum_default
        else:
            made["size"] = node.size
        made |= self._props(node.props)
        if node.aliases:
            made["aliases"] = self._aliases([alias.within(name.namespace) for alias in node.aliases], node)
        return made

    def _written_field(self, field: Field, namespace: str) -> dict[str, Any]:
        made = {"name": field.name, "type": self.written(field.schema, namespace)}
        if field.doc is not None:
            made["doc"] = field.doc
        if field.has_default:
            made["default"] = self._value(field.default)
        if field.order != "ascending":
            made["order"] = field.order
        if field.aliases:
            made["aliases"] = self._aliases(field.aliases, None)
        return made | self._props(field.props)

    def _type_doc(self, doc: str | None) -> str | None:
        return doc

    def _props(self, props: dict[str, Any]) -> dict[str, Any]:
        return props

    def _value(self, value: Any) -> Any:
        return value

    def _aliases(self, aliases: list[str], _of: Definition | None) -> list[str]:
        return aliases


class _Normalizer(_Writer):
    def _type_doc(self, doc: str | None) -> str | None:
        return doc or None

    def _props(self, props: dict[str, Any]) -> dict[str, Any]:
        first = ("logicalType", "precision", "scale") if props.get("logicalType") == "decimal" else ("logicalType",)
        names = [name for name in first if name in props and props[name] != 0]
        return {name: self._value(props[name]) for name in dict.fromkeys([*names, *sorted(props)])}

    def _value(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: self._value(value[name]) for name in sorted(value)}
        return [self._value(item) for item in value] if isinstance(value, list) else value

    def _aliases(self, aliases: list[str], of: Definition | None) -> list[str]:
        if of is None:
            return sorted(aliases)
        by_full = sorted(of.aliases, key=lambda alias: alias.full)
        return [alias.within(of.name.namespace) for alias in by_full]
