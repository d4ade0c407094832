"""The schemas that a schema refers to, and those that they refer to. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sordini.schemas.registered.types import InvalidSchema, SchemaSource

REFERENCED_MAX: Final = 100
"""Schemas that one schema refers to, those of its references included."""
REFERENCES_DEPTH_MAX: Final = 20
"""References of references."""
TEXT_BYTES_MAX: Final = 1024 * 1024
"""All texts together, in UTF-8."""


def check_texts(source: SchemaSource) -> None:
    """Refuses a schema that is too long with all that it refers to. Raises InvalidSchema."""
    total = sum(len(text.encode(errors="replace")) for text in (source.text, *referenced(source).values()))
    if total > TEXT_BYTES_MAX:
        raise InvalidSchema(f"{total} bytes with its references, more than {TEXT_BYTES_MAX}")


def referenced(source: SchemaSource) -> dict[str, str]:
    """The texts of all references by name, those that a text needs before it.

    Two references of one name in different schemas are one, the first: as in the known registry, names of types, files
    and `$ref` are of the whole. Raises InvalidSchema for an unknown one, a cycle, and beyond the bounds.
    """
    found: dict[str, str] = {}
    for name, text in _walk(source, ()):
        found.setdefault(name, text)
        if len(found) > REFERENCED_MAX:
            raise InvalidSchema(f"more than {REFERENCED_MAX} schemas are referred to")
    return found


def _walk(source: SchemaSource, within: tuple[str, ...], visited: set[str] | None = None) -> Iterator[tuple[str, str]]:
    visited = set() if visited is None else visited
    if len(within) > REFERENCES_DEPTH_MAX:
        raise InvalidSchema(f"references of references, more than {REFERENCES_DEPTH_MAX} levels deep")
    for reference in source.references:
        name = reference.name
        inner = source.resolved.get(name)
        where = f"the reference {name!r} to version {reference.version} of {reference.subject!r}"
        if inner is None:
            raise InvalidSchema(f"{where} is not known")
        if inner.type is not source.type:
            raise InvalidSchema(f"{where} is {inner.type.value}, not {source.type.value}")
        if name in within:
            raise InvalidSchema(f"{where} leads back to itself: {' -> '.join((*within, name))}")
        if name in visited:
            continue
        visited.add(name)
        yield from _walk(inner, (*within, name), visited)
        yield name, inner.text
