"""Responses of one round of the loop, sent together at its end when the round is a busy one.

A waiting peer is woken by the first bytes sent to it, and on a virtual machine a wake-up costs more than serving a
small request. Sent one by one between requests, every response wakes its peer again; sent in a row, one wake-up finds
many of them. With 16 connections of one small request each, measured: 51 µs of CPU per request one by one, 39 µs
in a row. With few connections it is the other way: peer and broker had better work at the same time.

So responses leave at once while rounds are small. From time to time a few rounds are held back to measure their size,
and as long as they are large each is held back to its end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

LARGE_ROUND_MIN: Final = 6
"""Responses that make a round large."""

SMALL_ROUNDS_MAX: Final = 4
"""Small rounds in a row that are held back before responses leave at once again."""

AT_ONCE_MAX: Final = 256
"""Responses sent at once before the size of rounds is measured again."""


class Outbox:
    """The transports that send when this round of the loop ends."""

    __slots__ = ("_due", "_small_rounds", "at_once_left")

    def __init__(self) -> None:
        self._due: list[Callable[[], None]] = []
        self.at_once_left = AT_ONCE_MAX
        """Responses that are sent at once, each of which counts it down; at 0 a response is held back by `add`."""
        self._small_rounds = 0

    def add(self, send_due: Callable[[], None]) -> None:
        """Call `send_due`, which must not raise, when the round ends."""
        if not self._due:
            asyncio.get_running_loop().call_soon(self._end_round)
        self._due.append(send_due)

    def _end_round(self) -> None:
        due, self._due = self._due, []
        if len(due) >= LARGE_ROUND_MIN:
            self._small_rounds = 0
        else:
            self._small_rounds += 1
            if self._small_rounds == SMALL_ROUNDS_MAX:
                self._small_rounds = 0
                self.at_once_left = AT_ONCE_MAX
        # All in one row: in groups of eight, the 99th percentile on 16 connections was 2.4 ms instead of 1.9 ms.
        for send_due in due:
            send_due()
