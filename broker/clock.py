"""The only reader of time, and the ports through which everything else gets it.

Deciders take the time as an argument; the shells read a `Clock` that is passed to their constructor, so a simulation
can run the whole broker on virtual time. The text form of a time is here, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol


class Clock(Protocol):
    """Two clocks: the wall clock, and one that never goes back."""

    def now_ms(self) -> int:
        """Wall-clock time in milliseconds since 1970, for record timestamps and file ages."""

    def monotonic_ms(self) -> int:
        """Milliseconds on a clock that only moves forward, for deadlines and durations."""


class Timer(Protocol):
    """A call that is scheduled."""

    def cancel(self) -> None: ...


CallLater = Callable[[float, Callable[[], None]], Timer]
"""Schedules a call on the loop, after a delay in seconds."""

monotonic_ns: Callable[[], int] = time.monotonic_ns
"""As `Clock.monotonic_ms`, in nanoseconds, for single requests. A bare function: its cost is paid twice for each."""


class SystemClock:
    """The machine's clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000


def utc_text(time_ms: int) -> str:
    """A time as ISO 8601 in UTC: `2026-11-21T18:30:59.123Z`; a time outside the calendar stays a number."""
    from datetime import UTC, datetime, timedelta  # Late: a broker's start does not need it.

    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=time_ms)
    except OverflowError:
        return str(time_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def utc_ms(text: str) -> int:
    """Read an ISO 8601 time, UTC where it names no zone, as milliseconds since 1970. Raises ValueError."""
    from datetime import UTC, datetime, timedelta

    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is not a time: allowed is 2026-11-21, 2026-11-21T18:30 or 2026-11-21T18:30:59.5Z"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
