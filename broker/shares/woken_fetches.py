"""Fetches of share groups that are due together: of ten thousand groups that wait for one partition, when it grows.

The first ones continue where they are woken, so that few wait for nothing. The rest continue in slices, in their order,
and other requests are served in between.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from sordini.broker.requests.slice_scheduler import SliceScheduler, Work

AT_ONCE: Final = 100
"""Until the loop has had a round: about 7 ms."""
STEPS: Final = 7
"""Of one: it reads, acquires and is answered in about 70 µs."""


class WokenFetches:
    """Those of one broker."""

    def __init__(self, slices: SliceScheduler) -> None:
        self._slices = slices
        self._waiting: deque[Callable[[], None]] = deque()
        self._begun = 0
        """In this round of the loop."""
        self._is_round_due = False

    def resume(self, fetch: Callable[[], None]) -> None:
        """Have a fetch continue, now or in its turn."""
        if not self._is_round_due:
            self._begin_round()
        if self._begun < AT_ONCE:
            self._begun += 1
            fetch()
        else:
            self._waiting.append(fetch)

    def _begin_round(self) -> None:
        self._is_round_due, self._begun = True, 0
        self._slices.add(self._rest(), _ignore, _raise)

    def _rest(self) -> Work[None]:
        try:
            while self._waiting:
                self._waiting.popleft()()
                yield STEPS
        finally:
            self._is_round_due = False
            if self._waiting:  # One has raised: that is its own affair.
                self._begin_round()


def _ignore(_result: None) -> None:
    """Nothing is left to do."""


def _raise(error: Exception) -> None:
    raise error
