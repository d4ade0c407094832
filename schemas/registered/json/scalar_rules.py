"""Bounds, patterns and divisors: which changes of a keyword narrow what a schema permits. Pure.

Source: JSON Schema Validation 2020-12, sections 6.2 to 6.5, with the boolean `exclusiveMaximum` and `exclusiveMinimum`
of draft 4.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from sordini.schemas.registered.json.faults import Fault
from sordini.schemas.registered.json.model import Shape

_UPPER: Final = {
    "string": {"maxLength": "MAX_LENGTH"},
    "number": {"maximum": "MAXIMUM", "exclusiveMaximum": "EXCLUSIVE_MAXIMUM"},
    "object": {"maxProperties": "MAX_PROPERTIES"},
    "array": {"maxItems": "MAX_ITEMS", "maxContains": "MAX_CONTAINS"},
}
_LOWER: Final = {
    "string": {"minLength": "MIN_LENGTH"},
    "number": {"minimum": "MINIMUM", "exclusiveMinimum": "EXCLUSIVE_MINIMUM"},
    "object": {"minProperties": "MIN_PROPERTIES"},
    "array": {"minItems": "MIN_ITEMS", "minContains": "MIN_CONTAINS"},
}
_OTHER_BOUND: Final = {
    "maximum": "exclusiveMaximum",
    "exclusiveMaximum": "maximum",
    "minimum": "exclusiveMinimum",
    "exclusiveMinimum": "minimum",
}
_IMPLIED: Final = {"minLength": 0, "minItems": 0, "minProperties": 0, "minContains": 1}
"""What holds without the keyword."""


def keyword_faults(old: Shape, new: Shape) -> list[Fault]:
    """Of two shapes of the same kind."""
    before, after = _bounds(old.keywords), _bounds(new.keywords)
    found = []
    for keyword, name in _UPPER.get(old.kind, {}).items():
        found += _bound_fault(keyword, f"{name}_ADDED", f"{name}_DECREASED", before, after, sign=1)
    for keyword, name in _LOWER.get(old.kind, {}).items():
        found += _bound_fault(keyword, f"{name}_ADDED", f"{name}_INCREASED", before, after, sign=-1)
    if old.kind == "string":
        found += _pattern_faults(before, after)
    if old.kind == "number":
        found += _divisor_faults(before, after)
        if new.is_integer and not old.is_integer:
            found.append(Fault("TYPE_NARROWED", ()))
    if old.kind == "array" and after.get("uniqueItems") is True and before.get("uniqueItems") is not True:
        found.append(Fault("UNIQUE_ITEMS_ADDED", ("uniqueItems",)))
    return found


def _bounds(keywords: Mapping[str, Any]) -> Mapping[str, Any]:
    """Exclusive bounds of draft 4 are those of later drafts."""
    made = dict(keywords)
    for plain, exclusive in (("maximum", "exclusiveMaximum"), ("minimum", "exclusiveMinimum")):
        if isinstance(made.get(exclusive), bool):
            is_exclusive = made.pop(exclusive)
            if is_exclusive and plain in made:
                made[exclusive] = made.pop(plain)
    if "contains" in made:
        made.setdefault("minContains", 1)
    return made


def _bound_fault(
    keyword: str, added: str, narrowed: str, before: Mapping[str, Any], after: Mapping[str, Any], *, sign: int
) -> list[Fault]:
    if keyword not in after:
        return []
    if keyword not in before:
        value = after[keyword]
        return (
            []
            if value == _IMPLIED.get(keyword) or _is_implied(keyword, value, before, sign)
            else [Fault(added, (keyword,))]
        )
    return [Fault(narrowed, (keyword,))] if sign * after[keyword] < sign * before[keyword] else []


def _is_implied(keyword: str, value: float, before: Mapping[str, Any], sign: int) -> bool:
    """Whether the other bound, exclusive for inclusive and the reverse, is at least as narrow."""
    other = before.get(_OTHER_BOUND.get(keyword, ""))
    if other is None:
        return False
    return bool(sign * other < sign * value or (other == value and keyword in {"minimum", "maximum"}))


def _pattern_faults(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Fault]:
    if "pattern" not in after or after["pattern"] == before.get("pattern"):
        return []
    return [Fault("PATTERN_CHANGED" if "pattern" in before else "PATTERN_ADDED", ("pattern",))]


def _divisor_faults(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Fault]:
    """What is divisible by six is divisible by three, not the reverse."""
    if "multipleOf" not in after:
        return []
    if "multipleOf" not in before:
        return [Fault("MULTIPLE_OF_ADDED", ("multipleOf",))]
    old, new = Decimal(repr(before["multipleOf"])), Decimal(repr(after["multipleOf"]))
    if _divides(new, old):
        return []
    return [Fault("MULTIPLE_OF_EXPANDED" if _divides(old, new) else "MULTIPLE_OF_CHANGED", ("multipleOf",))]


def _divides(divisor: Decimal, number: Decimal) -> bool:
    try:
        return number % divisor == 0
    except ArithmeticError:  # Their sizes are too far apart for decimals of 28 digits.
        return False
