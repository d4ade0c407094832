"""Readers of texts, of which pairs `name=value` have all their values."""

from __future__ import annotations

from typing import Any

from sordini.pipeline.schemas.kinds import Kind, ListOf, MapOf, StructOf
from sordini.pipeline.schemas.values.misfit import Misfit, Reader
from sordini.pipeline.schemas.values.plain_values import plain_reader


def has_text_form(kind: Kind) -> bool:
    """Whether a value of the kind is one text: of plain kinds, and of lists of them, with commas between."""
    inner = kind.items if isinstance(kind, ListOf) else kind
    return not isinstance(inner, (ListOf, MapOf, StructOf))


def text_reader(kind: Kind) -> Reader:
    """The reader of a kind that has a text form."""
    if not isinstance(kind, ListOf):
        return plain_reader(kind, numbers_as_text=True)
    items = plain_reader(kind.items, numbers_as_text=True)

    def read(value: Any) -> list[Any]:
        found = []
        try:
            for item in value.split(","):
                found.append(items(item))  # noqa: PERF401 - the index is needed below.
        except Misfit as error:
            raise error.within(f"[{len(found)}]") from None
        return found

    return read
