"""How far dead-letter topics are redriven: offsets of groups of the redrive's own, which belong to one filter each.

    sordini-redrive.dlq.orders                 all dead letters below its offsets are done
    sordini-redrive.dlq.orders.5f2a9c01        those that pass its filter, which is the metadata of its offsets

A dead letter is done when it is below the position of any filter that it passes. So a redrive without a filter leaves
out what one with a filter has copied already, and the other way round. Positions are committed in the transaction of
the copies.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Final

from sordini.admin.shares.dead_letters import DeadLetter, LetterFilter
from sordini.protocol.types import TopicPartition
from sordini.system.named_tuple import NamedTuple

PREFIX: Final = "sordini-redrive."
DIGITS: Final = 8
"""Of a filter's hash in the name of its group."""
ALL: Final = LetterFilter()


class Position(NamedTuple):
    """How far one filter's dead letters of one partition are done."""

    letters: LetterFilter
    offset: int
    """Of the next dead letter."""


Positions = Mapping[TopicPartition, tuple[Position, ...]]
"""By partitions of the dead-letter topic."""


def transactional_id(topic: str) -> str:
    """One redrive of a topic at a time: a second one fences the first."""
    return f"{PREFIX}{topic}"


def position_group(topic: str, letters: LetterFilter) -> str:
    """The group whose offsets are the position of a filter."""
    if letters == ALL:
        return f"{PREFIX}{topic}"
    return f"{PREFIX}{topic}.{sha256(position_metadata(letters).encode()).hexdigest()[:DIGITS]}"


def position_metadata(letters: LetterFilter) -> str:
    """A filter as the metadata of its offsets."""
    return json.dumps({"group": letters.group, "reason": letters.reason}, ensure_ascii=False, sort_keys=True)


def read_filter(metadata: str) -> LetterFilter | None:
    """The filter in the metadata of an offset; None where there is none, as of an offset that was reset by hand."""
    try:
        found = json.loads(metadata)
    except ValueError:
        return None
    if not isinstance(found, dict):
        return None
    group, reason = found.get("group"), found.get("reason")
    if not isinstance(group, str | None) or not isinstance(reason, str | None):
        return None
    return LetterFilter(group, reason)


def may_be_positions(topic: str, groups: Iterable[str]) -> list[str]:
    """The groups that may have positions of a dead-letter topic."""
    whole = f"{PREFIX}{topic}"
    return [name for name in groups if name == whole or name.startswith(f"{whole}.")]


def start_offset(positions: Iterable[Position], letters: LetterFilter) -> int:
    """Where a filter's redrive of a partition continues; what is before is done for it."""
    return max((row.offset for row in positions if row.letters in (letters, ALL)), default=0)


def is_done(letter: DeadLetter, positions: Iterable[Position]) -> bool:
    """Whether a dead letter was copied by a redrive with any filter."""
    return any(letter.offset < row.offset and row.letters.passes(letter) for row in positions)
