"""Commits that come while their group is still read, and wait for that instead of being sent away.

A commit may take offsets.commit.timeout.ms, and a partition is usually read in a fraction of that. Apache Kafka answers
COORDINATOR_LOAD_IN_PROGRESS at once; a client that asks again only a few times (librdkafka) then tells its application
that the commit failed, though nothing is wrong. There is at most one for each connection.
"""

from __future__ import annotations

from collections.abc import Callable

from sordini.broker.coordinators.ports import CallLater, Timer
from sordini.protocol.errors import ErrorCode

Refuse = Callable[[ErrorCode], None]


class Parked:
    """Those that wait, in the order in which they came."""

    def __init__(self, call_later: CallLater, timeout_ms: int) -> None:
        """`timeout_ms` is offsets.commit.timeout.ms."""
        self._call_later = call_later
        self._timeout_ms = timeout_ms
        self._waiting: dict[int, tuple[Callable[[], None], Refuse, Timer]] = {}
        self._entered = 0

    def add(self, resume: Callable[[], None], refuse: Refuse) -> None:
        """Call one of the two, later and once: `resume` when all is read, `refuse` with the code of why not."""
        self._entered += 1
        number = self._entered

        def expire() -> None:
            del self._waiting[number]
            refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

        self._waiting[number] = resume, refuse, self._call_later(self._timeout_ms / 1000, expire)

    def resume(self) -> None:
        """All is read."""
        for resume, _, timer in self._taken():
            timer.cancel()
            resume()

    def refuse(self, code: ErrorCode) -> None:
        """Nothing will be read here any more."""
        for _, refuse, timer in self._taken():
            timer.cancel()
            refuse(code)

    def _taken(self) -> list[tuple[Callable[[], None], Refuse, Timer]]:
        taken = list(self._waiting.values())
        self._waiting.clear()
        return taken
