"""Which keywords of a schema mean something here, and which values they may have. Pure.

The metaschema of a draft says nothing of keywords of later drafts, so that their values may be anything: one that has
not the form of its keyword is left out, as a keyword that is not known is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

_Predicate = Callable[[Any], bool]
TYPES: Final = frozenset({"string", "number", "integer", "boolean", "null", "object", "array"})
BY_TYPE: Final[Mapping[str, frozenset[str]]] = {
    "string": frozenset({"minLength", "maxLength", "pattern"}),
    "number": frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}),
    "object": frozenset(
        {"properties", "required", "additionalProperties", "patternProperties", "minProperties", "maxProperties"}
        | {"dependencies", "dependentRequired", "dependentSchemas", "propertyNames", "unevaluatedProperties"}
    ),
    "array": frozenset(
        {"items", "prefixItems", "additionalItems", "minItems", "maxItems", "uniqueItems", "contains"}
        | {"minContains", "maxContains", "unevaluatedItems"}
    ),
}


def known(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords that are compared, and `default`."""
    return {name: value for name, value in raw.items() if name in _PREDICATES and _PREDICATES[name](value)}


def is_schema(value: Any) -> bool:
    return isinstance(value, (dict, bool))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_exclusive_bound(value: Any) -> bool:
    return isinstance(value, bool) or _is_number(value)  # A boolean in draft 4.


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_array(value: Any) -> bool:
    return isinstance(value, list)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _are_schemas(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(is_schema(one) for one in value)


def _are_named_schemas(value: Any) -> bool:
    return isinstance(value, dict) and all(is_schema(one) for one in value.values())


def _are_dependencies(value: Any) -> bool:
    return isinstance(value, dict) and all(is_schema(one) or _are_texts(one) for one in value.values())


def _are_named_texts(value: Any) -> bool:
    return isinstance(value, dict) and all(_are_texts(one) for one in value.values())


def _is_type(value: Any) -> bool:
    return value in TYPES if isinstance(value, str) else _are_texts(value) and bool(value) and TYPES.issuperset(value)


_PREDICATES: Final[Mapping[str, _Predicate]] = {
    **dict.fromkeys(
        ("additionalProperties", "additionalItems", "unevaluatedProperties", "unevaluatedItems", "propertyNames"),
        is_schema,
    ),
    **dict.fromkeys(("contains", "not", "if", "then", "else"), is_schema),
    **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), _are_schemas),
    "items": lambda value: is_schema(value) or _are_schemas(value) or value == [],
    **dict.fromkeys(("properties", "patternProperties", "dependentSchemas"), _are_named_schemas),
    "dependencies": _are_dependencies,
    "dependentRequired": _are_named_texts,
    **dict.fromkeys(("minLength", "maxLength", "minimum", "maximum", "multipleOf"), _is_number),
    **dict.fromkeys(("minItems", "maxItems", "minProperties", "maxProperties"), _is_number),
    **dict.fromkeys(("minContains", "maxContains"), _is_number),
    **dict.fromkeys(("exclusiveMinimum", "exclusiveMaximum"), _is_exclusive_bound),
    **dict.fromkeys(("pattern", "$ref", "$dynamicRef", "$recursiveRef"), _is_text),
    "uniqueItems": lambda value: isinstance(value, bool),
    "required": _are_texts,
    "enum": _is_array,
    "type": _is_type,
    **dict.fromkeys(("const", "default"), lambda _: True),
}
