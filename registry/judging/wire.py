"""A schema with its references and earlier versions, and what came of it, as JSON between two processes. Pure.

    {"schemas": [{"type": "AVRO", "text": "...", "references": [["name", "subject", 1, 0]]}],
     "new": 1, "earlier": [0], "level": "FULL", "normalizes": false, "format": ""}
    {"text": "...", "problems": []}   or   {"invalid": "why"}

Each schema is there once, and the last member of a reference is its place: a schema that many others refer to would be
repeated in the text of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sordini.registry.state.registering import Judged, Prepared
from sordini.schemas.registered.types import Level, Reference, SchemaSource, SchemaType
from sordini.system.named_tuple import NamedTuple


class Task(NamedTuple):
    """A schema to be parsed and compared."""

    source: SchemaSource
    earlier: Sequence[SchemaSource]
    """Oldest first."""
    level: Level
    normalizes: bool
    format: str


def task_as_wire(prepared: Prepared) -> dict[str, Any]:
    """What is sent to the child."""
    places: dict[int, int] = {}
    schemas: list[dict[str, Any]] = []
    lists: dict[tuple[int, tuple[Reference, ...]], list[list[Any]]] = {}

    def references(source: SchemaSource) -> list[list[Any]]:
        # The versions of a subject have one in common.
        key = id(source.resolved), source.references
        if key not in lists:
            lists[key] = [[*reference, place(source.resolved[reference.name])] for reference in source.references]
        return lists[key]

    def place(source: SchemaSource) -> int:
        # By identity: a version is resolved once, and its text may be long.
        if id(source) not in places:
            referred = references(source)
            places[id(source)] = len(schemas)
            schemas.append({"type": source.type.value, "text": source.text, "references": referred})
        return places[id(source)]

    new, earlier = place(prepared.source), [place(source) for source in prepared.earlier_sources]
    return {
        "schemas": schemas,
        "new": new,
        "earlier": earlier,
        "level": prepared.level.value,
        "normalizes": prepared.normalizes,
        "format": prepared.format,
    }


def task_from_wire(members: dict[str, Any]) -> Task:
    """The reverse."""
    sources: list[SchemaSource] = []
    for one in members["schemas"]:
        references = tuple(Reference(name, subject, version) for name, subject, version, _ in one["references"])
        resolved = {name: sources[place] for name, _, _, place in one["references"]}
        sources.append(SchemaSource(SchemaType(one["type"]), one["text"], references, resolved))
    earlier = [sources[place] for place in members["earlier"]]
    return Task(
        sources[members["new"]], earlier, Level(members["level"]), bool(members["normalizes"]), members["format"]
    )


def judged_as_wire(judged: Judged) -> dict[str, Any]:
    """What the child sends."""
    return {"text": judged.text, "problems": list(judged.problems)}


def judged_from_wire(members: dict[str, Any]) -> Judged:
    """The reverse. Raises KeyError."""
    return Judged(members["text"], tuple(members["problems"]))
