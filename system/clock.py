"""The only reader of time: the system's clocks, and the text form of a time.

Deciders take the time as an argument; the shells read a `Clock` (`replication/ports.py`) that is passed to their
constructor, so a simulation can run the whole broker on virtual time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

monotonic_ns: Callable[[], int] = time.monotonic_ns
"""The monotonic clock in nanoseconds, for single requests. A bare function: its cost is paid twice for each."""

thread_ns: Callable[[], int] = time.thread_time_ns
"""CPU time of the calling thread in nanoseconds: what other programs of the machine take does not count."""


class SystemClock:
    """The machine's clocks; implements `Clock`."""

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


def utc_moment(time_ms: int) -> datetime:
    """A time as the moment in UTC that libraries take. Raises OverflowError outside the calendar."""
    from datetime import UTC, datetime, timedelta

    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=time_ms)


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


def local_timestamp() -> str:
    """The time of day as log lines have it: local, with microseconds (ISO 8601)."""
    from datetime import datetime

    return datetime.now().isoformat(timespec="microseconds")  # noqa: DTZ005 - operators read local time.
