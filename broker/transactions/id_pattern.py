"""The regular expression of ListTransactions (KIP-1152), matched in time linear in the id.

A client sends it, so an engine that backtracks would let it occupy the broker. A pattern that is not served is refused
by INVALID_REGULAR_EXPRESSION. Pure.
"""

from __future__ import annotations

from typing import Final

from sordini.broker.configuration.linear_pattern import RE2, LinearPattern, PatternError
from sordini.protocol.errors import BrokerError, ErrorCode

PLACES_PER_STEP: Final = 2_000
"""Of pattern times id, that are compared in the time of one step."""


class IdPattern:
    """One pattern."""

    def __init__(self, pattern: str) -> None:
        """Raises BrokerError INVALID_REGULAR_EXPRESSION."""
        try:
            self._pattern = LinearPattern(pattern, RE2)
        except PatternError as error:
            raise BrokerError(ErrorCode.INVALID_REGULAR_EXPRESSION, str(error)) from None

    def cost_of(self, text: str) -> int:
        """The steps of one match."""
        return 1 + self._pattern.size * len(text) // PLACES_PER_STEP

    def matches(self, text: str) -> bool:
        """Whether the pattern matches all of the text."""
        return self._pattern.find(text, is_whole=True) is not None
