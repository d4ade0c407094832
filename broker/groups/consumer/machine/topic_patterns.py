"""Which topics a regular expression of a subscription names: the whole name has to match.

Any client sends one, so each is matched in time linear in the name, whatever the pattern is, and takes bounded memory.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Generator, Iterable
from typing import Final

from sordini.broker.groups.consumer.machine.patterns.automaton import Automaton
from sordini.broker.groups.consumer.machine.patterns.syntax import SyntaxReader

PATTERNS_MAX: Final = 32
"""Compiled patterns that are kept: 3 MB each at most, and some kilobytes as a rule."""
_CHARACTERS_PER_STEP: Final = 64


class TopicPattern:
    """One compiled pattern."""

    def __init__(self, pattern: str) -> None:
        """Raises PatternError."""
        self._automaton = Automaton(SyntaxReader(pattern).program())

    def matching(self, names: Iterable[str]) -> Generator[int, None, list[str]]:
        """The names that match, in their order; yields the steps made."""
        found: list[str] = []
        for name in names:
            if (yield from self._automaton.matches(name)):
                found.append(name)
            yield 1 + len(name) // _CHARACTERS_PER_STEP
        return found


class TopicPatterns:
    """The compiled patterns that were used last."""

    def __init__(self) -> None:
        self._patterns: OrderedDict[str, TopicPattern] = OrderedDict()

    def __len__(self) -> int:
        return len(self._patterns)

    def compiled(self, pattern: str) -> TopicPattern:
        """Raises PatternError."""
        found = self._patterns.get(pattern)
        if found is None:
            found = TopicPattern(pattern)
        self._patterns[pattern] = found
        self._patterns.move_to_end(pattern)
        if len(self._patterns) > PATTERNS_MAX:
            self._patterns.popitem(last=False)
        return found
