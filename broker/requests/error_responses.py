"""Refusals of requests with many elements, made in steps.

A handler's `refuse` makes the answer to a whole request at once, which is right for nearly all there are. Here a long
request is refused piece by piece: each piece is the same request with some of its elements, and the arrays of the
answers are put together. Where one topic's partitions are too many for a piece, the topic is named in several rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, Final

from sordini.broker.requests.slice_scheduler import Work
from sordini.protocol.declare import ArrayOf, fields_of, specs_of
from sordini.protocol.errors import ErrorCode

ROWS_PER_PIECE: Final = 500


def refused_in_steps(refuse: Callable[[Any, ErrorCode], Any], request: Any, code: ErrorCode) -> Work[Any]:
    """The answer that refuses a request with one code."""
    return (yield from joined(refuse(piece, code) for piece in pieces(request, ROWS_PER_PIECE)))


def joined(messages: Iterable[Any]) -> Work[Any]:
    """The first of some messages, with the elements of all in its arrays; each is made in ROWS_PER_PIECE steps."""
    whole = None
    for message in messages:
        if whole is None:
            whole = message
        else:
            for name, rows in _arrays(message):
                getattr(whole, name).extend(rows)
        yield ROWS_PER_PIECE
    return whole


def pieces(value: Any, rows_max: int) -> Iterator[Any]:
    """Copies of a message or struct, each with at most so many rows in its arrays; one, if that holds already."""
    if _rows(value, rows_max) <= rows_max:
        yield value
        return
    for name, items in _arrays(value):
        yield from (_with(value, name, some) for some in _runs(items, rows_max))


def _runs(items: list[Any], rows_max: int) -> Iterator[list[Any]]:
    """The elements of an array in runs of few rows; one that has too many itself comes in pieces."""
    run: list[Any] = []
    rows = 0
    for item in items:
        more = _rows(item, rows_max)
        if run and rows + more > rows_max:
            yield run
            run, rows = [], 0
        if more > rows_max:
            yield from ([piece] for piece in pieces(item, rows_max))
        else:
            run.append(item)
            rows += more
    if run:
        yield run


def _rows(value: Any, enough: int) -> int:
    """How many rows an element has, itself and those inside it; counting ends past `enough`."""
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
    """Names of the fields of a message or struct that are arrays; none of anything else."""
    if not hasattr(cls, "__specs__"):
        return ()
    return tuple(field.name for field in fields_of(cls) if isinstance(field.kind, ArrayOf))


def _with(value: Any, name: str, items: list[Any]) -> Any:
    """The same with these elements in one of its arrays and none in the others."""
    kept = {field: getattr(value, field) for field in specs_of(type(value))}
    empty: dict[str, Any] = {field: [] for field, held in kept.items() if type(held) is list}
    return type(value)(**{**kept, **empty, name: items})
