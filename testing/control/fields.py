"""The fields of a request's JSON or query, each read with its bounds. Pure.

Everything that is wrong is a `WrongRequest` that says what, where, and what is allowed; a field that is not read is
wrong, too, so that a misspelt one is not ignored.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import parse_qsl

from sordini.testing.arguments import ArgumentRefused

SHOWN_CHARACTERS: Final = 100
REQUIRED: Final[Any] = object()


class WrongRequest(Exception):
    """A request that is not granted; `status` is HTTP's."""

    def __init__(self, reason: str, where: str, allowed: str, status: int = 400) -> None:
        super().__init__(reason)
        self.reason = reason
        self.where = where
        self.allowed = allowed
        self.status = status

    def as_json(self) -> dict[str, str]:
        return {"error": self.reason, "where": self.where, "allowed": self.allowed}


class Fields:
    """The fields of one object. Methods return the default of a field that is not given; without one it is required."""

    def __init__(self, given: Mapping[str, Any], where: str, *, is_text: bool = False) -> None:
        """`where` names the object; with `is_text` numbers and flags are written as texts."""
        self._given = given
        self._where = where
        self._is_text = is_text
        self._known: list[str] = []

    def any(self, name: str, allowed: str = "", default: Any = REQUIRED) -> Any:
        """A value that is checked where it is used: see `refused`."""
        return self._value(name, default, allowed)

    def text(self, name: str, default: Any = REQUIRED, *, one_of: Sequence[str] = ()) -> Any:
        """A text, perhaps one of some."""
        allowed = f"one of {', '.join(one_of)}" if one_of else "a text"
        value = self._value(name, default, allowed)
        if value is not default and (not isinstance(value, str) or not value or (one_of and value not in one_of)):
            raise self._wrong(name, value, allowed)
        return value

    def whole(self, name: str, low: int, high: int, default: Any = REQUIRED) -> Any:
        """A whole number between bounds, which are allowed."""
        allowed = f"a whole number from {low} to {high}"
        value = self._value(name, default, allowed)
        if value is default:
            return value
        if self._is_text and isinstance(value, str) and value.isascii() and value.isdigit():
            value = int(value[:20])
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise self._wrong(name, value, allowed)
        return value

    def number(self, name: str, low: float, high: float, default: Any = REQUIRED) -> Any:
        """A number between bounds, which are allowed."""
        allowed = f"a number from {low:g} to {high:g}"
        value = self._value(name, default, allowed)
        if value is default:
            return value
        if self._is_text and isinstance(value, str):
            with contextlib.suppress(ValueError):
                value = float(value[:40])
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if not is_number or not low <= value <= high:
            raise self._wrong(name, value, allowed)
        return value

    def flag(self, name: str, default: Any = REQUIRED) -> Any:
        """True or false."""
        value = self._value(name, default, "true or false")
        if value is not default and not isinstance(value, bool):
            raise self._wrong(name, value, "true or false")
        return value

    def wholes(self, name: str, allowed_values: Sequence[int], default: Any = REQUIRED) -> Any:
        """A list of whole numbers out of some."""
        allowed = f"a list of {', '.join(map(str, allowed_values))}"
        value = self._value(name, default, allowed)
        if value is not default and not (
            isinstance(value, list) and value and all(type(one) is int and one in allowed_values for one in value)
        ):
            raise self._wrong(name, value, allowed)
        return value

    def texts_by_name(self, name: str) -> dict[str, str]:
        """An object whose values are texts, numbers or flags, as texts; empty when it is not given."""
        allowed = "an object of texts, numbers, true and false"
        value = self._value(name, {}, allowed)
        if not isinstance(value, dict) or not all(isinstance(one, str | int | float) for one in value.values()):
            raise self._wrong(name, value, allowed)
        return {key: one if isinstance(one, str) else json.dumps(one) for key, one in value.items()}

    def refused(self, error: ArgumentRefused) -> WrongRequest:
        """What the kit refused of these fields, as the control says it."""
        if error.why:
            return WrongRequest(f"{error.name}: {error.why}", error.name, error.allowed)
        return self._wrong(error.name, error.value, error.allowed)

    def refuse_others(self) -> None:
        """Call it when all fields were read. Raises WrongRequest for one that was not."""
        for name in self._given:
            if name not in self._known:
                allowed = ", ".join(self._known) if self._known else "no field"
                raise WrongRequest(f"{shown(name)} is not a field of {self._where}", self._where, allowed)

    def _value(self, name: str, default: Any, allowed: str) -> Any:
        self._known.append(name)
        value = self._given.get(name)
        if value is None:  # As if it were not given: null is what many programs write for it.
            if default is REQUIRED:
                raise WrongRequest(f"{name} is missing in {self._where}", name, allowed)
            return default
        return value

    def _wrong(self, name: str, value: Any, allowed: str) -> WrongRequest:
        return WrongRequest(f"{name}={shown(value)} in {self._where}: allowed is {allowed}", name, allowed)


def body_fields(body: bytes, where: str) -> Fields:
    """The fields of a body, which is a JSON object or empty. Raises WrongRequest."""
    if not body:
        return Fields({}, where)
    try:
        given = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise WrongRequest(f"the body is not JSON: {error}", "body", "a JSON object") from None
    if not isinstance(given, dict):
        raise WrongRequest(f"the body is {shown(given)}", "body", "a JSON object")
    return Fields(given, where)


def query_fields(query: str, where: str) -> Fields:
    """The fields of a query."""
    return Fields(dict(parse_qsl(query, keep_blank_values=True)), where, is_text=True)


def shown(value: Any) -> str:
    """A value as JSON, not too long."""
    text = json.dumps(value)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}..."
