"""JSON as schemas are written in it: read within bounds, and written as registries write it. Pure.

Jackson, with which the known registries write, has other numbers than Python's `json`: `1.0E10` for 1e10. Texts
that are compared with theirs have its form.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final

from sordini.schemas.registered.types import InvalidSchema

DEPTH_MAX: Final = 100
"""Arrays and objects inside each other. Every reader of schemas recurses, some with ten frames for a level."""
VALUES_MAX: Final = 50_000
"""Values in one text, names of members not counted."""


def read_json(text: str, values_max: int = VALUES_MAX) -> Any:
    """The value of a text. Raises InvalidSchema where it is not JSON, or beyond a bound."""
    try:
        value = json.loads(text, parse_constant=_no_constant, parse_float=_finite)
    except RecursionError:
        raise InvalidSchema(f"nested more than {DEPTH_MAX} levels deep") from None
    except ValueError as error:
        raise InvalidSchema(f"not JSON: {error}") from None
    check_bounds(value, values_max)
    return value


def check_bounds(value: Any, values_max: int = VALUES_MAX) -> None:
    """Raises InvalidSchema for a value that could not be read again."""
    level, count, depth = [value], 0, 0
    while level:
        count += len(level)
        if count > values_max:
            raise InvalidSchema(f"more than {values_max} values")
        inner: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                inner.extend(one.values())
            elif isinstance(one, list):
                inner.extend(one)
        level, depth = inner, depth + 1
        if depth > DEPTH_MAX and level:
            raise InvalidSchema(f"nested more than {DEPTH_MAX} levels deep")


def write_json(value: Any, *, is_sorted: bool = False) -> str:
    """The shortest text; `is_sorted` orders the members of all objects by name.

    Raises InvalidSchema for text that has no UTF-8, which is half of a surrogate pair.
    """
    parts: list[str] = []
    _write(value, parts, is_sorted=is_sorted)
    text = "".join(parts)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidSchema(f"half of a surrogate pair at character {error.start}") from None
    return text


def java_double(number: float) -> str:
    """As Java's Double.toString (Java SE, class Double): digits from 0.001 to 10,000,000, else with an exponent."""
    if not math.isfinite(number):
        return '"NaN"' if math.isnan(number) else '"Infinity"' if number > 0 else '"-Infinity"'
    sign, digits, exponent = _shortest_digits(number)
    if digits == "0":
        return f"{sign}0.0"
    if 1e-3 <= abs(number) < 1e7:
        if exponent <= 0:
            return f"{sign}0.{'0' * -exponent}{digits}"
        return f"{sign}{digits[:exponent].ljust(exponent, '0')}.{digits[exponent:] or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent - 1}"


def _shortest_digits(number: float) -> tuple[str, str, int]:
    """Sign, digits and exponent: the number is 0.DIGITS times ten to the exponent."""
    text = repr(abs(number))
    mantissa, _, written_exponent = text.partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).rstrip("0")
    exponent = len(whole) + int(written_exponent or 0)
    stripped = digits.lstrip("0")
    exponent -= len(digits) - len(stripped)
    return "-" if math.copysign(1, number) < 0 else "", stripped or "0", exponent


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text[:20]} is too large for a number")
    return number


def _write(value: Any, parts: list[str], *, is_sorted: bool) -> None:
    if isinstance(value, dict):
        between = "{"
        for name in sorted(value) if is_sorted else value:
            parts.append(f"{between}{_write_text(name)}:")
            _write(value[name], parts, is_sorted=is_sorted)
            between = ","
        parts.append("}" if value else "{}")
    elif isinstance(value, list):
        between = "["
        for item in value:
            parts.append(between)
            _write(item, parts, is_sorted=is_sorted)
            between = ","
        parts.append("]" if value else "[]")
    else:
        parts.append(_write_scalar(value))


def _write_scalar(value: Any) -> str:
    if isinstance(value, str):
        return _write_text(value)
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return java_double(value) if isinstance(value, float) else str(value)


def _write_text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
