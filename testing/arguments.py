"""What callers of the kit give it, checked when it is given: understood, or refused with what is allowed. Pure.

A text is iterable, and a misspelt `topics="orders"` would be six topics of a letter each. So each parameter that takes
several of something passes through `texts`, `many` or `mapping`; and each number through `whole` or `number`, for which
True and "2" are none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

INT32_MAX: Final = (1 << 31) - 1
SHOWN_CHARACTERS: Final = 200
_SINGLE: Final = (str, bytes, bytearray, memoryview, Mapping, int, float)
"""Values that are one, although some of them can be iterated over."""


class ArgumentRefused(ValueError):
    """An argument that cannot mean anything."""

    def __init__(self, name: str, value: object, allowed: str, why: str = "") -> None:
        """`why` is the whole sentence where `value` and what is allowed do not say enough."""
        shown = repr(value)
        if len(shown) > SHOWN_CHARACTERS:
            shown = f"{shown[:SHOWN_CHARACTERS]}..."
        super().__init__(why or f"{name}={shown}: allowed is {allowed}")
        self.name = name
        self.value = value
        self.allowed = allowed
        self.why = why


def whole(name: str, value: Any, low: int, high: int | None = None) -> int:
    """A whole number between bounds, which are allowed."""
    bounds = f"from {low} on" if high is None else f"from {low} to {high}"
    if not isinstance(value, int) or isinstance(value, bool) or value < low or (high is not None and value > high):
        raise ArgumentRefused(name, value, f"a whole number {bounds}")
    return value


def number(name: str, value: Any, low: float, high: float) -> float:
    """A number between bounds, which are allowed."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not is_number or not low <= value <= high:
        raise ArgumentRefused(name, value, f"a number from {low:g} to {high:g}")
    found: float = value
    return found


def text(name: str, value: Any) -> str:
    """A text with something in it."""
    if not isinstance(value, str) or not value:
        raise ArgumentRefused(name, value, "a text")
    return value


def flag(name: str, value: Any) -> bool:
    """True or False."""
    if not isinstance(value, bool):
        raise ArgumentRefused(name, value, "True or False")
    return value


def one_of(name: str, value: Any, choices: Sequence[Any]) -> Any:
    """One of some values."""
    if not any(type(value) is type(choice) and value == choice for choice in choices):
        raise ArgumentRefused(name, value, f"one of {', '.join(map(repr, choices))}")
    return value


def texts(name: str, value: Any) -> list[str]:
    """Texts; a single one is a list of one."""
    found = [value] if isinstance(value, str) else value
    if isinstance(found, _SINGLE) or not isinstance(found, Iterable):
        raise ArgumentRefused(name, value, "a text, or several in a list")
    listed = list(found)
    if not all(isinstance(one, str) and one for one in listed):
        raise ArgumentRefused(name, value, "a text, or several in a list")
    return listed


def many(values: Any) -> list[Any]:
    """Values of records: those of a list, or of whatever else can be iterated over, or the single one that it is.

    Texts, bytes, numbers and dicts are single values.
    """
    if values is None or isinstance(values, _SINGLE):
        return [values]
    return list(values) if isinstance(values, Iterable) else [values]


def mapping(name: str, value: Any, description: str) -> dict[str, Any]:
    """Something by name; None is nothing. `description` says what it is, for the refusal."""
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(key, str) and key for key in value):
        raise ArgumentRefused(name, value, f"a dict of {description}")
    return dict(value)


def partitions_by_topic(name: str, value: Any) -> dict[str, int]:
    """Numbers of partitions by topic; a topic without one has one partition. None is no topic."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        return dict.fromkeys(texts(name, value), 1)
    counts = mapping(name, value, "numbers of partitions by topic")
    return {topic: whole(f"{name}[{topic!r}]", count, 1, INT32_MAX) for topic, count in counts.items()}


def header_pairs(name: str, value: Any) -> list[tuple[str, Any]]:
    """Headers of a record: values by name, or pairs where a name comes more than once. None is no header."""
    if value is None:
        return []
    if isinstance(value, Mapping):
        return list(mapping(name, value, "values by name").items())
    allowed = "a dict of values by name, or a list of pairs"
    if isinstance(value, _SINGLE) or not isinstance(value, Iterable):
        raise ArgumentRefused(name, value, allowed)
    pairs = list(value)
    if not all(isinstance(one, tuple | list) and len(one) == 2 and isinstance(one[0], str) for one in pairs):
        raise ArgumentRefused(name, value, allowed)
    return [(one[0], one[1]) for one in pairs]
