"""How the records of a run's topics are read as inputs and outputs: the lanes of what a program does. Pure."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from tests.exactly_once.checker import Lanes, Output

Rows = Mapping[tuple[str, int], Sequence[tuple[int, bytes]]]
"""Offsets and values by topic and partition."""
WORDS: Final = 7


class View(Protocol):
    def inputs(self, rows: Rows) -> dict[str, list[str]]:
        """What is committed in the source, by lane."""

    def outputs(self, rows: Rows) -> Lanes:
        """What a reader of the sink got, by lane."""


class Copies:
    """Each output is in the partition of its input, which it names; our own copiers name their transaction, too."""

    def inputs(self, rows: Rows) -> dict[str, list[str]]:
        return {str(number): [value.decode() for _, value in some] for (_, number), some in rows.items()}

    def outputs(self, rows: Rows) -> Lanes:
        return {str(number): [_copy(offset, value) for offset, value in some] for (_, number), some in rows.items()}


class Counts:
    """The program counts words: of the nth record with a word it makes `word#n`, in that order."""

    def inputs(self, rows: Rows) -> dict[str, list[str]]:
        counts = Counter(word_of(value.decode()) for some in rows.values() for _, value in some)
        return {word: [f"{word}#{number}" for number in range(1, count + 1)] for word, count in counts.items()}

    def outputs(self, rows: Rows) -> Lanes:
        lanes: dict[str, list[Output]] = defaultdict(list)
        for some in rows.values():
            for offset, value in some:
                lanes[value.decode().partition("#")[0]].append(Output(offset, value.decode()))
        return lanes


def word_of(value: str) -> str:
    """The word in a value of the feeder's, `name-transaction-number`: one of WORDS."""
    return f"word{int(value.split('-')[-2]) % WORDS}"


def _copy(offset: int, value: bytes) -> Output:
    return Output(offset, **json.loads(value)) if value.startswith(b"{") else Output(offset, value.decode())
