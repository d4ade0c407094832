"""The only reader of time, and the port through which everything else asks for it.

Deciders take the time as an argument; the shells ask a `Clock` that came in through their constructor, so a
simulation can run the whole broker on a clock of its own.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Two clocks: one for people's dates, one that never goes back."""

    def now_ms(self) -> int:
        """Wall-clock time in milliseconds since 1970, for record timestamps and file ages."""

    def monotonic_ms(self) -> int:
        """Milliseconds on a clock that only moves forward, for deadlines and durations."""


class SystemClock:
    """The machine's clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000
