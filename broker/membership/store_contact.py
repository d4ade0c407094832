"""Whether the coordination store answers this broker, and whether its session may have ended: one place for both.

A broker serves on while the store is silent, and across the end of its session: it keeps the leader epochs that it
has until a controller's command names a newer one. That is safe by the rules of replication alone (KIP-320): a leader
that was superseded cannot shrink its in-sync set, which the store or the controller would have to change, and the
replicas of the newer epoch do not fetch from it. So it acknowledges nothing to acks=all, and what it serves below its
high watermark is committed. Only acks=0 and acks=1, which promise less, may be lost with it.

    ANSWERS ── connection lost ─► SILENT ── the session timeout has passed on this broker's clock ─► DOUBTFUL
       ▲  └─────── the same session goes on ◄──┴───────────────────────────────────────────────────────┘
       └── registered anew ◄── EXPIRED ◄── the store says that the session has ended, from any state
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Protocol

from sordini.replication.ports import Clock, Log


class ContactState(Enum):
    """What this broker knows of its session with the coordination store."""

    ANSWERS = "answers"
    SILENT = "silent"
    """No connection; the session lives, as the store keeps it for the session timeout."""
    DOUBTFUL = "doubtful"
    """Silent for longer than the session timeout: other brokers may lead by now what this one leads."""
    EXPIRED = "expired"
    """The session has ended, and this broker is not registered in a new one yet."""


class Doubt(Protocol):
    """Whether other brokers may lead by now what this one leads."""

    @property
    def is_doubtful(self) -> bool: ...


class _NoDoubt:
    is_doubtful = False


NO_DOUBT = _NoDoubt()
"""Where writes are accepted in doubt, too."""


class Timer(Protocol):
    """A call that was put off."""

    def cancel(self) -> None: ...


CallLater = Callable[[float, Callable[[], None]], Timer]


class StoreContact:
    """The state of the contact; `Membership` reports the changes.

    `is_doubtful` is a plain attribute, as every Produce request with acks=0 or acks=1 may test it.
    """

    def __init__(self, clock: Clock, call_later: CallLater, log: Log) -> None:
        self._clock = clock
        self._call_later = call_later
        self._log = log
        self._is_silent = False
        self._is_registered = True
        self._lives_until_ms = 0
        self._timer: Timer | None = None
        self.is_doubtful = False
        """The registration may have ended: the state is DOUBTFUL or EXPIRED."""
        self.lost_tree = ""
        """Why the tree that the store has is not this cluster's, while the broker is not registered for that reason;
        otherwise ""."""
        self.silent_since_ms: int | None = None
        """When the state left ANSWERS, on the monotonic clock; None while it is ANSWERS."""

    @property
    def state(self) -> ContactState:
        if not self._is_registered:
            return ContactState.EXPIRED
        if not self._is_silent:
            return ContactState.ANSWERS
        return ContactState.DOUBTFUL if self.is_doubtful else ContactState.SILENT

    @property
    def silent_ms(self) -> int:
        """For how long the state has not been ANSWERS; 0 while it is."""
        return 0 if self.silent_since_ms is None else self._clock.monotonic_ms() - self.silent_since_ms

    def silent(self, lives_until_ms: int | None) -> None:
        """The store has stopped answering. On the monotonic clock the session lives until then.

        None is for an embedded store, which ends no session and is back at once: that changes nothing here.
        """
        if lives_until_ms is None:
            return
        self._stop_timer()
        self._is_silent, self._lives_until_ms = True, lives_until_ms
        if self._is_registered:
            self._began()
            self._log.warning(
                "coordination store disconnected; fetch, produce with acks=all and groups continue, changes of in-sync "
                "sets, leaders, topics and settings wait",
                session_expires_in_ms=self._remaining_ms(),
            )
            self._look()

    def answers(self) -> None:
        """The store answers: in the same session or, after `over`, in one in which the broker is not registered yet."""
        self._stop_timer()
        if self._is_silent and self._is_registered:
            self._log.info("coordination store reconnected in the same session", silent_ms=self.silent_ms)
            self._ended()
        self._is_silent = False

    def over(self) -> None:
        """The store says that the session has ended."""
        self._stop_timer()
        self._began()
        self._is_silent = self._is_registered = False
        self.is_doubtful = True
        self._log.warning(
            "session expired; registering again, still leading in the current leader epochs until a controller names "
            "newer ones"
        )

    def registered(self) -> None:
        """The broker has its registration; harmless when it had it before."""
        if self._is_registered:
            return
        self._is_registered = True
        self._log.info("coordination store reconnected; registered in a new session", silent_ms=self.silent_ms)
        self._ended()
        if self._is_silent:  # The connection was lost right behind the registration's answer.
            self.silent(self._lives_until_ms)

    def _began(self) -> None:
        if self.silent_since_ms is None:
            self.silent_since_ms = self._clock.monotonic_ms()

    def _ended(self) -> None:
        self.is_doubtful = False
        self.silent_since_ms = None

    def _remaining_ms(self) -> int:
        """Until the session may have ended."""
        return max(0, self._lives_until_ms - self._clock.monotonic_ms())

    def _look(self) -> None:
        """Look again when the session may have ended. A timer may be early, and a stopped process's late."""
        self._timer = None
        remaining_ms = self._remaining_ms()
        if remaining_ms > 0:
            self._timer = self._call_later(remaining_ms / 1000, self._look)
        elif not self.is_doubtful:
            self.is_doubtful = True
            self._log.warning(
                "session may have expired by this broker's clock; still leading in the current leader epochs",
                silent_ms=self.silent_ms,
            )

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
