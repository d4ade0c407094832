"""Error responses of requests with many elements, made in steps.

A route's `error_response` makes the response of a whole request at once, which is right for nearly all requests. Here
a long request is answered piece by piece: each piece is the same request with some of its elements, and the arrays of
the responses are joined. A topic with too many partitions for one piece appears in more than one row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, Final

from sordini.broker.requests.slice_scheduler import Work
from sordini.protocol.declare import ArrayOf, fields_of, specs_of
from sordini.protocol.errors import ErrorCode

ROWS_PER_PIECE: Final = 500


def error_response_in_steps(
    error_response: Callable[[Any, ErrorCode], Any], request: Any, code: ErrorCode
) -> Work[Any]:
    """The response that reports one code for the whole request."""
    return (yield from merged(error_response(piece, code) for piece in split(request, ROWS_PER_PIECE)))


def merged(messages: Iterable[Any]) -> Work[Any]:
    """One message with the elements of all in its arrays; each message counts as ROWS_PER_PIECE steps."""
    whole = None
    for message in messages:
        if whole is None:
            whole = message
        else:
            for name, rows in _arrays(message):
                getattr(whole, name).extend(rows)
        yield ROWS_PER_PIECE
    return whole


def split(value: Any, rows_max: int) -> Iterator[Any]:
    """Copies of a message or struct, each with at most `rows_max` rows in its arrays; itself, if it has no more."""
    if _rows(value, rows_max) <= rows_max:
        yield value
        return
    for name, items in _arrays(value):
        yield from (_with(value, name, some) for some in _runs(items, rows_max))


def _runs(items: list[Any], rows_max: int) -> Iterator[list[Any]]:
    """The elements of an array in runs of at most `rows_max` rows; an element with more is split itself."""
    run: list[Any] = []
    rows = 0
    for item in items:
        more = _rows(item, rows_max)
        if run and rows + more > rows_max:
            yield run
            run, rows = [], 0
        if more > rows_max:
            yield from ([piece] for piece in split(item, rows_max))
        else:
            run.append(item)
            rows += more
    if run:
        yield run


def _rows(value: Any, enough: int) -> int:
    """The rows of an element, itself and those inside it; counting stops beyond `enough`."""
    rows = 1
    for _, items in _arrays(value):
        if not items or not hasattr(type(items[0]), "__specs__"):
            rows += len(items)
            continue
        for item in items:
            rows += _rows(item, enough)
            if rows > enough:
                return rows
    return rows


def _arrays(value: Any) -> Iterator[tuple[str, list[Any]]]:
    cls: Any = type(value)
    for name in _arrays_of(cls):
        items = getattr(value, name)
        if type(items) is list:
            yield name, items


@cache
def _arrays_of(cls: type) -> tuple[str, ...]:
    """Names of the array fields of a message or struct; empty for any other class."""
    if not hasattr(cls, "__specs__"):
        return ()
    return tuple(field.name for field in fields_of(cls) if isinstance(field.kind, ArrayOf))


def _with(value: Any, name: str, items: list[Any]) -> Any:
    """A copy with these elements in one of its arrays and none in the others."""
    kept = {field: getattr(value, field) for field in specs_of(type(value))}
    empty: dict[str, Any] = {field: [] for field, held in kept.items() if type(held) is list}
    return type(value)(**{**kept, **empty, name: items})
