"""The seven levels: with which earlier schemas a new one is compared, and in which direction. Pure.

Backward means that the new schema reads what the earlier one has written, forward the reverse, full both; without
transitive only the last one is compared (Confluent Platform, "Schema Evolution and Compatibility"). The newest is
compared first, and the first that does not fit ends the comparison, as clients know it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sordini.schemas.registered.types import Level, ParsedSchema, Roles

DIFFERENT_TYPE: Final = "Incompatible because of different schema type"
SHOWN_CHARACTERS_MAX: Final = 10 * 1024
"""Of the earlier schema, in messages."""
_NEW_READS: Final = Roles(reader="new", writer="old")
_OLD_READS: Final = Roles(reader="old", writer="new")
_BACKWARD: Final = {Level.BACKWARD, Level.BACKWARD_TRANSITIVE, Level.FULL, Level.FULL_TRANSITIVE}
_FORWARD: Final = {Level.FORWARD, Level.FORWARD_TRANSITIVE, Level.FULL, Level.FULL_TRANSITIVE}
_TRANSITIVE: Final = {Level.BACKWARD_TRANSITIVE, Level.FORWARD_TRANSITIVE, Level.FULL_TRANSITIVE}


def incompatibilities(
    level: Level, new: ParsedSchema, earlier: Sequence[ParsedSchema], versions: Sequence[int] = ()
) -> list[str]:
    """Why a schema may not follow `earlier`, which are the oldest first; empty: it may.

    Messages name the version that does not fit where `versions` has those of `earlier`.
    """
    assert len(versions) in {0, len(earlier)}
    count = len(earlier) if level in _TRANSITIVE else 1
    for place in reversed(range(len(earlier))[-count:]):
        if found := _between(level, new, earlier[place]):
            version = [f"{{oldSchemaVersion: {versions[place]}}}"] if versions else []
            return [*found, *version, _shown(earlier[place].canonical)] if found != [DIFFERENT_TYPE] else found
    return []


def _between(level: Level, new: ParsedSchema, old: ParsedSchema) -> list[str]:
    if level is Level.NONE:
        return []
    if new.type is not old.type:
        return [DIFFERENT_TYPE]
    found = old.unreadable(new, _OLD_READS) if level in _FORWARD else []
    if level in _BACKWARD:
        found = [*found, *new.unreadable(old, _NEW_READS)]
    return found


def _shown(text: str) -> str:
    if len(text) <= SHOWN_CHARACTERS_MAX:
        return f"{{oldSchema: '{text}'}}"
    return f"{{oldSchema: <truncated> '{text[:SHOWN_CHARACTERS_MAX]}...'}}"
