"""Requests that wait for their partition to be loaded, instead of being answered COORDINATOR_LOAD_IN_PROGRESS.

An offset commit may take offsets.commit.timeout.ms, and a partition is usually loaded in a fraction of that. Apache
Kafka answers COORDINATOR_LOAD_IN_PROGRESS at once; a client that retries only a few times (librdkafka) then reports a
failed commit to its application, though nothing is wrong. Each connection has at most one request here.
"""

from __future__ import annotations

from collections.abc import Callable

from sordini.protocol.errors import ErrorCode
from sordini.replication.ports import CallLater, Timer

OnError = Callable[[ErrorCode], None]


class LoadPurgatory:
    """Delayed requests of one partition, in the order of their arrival."""

    def __init__(self, call_later: CallLater, timeout_ms: int) -> None:
        self._call_later = call_later
        self._timeout_ms = timeout_ms
        self._pending: dict[int, tuple[Callable[[], None], OnError, Timer]] = {}
        self._last_number = 0

    def add(self, on_loaded: Callable[[], None], on_error: OnError) -> None:
        """One of the two is called later, once. After the timeout the error is COORDINATOR_LOAD_IN_PROGRESS."""
        self._last_number += 1
        number = self._last_number

        def expire() -> None:
            del self._pending[number]
            on_error(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

        self._pending[number] = on_loaded, on_error, self._call_later(self._timeout_ms / 1000, expire)

    def complete(self) -> None:
        """The partition is loaded."""
        for on_loaded, _, timer in self._take_all():
            timer.cancel()
            on_loaded()

    def fail(self, code: ErrorCode) -> None:
        """The partition will not be loaded here."""
        for _, on_error, timer in self._take_all():
            timer.cancel()
            on_error(code)

    def _take_all(self) -> list[tuple[Callable[[], None], OnError, Timer]]:
        taken = list(self._pending.values())
        self._pending.clear()
        return taken
