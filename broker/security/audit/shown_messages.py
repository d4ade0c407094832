"""Requests and responses as values of JSON, for the audit log. Pure.

Nothing here knows an API: fields are shown by their names as the protocol has them. What could hold a secret is left
out by its kind, not by its name:

    bytes                  their number is shown (salted passwords, salts, tokens); an id of a topic as text
    the value of a setting is shown for known keys that are no passwords, and only once the change is made: a refused
                           value may be a password behind the wrong key
    error messages         are left out: they quote values
    null                   is left out
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from sordini.broker.security.audit.audit_lines import clipped, shown_id
from sordini.broker.security.audit.number_names import name_of_number
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode

ITEMS_MAX: Final = 50
"""Elements of an array within a row; a longer one is divided over several rows."""
HIDDEN: Final = "(hidden)"
_LEFT_OUT: Final = frozenset({"throttle_time_ms", "timeout_ms", "error_message"})
_NOT_OF_ROWS: Final = "topic_config_error_code"
"""Says why settings of a created topic are not shown; the topic is created."""

_fields: dict[type, tuple[str, ...]] = {}

MayShow = Callable[[str], bool]
"""Whether the value of a setting may be shown, by its key."""


def fields_of(kind: type) -> tuple[str, ...]:
    """The names of a message's fields, in their order."""
    found = _fields.get(kind)
    if found is None:
        names = [name for base in kind.__mro__ for name in getattr(base, "__slots__", ())]
        found = _fields[kind] = tuple(dict.fromkeys(name for name in names if name not in _LEFT_OUT))
    return found


def is_struct(value: object) -> bool:
    """Whether it is a message or an element of one, not a plain value."""
    return hasattr(type(value), "__slots__") and not isinstance(value, str | bytes | int | float | list | tuple)


def has_error_code(kind: type) -> bool:
    """Whether a row of this kind says how its part of the request ended."""
    return any(map(_is_error, fields_of(kind)))


class MessageRenderer:
    """Shows the parts of one request and its response."""

    def __init__(self, key: ApiKey, may_show: MayShow) -> None:
        self._key = key
        self._may_show = may_show

    def scalars(self, message: object) -> dict[str, Any]:
        """The fields of a message that are no arrays."""
        return self._fields(message, lambda value: not _is_array(value))

    def rows(self, message: object, *, is_response: bool) -> Iterator[tuple[str, Any]]:
        """The elements of a message's arrays, each with the name of its array; one that is long in several pieces."""
        for field in fields_of(type(message)):
            value = getattr(message, field)
            if not _is_array(value):
                continue
            for row in value:
                for piece in self._pieces(row, is_response=is_response):
                    yield field, piece

    def _pieces(self, row: Any, *, is_response: bool) -> Iterator[Any]:
        if not is_struct(row):
            yield self._plain("", row)
            return
        arrays = {
            field: value
            for field in fields_of(type(row))
            if _is_array(value := getattr(row, field)) and not (is_response and _says_nothing(value))
        }
        most = max((len(value) for value in arrays.values()), default=0)
        for start in range(0, max(most, 1), ITEMS_MAX):
            shown = self._fields(row, lambda value: not _is_array(value))
            for field, value in arrays.items():
                part = value[start : start + ITEMS_MAX]
                if part:
                    shown[field] = [self._value(field, one) for one in part]
            yield shown

    def _fields(self, message: object, is_wanted: Callable[[Any], bool]) -> dict[str, Any]:
        shown = {}
        for field in fields_of(type(message)):
            value = getattr(message, field)
            if value is None or not is_wanted(value):
                continue
            if field == "value":
                value = value if self._may_show(getattr(message, "name", "")) else HIDDEN
            shown[field] = self._value(field, value)
        return shown

    def _value(self, field: str, value: Any) -> Any:
        """One value; of an array within an array the first ITEMS_MAX elements, and how many there are more."""
        if is_struct(value):
            return self._fields(value, lambda _: True)
        if not _is_array(value):
            return self._plain(field, value)
        shown = [self._value(field, one) for one in value[:ITEMS_MAX]]
        return shown if len(value) <= ITEMS_MAX else [*shown, f"and {len(value) - ITEMS_MAX} more"]

    def _plain(self, field: str, value: Any) -> Any:
        if isinstance(value, bytes | bytearray | memoryview):
            return shown_id(bytes(value)) if field == "topic_id" else f"({len(value)} bytes)"
        if isinstance(value, str):
            return clipped(value)
        if isinstance(value, bool) or not isinstance(value, int):
            return value
        return error_name(value) if field.endswith("error_code") else name_of_number(self._key, field, value)


def error_codes(message: Any) -> Iterator[int]:
    """The error codes of a response and its rows, those without an error among them."""
    for field in fields_of(type(message)):
        value = getattr(message, field)
        if _is_error(field):
            yield value
        elif _is_array(value) and not _says_nothing(value):
            for row in value:
                yield from error_codes(row)


def error_name(code: int) -> str:
    """`NONE`, `TOPIC_AUTHORIZATION_FAILED`."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)


def _is_error(field: str) -> bool:
    return field.endswith("error_code") and field != _NOT_OF_ROWS


def _is_array(value: object) -> bool:
    return isinstance(value, list | tuple)


def _says_nothing(rows: Any) -> bool:
    """Whether an array of a response says nothing of how the request ended, as the settings of a created topic do."""
    if not rows or not is_struct(rows[0]):
        return True
    kind = type(rows[0])
    return not (has_error_code(kind) or any(_is_array(getattr(rows[0], field)) for field in fields_of(kind)))
