"""Random pairs of schemas of Avro: the second is like the first, changed in some places."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

_PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_FIELDS = ("a", "b", "c")
_NAMES = ("k.R", "k.S", "n.T", "m.T")
_DEFAULTS = {
    "null": None,
    "boolean": True,
    "int": 3,
    "long": 4,
    "float": 1.5,
    "double": 1e10,
    "bytes": "\u00ff",
    "string": "x",
}
_PROPS = ({}, {}, {"z": 1, "a": {"d": 1, "c": [2]}}, {"logicalType": "decimal", "scale": 2, "precision": 4})


@st.composite
def schema_pairs(draw: st.DrawFn) -> tuple[Any, Any]:
    first = _Schema(draw).any(3)
    if draw(st.integers(0, 5)) == 0:
        return first, _Schema(draw).any(3)
    return first, _Change(draw).changed(first)


class _Schema:
    """Names are few, so that the two of a pair meet; one that was defined is named where it comes again."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw
        self._defined: set[str] = set()

    def any(self, depth: int, *, in_union: bool = False) -> Any:
        kinds = ["primitive", "primitive", "enum", "fixed"]
        if depth:
            kinds += ["record", "record", "record", "array", "map", *(["union", "union"] if not in_union else [])]
        kind = self._draw(st.sampled_from(kinds))
        props = self._draw(st.sampled_from(_PROPS))
        if kind == "primitive":
            name = self._draw(st.sampled_from(_PRIMITIVES))
            return {"type": name, **props} if props else name
        if kind == "array":
            return {"type": "array", "items": self.any(depth - 1), **props}
        if kind == "map":
            return {"type": "map", "values": self.any(depth - 1), **props}
        if kind == "union":
            return self._union(depth)
        return self._named(kind, depth, props)

    def _union(self, depth: int) -> list[Any]:
        branches = {}
        for _ in range(self._draw(st.integers(1, 3))):
            branch = self.any(depth - 1, in_union=True)
            branches.setdefault(_branch_name(branch), branch)
        return list(branches.values())

    def _named(self, kind: str, depth: int, props: dict[str, Any]) -> Any:
        name = self._draw(st.sampled_from(_NAMES))
        if name in self._defined:
            return name
        self._defined.add(name)
        made: dict[str, Any] = {"type": kind, "name": name, **props}
        if self._draw(st.integers(0, 3)) == 0:
            made["aliases"] = self._draw(
                st.lists(st.sampled_from(["k.R", "S", "n.T", "m.T", "Q"]), unique=True, max_size=2)
            )
        if self._draw(st.integers(0, 4)) == 0:
            made["doc"] = self._draw(st.sampled_from(["", "text"]))
        if kind == "enum":
            made["symbols"] = self._draw(st.lists(st.sampled_from("XYZ"), unique=True, min_size=1))
            if self._draw(st.booleans()):
                made["default"] = made["symbols"][0]
        elif kind == "fixed":
            made["size"] = self._draw(st.integers(1, 3))
        else:
            names = self._draw(st.lists(st.sampled_from(_FIELDS), unique=True))
            made["fields"] = [self.field(field, depth - 1) for field in names]
        return made

    def field(self, name: str, depth: int) -> dict[str, Any]:
        field: dict[str, Any] = {"name": name, "type": self.any(depth)}
        if isinstance(field["type"], str) and field["type"] in _DEFAULTS and self._draw(st.booleans()):
            field["default"] = _DEFAULTS[field["type"]]
        if self._draw(st.integers(0, 4)) == 0:
            field["aliases"] = self._draw(st.lists(st.sampled_from(_FIELDS), unique=True, max_size=2))
        if self._draw(st.integers(0, 6)) == 0:
            field["order"] = self._draw(st.sampled_from(["ascending", "descending", "ignore"]))
        return field


class _Change:
    """A copy in which some places are others; names stay defined once, before they are used."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def changed(self, schema: Any) -> Any:
        if isinstance(schema, str):
            if schema in _PRIMITIVES and self._draw(st.integers(0, 3)) == 0:
                return self._draw(st.sampled_from(_PRIMITIVES))
            return schema
        if isinstance(schema, list):
            branches = {_branch_name(branch): branch for branch in map(self.changed, schema)}
            kept = list(branches.values())
            return kept if self._draw(st.integers(0, 3)) else list(reversed(kept))
        made = dict(schema)
        for member in ("items", "values"):
            if member in made:
                made[member] = self.changed(made[member])
        if "symbols" in made and self._draw(st.booleans()):
            made["symbols"] = self._draw(st.permutations(made["symbols"]))[: self._draw(st.integers(1, 3))]
            made.pop("default", None)
        if "size" in made and self._draw(st.booleans()):
            made["size"] = self._draw(st.integers(1, 3))
        if "fields" in made:
            made["fields"] = self._fields(made["fields"])
        return made

    def _fields(self, fields: list[Any]) -> list[Any]:
        made = [{**field, "type": self.changed(field["type"])} for field in fields]
        for field in made:
            if "default" in field and _DEFAULTS.get(field["type"], field) != field["default"]:
                del field["default"]
        free = [name for name in _FIELDS if name not in {field["name"] for field in made}]
        if free and self._draw(st.booleans()):
            new = {"name": self._draw(st.sampled_from(free)), "type": "int"}
            made.append({**new, "default": 0} if self._draw(st.booleans()) else new)
        if made and not _defines(made[-1]["type"]) and self._draw(st.integers(0, 3)) == 0:
            made.pop()
        return made


def _branch_name(branch: Any) -> str:
    if isinstance(branch, str):
        return branch
    return str(branch.get("name", branch["type"])) if "name" in branch else str(branch["type"])


def _defines(schema: Any) -> bool:
    """Whether a name is defined in it, which others may use."""
    if isinstance(schema, dict):
        return "name" in schema or _defines(schema.get("items")) or _defines(schema.get("values"))
    return isinstance(schema, list) and any(_defines(branch) for branch in schema)
