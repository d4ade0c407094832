"""Where in a value a field is: another name, or a path like `$.a.b[0]` or `$['a b'].c`. Pure.

A text that does not begin with `$` is a name as it is, dots included. A path goes through objects by names and through
arrays by indexes from 0. Where a value has nothing at a place, or null, the next of a field's sources is taken.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final

from sordini.pipeline.schemas.kinds import SchemaError

Step = str | int
"""A name in an object, or an index in an array."""

STEPS_MAX: Final = 50
INDEX_DIGITS_MAX: Final = 9
_STEP: Final = re.compile(r"""\.([^\s.\[\]'"]+)|\[([0-9]+)\]|\['([^']+)'\]|\["([^"]+)"\]""")


@lru_cache(maxsize=4096)
def source_of(text: str) -> tuple[Step, ...]:
    """The steps to a place. Raises SchemaError."""
    if not text.startswith("$"):
        if not text:
            raise SchemaError("`from` has an empty name")
        return (text,)
    steps: list[Step] = []
    at = 1
    while at < len(text):
        found = _STEP.match(text, at)
        if found is None or (found[2] and len(found[2]) > INDEX_DIGITS_MAX):
            raise SchemaError(f"{text!r} is no path: names and indexes are written as in $.a.b[0]['other name']")
        steps.append(int(found[2]) if found[2] else found[1] or found[3] or found[4])
        at = found.end()
    if not steps or len(steps) > STEPS_MAX:
        raise SchemaError(f"{text!r} is no path: it has 1 to {STEPS_MAX} names and indexes behind $")
    return tuple(steps)


def is_name(text: str) -> bool:
    """Whether a source is a name, not a path."""
    return not text.startswith("$")


def finder(name: str, sources: Sequence[str]) -> Callable[[dict[str, Any]], Any]:
    """A function that returns what an object has for a field, or None."""
    places = [source_of(source) for source in sources] or [(name,)]
    names = [place[0] for place in places if len(place) == 1 and isinstance(place[0], str)]
    if len(names) == len(places):
        if len(names) == 1:
            only = names[0]
            return lambda value: value.get(only)
        return lambda value: next((value[each] for each in names if value.get(each) is not None), None)
    return lambda value: next((found for place in places if (found := _at(value, place)) is not None), None)


Reader = Callable[[Any], Any]
FieldReader = Reader | tuple[Reader, ...]
"""Of what is found for a field: from any of its sources, or one reader for each of them."""


def reading(name: str, sources: Sequence[str], reader: FieldReader) -> tuple[Callable[[dict[str, Any]], Any], Reader]:
    """How a field is found in an object, and how what was found is read."""
    if not isinstance(reader, tuple):
        return finder(name, sources), reader
    finders = [finder(name, (source,)) for source in sources]

    def find(value: dict[str, Any]) -> tuple[int, Any] | None:
        found = ((at, each(value)) for at, each in enumerate(finders))
        return next(((at, item) for at, item in found if item is not None), None)

    return find, lambda found: reader[found[0]](found[1])


def _at(value: Any, place: tuple[Step, ...]) -> Any:
    for step in place:
        if isinstance(step, int):
            value = value[step] if isinstance(value, list) and step < len(value) else None
        else:
            value = value.get(step) if isinstance(value, dict) else None
        if value is None:
            return None
    return value
