"""Random schemas of Avro, each with a value in Avro's JSON encoding."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

Case = tuple[Any, Any]
_NAMES = st.sampled_from(["a", "b", "c", "d"])
_PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False, allow_infinity=False),
    "double": st.floats(allow_nan=False, allow_infinity=False),
    "bytes": st.binary(max_size=5).map(lambda data: data.decode("latin-1")),
    "string": st.text(max_size=5),
}


@st.composite
def schemas_with_values(draw: st.DrawFn, depth: int = 3) -> Case:
    """A schema and one value of it."""
    numbers = iter(range(10_000))
    return _case(draw, depth, numbers)


def _case(draw: st.DrawFn, depth: int, numbers: Any) -> Case:
    kinds = ["primitive", "enum", "fixed"]
    if depth:
        kinds += ["record", "array", "map", "union"]
    kind = draw(st.sampled_from(kinds))
    if kind == "primitive":
        name = draw(st.sampled_from(sorted(_PRIMITIVES)))
        return name, draw(_PRIMITIVES[name])
    if kind == "enum":
        return {"type": "enum", "name": f"E{next(numbers)}", "symbols": ["X", "Y"]}, draw(st.sampled_from("XY"))
    if kind == "fixed":
        size = draw(st.integers(1, 3))
        data = draw(st.binary(min_size=size, max_size=size))
        return {"type": "fixed", "name": f"F{next(numbers)}", "size": size}, data.decode("latin-1")
    if kind == "record":
        name = f"R{next(numbers)}"
        parts = {field: _case(draw, depth - 1, numbers) for field in draw(st.lists(_NAMES, unique=True))}
        fields = [{"name": field, "type": schema} for field, (schema, _) in parts.items()]
        return {"type": "record", "name": name, "fields": fields}, {field: value for field, (_, value) in parts.items()}
    if kind == "union":
        return _union(draw, depth - 1, numbers)
    schema, value = _case(draw, depth - 1, numbers)
    if kind == "array":
        if _is_empty(schema):  # Such arrays are refused.
            schema, value = "int", 7
        return {"type": "array", "items": schema}, [value] * draw(st.integers(0, 2))
    return {"type": "map", "values": schema}, dict.fromkeys(draw(st.lists(_NAMES, max_size=2, unique=True)), value)


def _is_empty(schema: Any) -> bool:
    if isinstance(schema, dict) and schema["type"] == "record":
        return all(_is_empty(field["type"]) for field in schema["fields"])
    return bool(schema == "null")


def _union(draw: st.DrawFn, depth: int, numbers: Any) -> Case:
    cases = {}
    for _ in range(draw(st.integers(1, 3))):
        schema, value = _case(draw, depth, numbers)
        if isinstance(schema, list):
            continue
        name = schema if isinstance(schema, str) else schema.get("name", schema["type"])
        cases.setdefault(name, (name, schema, value))
    if not cases:
        cases["null"] = ("null", "null", None)
    name, _, value = draw(st.sampled_from(list(cases.values())))
    return [schema for _, schema, _ in cases.values()], None if name == "null" else {name: value}
