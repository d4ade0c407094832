"""When a broker stops leading by its own clock, because the cluster may have given up on it.

A broker that the coordination store does not hear of for a session timeout is dead to the cluster, and others lead in
its place. Until then it serves on, although it cannot change its in-sync sets: a store that is away for a while does
not stop the cluster. The broker's own clock says when that time is over, so that it needs nobody to be told so.

    store silent ─► leads on, until the session may have ended ─► suspended: leads nothing, and keeps its terms
    store answers, same session ─► leads on in the same terms
    session over ─► the terms are over; the controller gives new ones once the broker is registered anew
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from sordini.replication.ports import Clock, Log


class Leaderships(Protocol):
    """The partitions that this broker leads."""

    def suspend(self) -> None:
        """Lead nothing until `resume`: neither read nor append; terms are kept. Harmless when it is so already."""

    def resume(self) -> None:
        """Go on leading in the terms that were kept. Harmless when nothing is suspended."""

    def end_terms(self) -> None:
        """All terms are over; nothing is suspended any more."""


class Timer(Protocol):
    """A call that was put off."""

    def cancel(self) -> None: ...


CallLater = Callable[[float, Callable[[], None]], Timer]


class Fence:
    """Stands between the store's silence and what this broker leads."""

    def __init__(self, leaderships: Leaderships, clock: Clock, call_later: CallLater, log: Log) -> None:
        self._leaderships = leaderships
        self._clock = clock
        self._call_later = call_later
        self._log = log
        self._lives_until_ms = 0
        self._timer: Timer | None = None
        self._is_up = False

    def silent(self, lives_until_ms: int | None) -> None:
        """The store has stopped answering; on the monotonic clock the session lives until then. None: for ever."""
        self._stop_timer()
        if lives_until_ms is None:
            return
        self._lives_until_ms = lives_until_ms
        remaining_ms = max(0, lives_until_ms - self._clock.monotonic_ms())
        self._log.warning("coordination store does not answer; leading on while the session lives", ms=remaining_ms)
        self._look()

    def answers(self) -> None:
        """The store answers again, in the same session."""
        self._stop_timer()
        if self._is_up:
            self._is_up = False
            self._leaderships.resume()
            self._log.info("coordination store answers again in the same session; leading as before")

    def over(self) -> None:
        """The session is over, and with it whatever was led."""
        self._stop_timer()
        self._is_up = False
        self._leaderships.end_terms()

    def _look(self) -> None:
        """Suspend, or look again when it may be time. A timer may be early, and a stopped process's late."""
        self._timer = None
        remaining_ms = self._lives_until_ms - self._clock.monotonic_ms()
        if remaining_ms > 0:
            self._timer = self._call_later(remaining_ms / 1000, self._look)
        elif not self._is_up:
            self._is_up = True
            self._leaderships.suspend()
            self._log.warning("session may be over by this broker's clock; leading nothing until the store answers")

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
