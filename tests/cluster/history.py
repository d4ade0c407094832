"""What clients saw, and the laws it must keep (RELIABILITY's I1 to I6 and I11, from the clients' side)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from typing import NamedTuple

Partition = tuple[str, int]
Seen = Mapping[Partition, list[tuple[int, bytes]]]
"""Offsets and values, by partition, in the order of reading."""


class Fate(Enum):
    """What a producer knows of a record or a transaction; UNKNOWN may have happened or not."""

    DONE = "done"
    UNDONE = "undone"
    UNKNOWN = "unknown"


@dataclass
class Sent:
    """One record. `number` is the order of sending; `offset` what the broker acknowledged."""

    partition: Partition
    value: bytes
    number: int
    fate: Fate = Fate.UNKNOWN
    offset: int | None = None


class Transaction(NamedTuple):
    """Its values, and whether it was committed (DONE) or aborted (UNDONE)."""

    values: frozenset[bytes]
    fate: Fate


@dataclass
class History:
    """All that clients did. Values are unique."""

    sent: list[Sent] = field(default_factory=list)
    transactions: list[Transaction] = field(default_factory=list)

    @property
    def acknowledged(self) -> list[Sent]:
        return [one for one in self.sent if one.fate is Fate.DONE]


def violations(history: History, final: Seen, polls: Iterable[Seen] = ()) -> list[str]:
    """Every broken law as a line; `final` was read at the end and uncommitted, `polls` while it went on."""
    return [
        *_lost(history, final),
        *_duplicates(final),
        *_inconsistent(history, final, polls),
        *_disorder(history, final),
        *_phantoms(history, final),
    ]


def broken_transactions(history: History, committed: Seen, polls: Iterable[Seen] = ()) -> list[str]:
    """The laws of transactions: `committed` was read at the end by a read_committed consumer, as all `polls` were."""
    found = _values(committed)
    shown = found.union(*(_values(poll) for poll in polls))
    problems = []
    for one in history.transactions:
        there = one.values & found
        if one.fate is Fate.DONE and there != one.values:
            problems.append(f"I6 a committed transaction lacks {sorted(one.values - there)[:3]}")
        if one.fate is Fate.UNDONE and one.values & shown:
            problems.append(f"I5 an aborted transaction shows {sorted(one.values & shown)[:3]}")
        if one.fate is Fate.UNKNOWN and there and there != one.values:
            problems.append(f"I6 a transaction is torn: {sorted(there)[:3]} without {sorted(one.values - there)[:3]}")
    return problems


def _values(seen: Seen) -> frozenset[bytes]:
    return frozenset(value for rows in seen.values() for _, value in rows)


def _lost(history: History, final: Seen) -> list[str]:
    there = {(partition, value) for partition, rows in final.items() for _, value in rows}
    return [f"I1 lost {one}" for one in history.acknowledged if (one.partition, one.value) not in there]


def _duplicates(final: Seen) -> list[str]:
    offsets: dict[bytes, list[tuple[Partition, int]]] = defaultdict(list)
    for partition, rows in final.items():
        for offset, value in rows:
            offsets[value].append((partition, offset))
    return [f"I2 {value!r} is at {places}" for value, places in offsets.items() if len(places) > 1]


def _inconsistent(history: History, final: Seen, polls: Iterable[Seen]) -> list[str]:
    at = {(partition, offset): value for partition, rows in final.items() for offset, value in rows}
    reported = [(one.partition, one.offset, one.value) for one in history.acknowledged if one.offset is not None]
    reported += [(partition, *row) for poll in polls for partition, rows in poll.items() for row in rows]
    return [
        f"I3 {partition} offset {offset} was {value!r} and is {at.get((partition, offset))!r}"
        for partition, offset, value in reported
        if at.get((partition, offset)) != value
    ]


def _disorder(history: History, final: Seen) -> list[str]:
    numbers = {one.value: one.number for one in history.sent}
    problems = []
    for partition, rows in final.items():
        order = [numbers[value] for _, value in rows if value in numbers]
        problems += [f"I4 {partition}: {b} comes after {a}" for a, b in pairwise(order) if b < a]
    return problems


def _phantoms(history: History, final: Seen) -> list[str]:
    known = {one.value for one in history.sent}.union(*(one.values for one in history.transactions))
    return [f"I11 {value!r} was not sent" for value in sorted(_values(final) - known)]
