"""Whether the coordination store answers this broker, and whether its session may have expired.

A broker keeps serving while the store is silent, and after its session has expired: it keeps its leader epochs until a
command of a controller names a newer one. The rules of replication make that safe (KIP-320): a superseded leader
cannot shrink its ISR, because the store or the controller would have to change it, and the replicas of the newer epoch
do not fetch from it. So it acknowledges no write with acks=all, and all records below its high watermark are
committed. Only writes with acks=0 and acks=1 can be lost.

    ANSWERS ── connection lost ─► SILENT ── the session timeout has passed on this broker's clock ─► DOUBTFUL
       ▲  └───── reconnected, same session ◄───┴───────────────────────────────────────────────────────┘
       └── registered again ◄── EXPIRED ◄── the store reports that the session has expired, from any state
"""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from sordini.replication.ports import CallLater, Clock, Logger, Timer


class ContactState(Enum):
    """The state of this broker's session with the coordination store."""

    ANSWERS = "answers"
    SILENT = "silent"
    """No connection; the store keeps the session for the session timeout."""
    DOUBTFUL = "doubtful"
    """Silent for longer than the session timeout: other brokers may lead this broker's partitions by now."""
    EXPIRED = "expired"
    """The session has expired, and this broker is not registered in a new one yet."""


class SessionDoubt(Protocol):
    """Whether other brokers may lead this broker's partitions by now."""

    @property
    def is_doubtful(self) -> bool: ...


class _NoDoubt:
    is_doubtful = False


NO_DOUBT = _NoDoubt()
"""Accepts writes with acks=0 and acks=1 in every state (`sordini.leader.acks.require.session=false`)."""


class StoreContact:
    """The state; `Membership` reports the events.

    `is_doubtful` is a plain attribute, because every Produce request with acks=0 or acks=1 may read it.
    """

    def __init__(self, clock: Clock, call_later: CallLater, log: Logger) -> None:
        self._clock = clock
        self._call_later = call_later
        self._log = log
        self._is_silent = False
        self._is_registered = True
        self._lives_until_ms = 0
        self._timer: Timer | None = None
        self.is_doubtful = False
        """Whether the state is DOUBTFUL or EXPIRED."""
        self.lost_tree = ""
        """Why the store's tree is not this cluster's, while that prevents the registration; otherwise empty."""
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
        """For how long the state has not been ANSWERS; 0 in that state."""
        return 0 if self.silent_since_ms is None else self._clock.monotonic_ms() - self.silent_since_ms

    def disconnected(self, lives_until_ms: int | None) -> None:
        """The connection is lost; the session expires at `lives_until_ms` on the monotonic clock.

        None stands for an embedded store, which expires no session and reconnects at once: nothing changes here.
        """
        if lives_until_ms is None:
            return
        self._stop_timer()
        self._is_silent, self._lives_until_ms = True, lives_until_ms
        if self._is_registered:
            self._outage_began()
            self._log.warning(
                "coordination store disconnected; fetch, produce with acks=all and groups continue, changes of "
                "in-sync sets, leaders, topics and settings wait",
                session_expires_in_ms=self._remaining_ms(),
            )
            self._check_expiry()

    def connected(self) -> None:
        """The store answers, in the same session or, after `expired`, in one without a registration yet."""
        self._stop_timer()
        if self._is_silent and self._is_registered:
            self._log.info("coordination store reconnected in the same session", silent_ms=self.silent_ms)
            self._outage_ended()
        self._is_silent = False

    def expired(self) -> None:
        """The session has expired."""
        self._stop_timer()
        self._outage_began()
        self._is_silent = self._is_registered = False
        self.is_doubtful = True
        self._log.warning(
            "session expired; registering again, still leading in the current leader epochs until a controller names "
            "newer ones"
        )

    def registered(self) -> None:
        """The broker is registered; may be called repeatedly."""
        if self._is_registered:
            return
        self._is_registered = True
        self._log.info("coordination store reconnected; registered in a new session", silent_ms=self.silent_ms)
        self._outage_ended()
        if self._is_silent:  # The connection was lost right after the answer to the registration.
            self.disconnected(self._lives_until_ms)

    def _outage_began(self) -> None:
        if self.silent_since_ms is None:
            self.silent_since_ms = self._clock.monotonic_ms()

    def _outage_ended(self) -> None:
        self.is_doubtful = False
        self.silent_since_ms = None

    def _remaining_ms(self) -> int:
        """Until the session may have expired."""
        return max(0, self._lives_until_ms - self._clock.monotonic_ms())

    def _check_expiry(self) -> None:
        """Enter DOUBTFUL when the session may have expired. A timer may be early, or late after a stopped process."""
        self._timer = None
        remaining_ms = self._remaining_ms()
        if remaining_ms > 0:
            self._timer = self._call_later(remaining_ms / 1000, self._check_expiry)
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
