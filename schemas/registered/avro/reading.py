"""The text of a schema as a tree, by the rules of Avro's own parser for Java (1.12) with strict names and defaults.

As there, a name may be used before its definition, `default` of a union may be of any branch, and members without a
meaning are properties, which are kept. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from sordini.schemas.registered.avro.defaults import Defaults
from sordini.schemas.registered.avro.model import (
    PRIMITIVES,
    Array,
    AvroSchema,
    Definition,
    Field,
    Map,
    Name,
    Named,
    Node,
    Primitive,
    Union,
)
from sordini.schemas.registered.json_text import read_json, write_json
from sordini.schemas.registered.types import InvalidSchema

NAME_CHARACTERS_MAX: Final = 10_000
BRANCHES_MAX: Final = 1_000
"""Branches of one union: each is compared with each."""
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SCHEMA_MEMBERS: Final = frozenset(
    ["doc", "fields", "items", "name", "namespace", "size", "symbols", "values", "type", "aliases"]
)
"""What is no property of a type; of an enum, `default` is none either."""
_FIELD_MEMBERS: Final = frozenset(["default", "doc", "name", "order", "type", "aliases"])
_ORDERS: Final = ("ascending", "descending", "ignore")


def read_avro_schema(text: str, referenced: Iterable[str]) -> AvroSchema:
    """A schema; `referenced` are the texts that it may name, each after those that it names. Raises InvalidSchema."""
    names: dict[str, Definition] = {}
    for other in referenced:
        _Reader(names).read(other)
    known = set(names)
    root = _Reader(names).read(text)
    return AvroSchema(root, names, [name for name in names if name not in known])


class _Reader:
    """Reads one text; definitions are added to `names`."""

    def __init__(self, names: dict[str, Definition]) -> None:
        self._names = names
        self._used: list[tuple[Named, str]] = []
        self._unions: list[tuple[Union, str]] = []
        self._defaults: list[tuple[Field, str]] = []

    def read(self, text: str) -> Node:
        root = self._node(read_json(text), "", "$")
        for used, where in self._used:
            self._find(used, where)
        for union, where in self._unions:
            self._check_union(union, where)
        defaults = Defaults(self._names)
        for field, where in self._defaults:
            if not defaults.fits(field.schema, field.default):
                shown = _shortened(write_json(field.default))
                raise InvalidSchema(f"{where}: {shown} is no default of its type")
        return root

    def _node(self, value: Any, namespace: str, where: str) -> Node:
        if isinstance(value, str):
            return self._named(value, namespace, where)
        if isinstance(value, list):
            return self._union(value, namespace, where)
        if not isinstance(value, dict):
            raise InvalidSchema(f"{where}: a type is a name, an array or an object")
        kind = value.get("type")
        if not isinstance(kind, str):
            raise InvalidSchema(f"{where}: an object needs a 'type', which is a name")
        if kind in PRIMITIVES:
            return Primitive(kind, _props(value, _SCHEMA_MEMBERS))
        if kind in {"record", "error", "enum", "fixed"}:
            return self._definition(kind, value, namespace, where)
        if kind == "array":
            items = self._inner(value, "items", namespace, where)
            return Array(items, _props(value, _SCHEMA_MEMBERS))
        if kind == "map":
            values = self._inner(value, "values", namespace, where)
            return Map(values, _props(value, _SCHEMA_MEMBERS))
        return self._named(kind, namespace, where)

    def _inner(self, value: dict[str, Any], member: str, namespace: str, where: str) -> Node:
        if member not in value:
            raise InvalidSchema(f"{where}: an {value['type']} needs '{member}'".replace("an map", "a map"))
        return self._node(value[member], namespace, f"{where}.{member}")

    def _named(self, text: str, namespace: str, where: str) -> Node:
        if text in PRIMITIVES:
            return Primitive(text, {})
        used = Named(_name(text, namespace, where), is_relative="." not in text)
        self._used.append((used, where))
        return used

    def _find(self, used: Named, where: str) -> None:
        """A name that its namespace does not have is one without a namespace."""
        if used.name.full in self._names:
            return
        bare = Name(used.name.name, "")
        if bare.full not in self._names or not used.is_relative:
            raise InvalidSchema(f"{where}: the type {_shortened(used.name.full)!r} is not defined")
        used.name = bare

    def _union(self, branches: list[Any], namespace: str, where: str) -> Union:
        if len(branches) > BRANCHES_MAX:
            raise InvalidSchema(f"{where}: a union of more than {BRANCHES_MAX} branches")
        if any(isinstance(branch, list) for branch in branches):
            raise InvalidSchema(f"{where}: a union immediately inside a union")
        union = Union([self._node(branch, namespace, f"{where}[{at}]") for at, branch in enumerate(branches)])
        self._unions.append((union, where))
        return union

    def _check_union(self, union: Union, where: str) -> None:
        seen = set()
        for branch in union.branches:
            name = branch.name.full if isinstance(branch, (Named, Definition)) else branch.kind
            if name in seen:
                raise InvalidSchema(f"{where}: a union with {name!r} twice")
            seen.add(name)

    def _definition(self, kind: str, value: dict[str, Any], outer: str, where: str) -> Definition:
        name = self._new_name(value, outer, where)
        doc = value.get("doc")
        aliases = [_name(alias, name.namespace, where) for alias in _aliases(value, where)]
        made = Definition("record" if kind == "error" else kind, name, _text_or_none(doc), aliases, {})
        if name.full in self._names:
            raise InvalidSchema(f"{where}: {name.full!r} is defined twice")
        self._names[name.full] = made
        reserved = _SCHEMA_MEMBERS | {"default"} if kind == "enum" else _SCHEMA_MEMBERS
        made.props = _props(value, reserved)
        if kind == "enum":
            made.symbols, made.enum_default = _symbols(value, where)
        elif kind == "fixed":
            made.size = _size(value, where)
        else:
            made.is_error = kind == "error"
            made.fields = self._fields(value, name, where)
        return made

    def _new_name(self, value: dict[str, Any], outer: str, where: str) -> Name:
        if not isinstance(value.get("name"), str):
            raise InvalidSchema(f"{where}: a {value['type']} needs a 'name'".replace("a e", "an e"))
        namespace = value.get("namespace")
        name = _name(value["name"], namespace if isinstance(namespace, str) else outer, where)
        if name.full in PRIMITIVES:
            raise InvalidSchema(f"{where}: {name.full!r} is a primitive type")
        return name

    def _fields(self, value: dict[str, Any], record: Name, where: str) -> list[Field]:
        if not isinstance(value.get("fields"), list):
            raise InvalidSchema(f"{where}: the record {record.full!r} needs 'fields', an array")
        made: dict[str, Field] = {}
        for at, written in enumerate(value["fields"]):
            field = self._field(written, record.namespace, f"{where}.fields[{at}]")
            if field.name in made:
                raise InvalidSchema(f"{where}: the record {record.full!r} has the field {field.name!r} twice")
            made[field.name] = field
        return list(made.values())

    def _field(self, written: Any, namespace: str, where: str) -> Field:
        if not isinstance(written, dict) or not isinstance(written.get("name"), str) or "type" not in written:
            raise InvalidSchema(f"{where}: a field is an object with a 'name' and a 'type'")
        name = _plain_name(written["name"], where)
        where = f"{where} ({_shortened(name)})"
        order = written.get("order", "ascending")
        if not isinstance(order, str) or order.lower() not in _ORDERS:
            raise InvalidSchema(f"{where}: 'order' is one of {', '.join(_ORDERS)}")
        schema = self._node(written["type"], namespace, f"{where}.type")
        default, doc = _read_default(schema, written.get("default")), _text_or_none(written.get("doc"))
        props = _props(written, _FIELD_MEMBERS)
        aliases = _aliases(written, where)
        field = Field(name, schema, doc, "default" in written, default, order.lower(), aliases, props)
        if field.has_default:
            self._defaults.append((field, where))
        return field


def _name(text: str, namespace: str, where: str) -> Name:
    """A name with dots is full, another is inside the namespace around it (Avro 1.12, "Names")."""
    if len(text) > NAME_CHARACTERS_MAX:
        raise InvalidSchema(f"{where}: a name of more than {NAME_CHARACTERS_MAX} characters")
    before, dot, last = text.rpartition(".")
    space = before if dot else namespace
    for part in space.split(".") if space else ():
        _plain_name(part, where)
    return Name(_plain_name(last, where), space)


def _plain_name(text: str, where: str) -> str:
    if len(text) > NAME_CHARACTERS_MAX:
        raise InvalidSchema(f"{where}: a name of more than {NAME_CHARACTERS_MAX} characters")
    if _NAME.fullmatch(text) is None:
        raise InvalidSchema(f"{where}: {_shortened(text)!r} is no name: letters of ASCII, digits and _")
    return text


def _aliases(value: dict[str, Any], where: str) -> list[str]:
    aliases = value.get("aliases", [])
    if not isinstance(aliases, list) or not all(isinstance(alias, str) for alias in aliases):
        raise InvalidSchema(f"{where}: 'aliases' is an array of names")
    return list(dict.fromkeys(aliases))


def _symbols(value: dict[str, Any], where: str) -> tuple[list[str], str | None]:
    symbols = value.get("symbols")
    if not isinstance(symbols, list) or not all(isinstance(symbol, str) for symbol in symbols):
        raise InvalidSchema(f"{where}: an enum needs 'symbols', an array of names")
    for symbol in symbols:
        _plain_name(symbol, where)
    if len(set(symbols)) < len(symbols):
        raise InvalidSchema(f"{where}: an enum with a symbol twice")
    default = value.get("default")
    if default is not None and default not in symbols:
        raise InvalidSchema(f"{where}: the default {_shortened(str(default))!r} is no symbol of the enum")
    return symbols, default


def _size(value: dict[str, Any], where: str) -> int:
    size = value.get("size")
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 1 << 31:
        raise InvalidSchema(f"{where}: a fixed needs a 'size', a whole number below 2^31")
    return size


def _read_default(schema: Node, default: Any) -> Any:
    """Avro for Java reads the text of a number as a default of float and double."""
    if schema.kind in {"float", "double"} and isinstance(default, str):
        try:
            return float(default) if default not in {"NaN", "Infinity", "-Infinity"} else default
        except ValueError:
            return default
    return default


def _props(value: dict[str, Any], reserved: frozenset[str]) -> dict[str, Any]:
    return {name: one for name, one in value.items() if name not in reserved}


def _text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _shortened(text: str, length: int = 60) -> str:
    return text if len(text) <= length else f"{text[:length]}..."
