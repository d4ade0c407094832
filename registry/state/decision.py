"""What is decided on a request that changes something: records to be appended, and the answer. Pure."""

from __future__ import annotations

from typing import Any

from sordini.registry.records import HighestIdsKey, Record
from sordini.registry.state.refusals import not_permitted
from sordini.registry.state.registry_state import HIGHEST_IDS, Mode, RegistryState
from sordini.system.named_tuple import NamedTuple


class Decision(NamedTuple):
    """The answer is given when all records are committed, in their order."""

    records: tuple[Record, ...]
    answer: Any


def check_writable(state: RegistryState, subject: str) -> None:
    """Raises Refusal where the mode of a subject allows no change."""
    if state.mode(subject) in (Mode.READONLY, Mode.READONLY_OVERRIDE):
        raise not_permitted(f"Subject {subject} is in read-only mode")


def highest_ids_note(state: RegistryState, removed: frozenset[tuple[str, int]] = frozenset()) -> tuple[Record, ...]:
    """The record that keeps ids from being given again, where it is needed and not there.

    `removed` are versions that are to be removed for good. Compaction forgets them, and with them the highest id of a
    context, if no other version has it.
    """
    needed = {
        context: highest
        for context, highest in state.highest_ids.items()
        if all((record.subject, record.version) in removed for record in state.of_id(context, highest))
    }
    if all(state.noted_ids.get(context, 0) >= highest for context, highest in needed.items()):
        return ()
    return (Record(HighestIdsKey(), {HIGHEST_IDS: dict(state.highest_ids)}),)
