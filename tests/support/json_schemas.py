"""Random pairs of JSON schemas, the second like the first, and values that meet their edges."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

_NAMES = st.sampled_from(["a", "b", "x1"])
_SMALL = st.integers(0, 3)
_SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 4), st.sampled_from([0.5, 1.5]), st.sampled_from(["", "a", "ab", "abc"])
)
VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_NAMES, inner, max_size=3)),
    max_leaves=6,
)
_STRINGS = st.fixed_dictionaries(
    {"type": st.just("string")},
    optional={"minLength": _SMALL, "maxLength": _SMALL, "pattern": st.sampled_from(["^a", "b"])},
)
_NUMBERS = st.fixed_dictionaries(
    {"type": st.sampled_from(["number", "integer"])},
    optional={
        "minimum": _SMALL,
        "maximum": _SMALL,
        "exclusiveMinimum": _SMALL,
        "exclusiveMaximum": _SMALL,
        "multipleOf": st.sampled_from([1, 2, 0.5]),
    },
)
_LEAVES = st.one_of(
    st.sampled_from([True, False, {}, {"type": "null"}, {"type": ["string", "null"]}, {"type": ["integer", "string"]}]),
    _STRINGS,
    _NUMBERS,
    st.fixed_dictionaries({"enum": st.lists(_SCALARS, min_size=1, max_size=3)}),
    st.fixed_dictionaries({"const": _SCALARS}),
)


def _objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {},
        optional={
            "type": st.just("object"),
            "properties": st.dictionaries(_NAMES, inner, max_size=2),
            "required": st.lists(_NAMES, unique=True, max_size=2),
            "additionalProperties": inner,
            "patternProperties": st.dictionaries(st.sampled_from(["^x", "^[ab]$"]), inner, max_size=1),
            "propertyNames": st.just({"maxLength": 1}),
            "minProperties": _SMALL,
            "maxProperties": _SMALL,
            "dependencies": st.dictionaries(
                _NAMES, st.one_of(st.lists(_NAMES, unique=True, max_size=2), inner), max_size=1
            ),
        },
    )


def _arrays(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """`additionalItems` beside `items` that is no list has no meaning, and jsonschema fails with it."""
    optional = {
        "type": st.just("array"),
        "contains": inner,
        "minItems": _SMALL,
        "maxItems": _SMALL,
        "uniqueItems": st.booleans(),
    }
    by_place = {**optional, "additionalItems": inner}
    items = st.lists(inner, min_size=1, max_size=2)
    return st.one_of(
        st.fixed_dictionaries({}, optional={**optional, "items": inner}),
        st.fixed_dictionaries({"items": items}, optional=by_place),
    )


def _combinations(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    many = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        st.fixed_dictionaries({"anyOf": many}),
        st.fixed_dictionaries({"allOf": many}),
        st.fixed_dictionaries({"not": inner}),
        st.fixed_dictionaries({"if": inner, "then": inner}),
    )


SCHEMAS = st.recursive(
    _LEAVES, lambda inner: st.one_of(_objects(inner), _arrays(inner), _combinations(inner)), max_leaves=5
)


@st.composite
def schema_pairs(draw: st.DrawFn) -> tuple[Any, Any]:
    """Of draft 7, without `oneOf` and defaults, whose rules permit what JSON Schema does not."""
    first = draw(SCHEMAS)
    return first, _changed(draw, first)


def _changed(draw: st.DrawFn, schema: Any) -> Any:
    if draw(st.integers(0, 5)) == 0:
        return draw(SCHEMAS)
    if isinstance(schema, bool):
        return schema
    made = {name: _changed_keyword(draw, name, value) for name, value in schema.items()}
    free = sorted(made.keys() - ({"items"} if "additionalItems" in made else set()))
    if free and draw(st.integers(0, 2)) == 0:
        del made[draw(st.sampled_from(free))]
    return made


def _changed_keyword(draw: st.DrawFn, name: str, value: Any) -> Any:
    if name in {"properties", "patternProperties"}:
        return {key: _changed(draw, one) for key, one in value.items()}
    if name in {"anyOf", "allOf"} or (name == "items" and isinstance(value, list)):
        return [_changed(draw, one) for one in value]
    if name in {"additionalProperties", "items", "additionalItems", "contains", "not", "if", "then"}:
        return _changed(draw, value)
    if name in {
        "minLength",
        "maxLength",
        "minimum",
        "maximum",
        "minItems",
        "maxItems",
        "minProperties",
        "maxProperties",
    }:
        return max(0, value + draw(st.integers(-1, 1)))
    return value
