"""Graceful stop of a running query: the current batch is finished, and no further batch begins.

SIGTERM and the first Ctrl-C request the stop; a second Ctrl-C does not wait. The query's own thread passes a gate
before each batch, and a stop request shuts the gate: no batch is interrupted, and none begins after it.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from sordini.system.processes import is_repeated


class Stopped(Exception):
    """The gate is shut: raised in a query to prevent another batch; not an error."""


class BatchGate:
    """Counts running batches, and admits none once it is shut, by `shut` or by an event of the caller's."""

    def __init__(self, event: threading.Event | None = None) -> None:
        self._event = event
        self._lock = threading.Condition()
        self._is_shut = False
        self._inside = 0

    @property
    def is_shut(self) -> bool:
        """Whether a stop was requested. Safe in a signal handler's thread: it takes no lock."""
        return self._is_shut or (self._event is not None and self._event.is_set())

    def shut(self) -> None:
        """Admit no more batches; only sets a flag, so that signal handlers may call it at any point."""
        self._is_shut = True

    @contextmanager
    def passed(self) -> Iterator[None]:
        """Hold the gate for the duration of a batch. Raises Stopped."""
        with self._lock:
            if self.is_shut:
                raise Stopped
            self._inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
                self._lock.notify_all()

    def wait_until_empty(self, timeout_seconds: float) -> bool:
        """Whether no batch is running, now or within the timeout."""
        with self._lock:
            return self._lock.wait_for(lambda: not self._inside, timeout_seconds)


@contextmanager
def stop_on_signals(gate: BatchGate) -> Iterator[None]:
    """Let SIGTERM and SIGINT shut the gate while this lasts; to be entered after Spark has set its own handlers.

    Outside the main thread Python allows no handlers, and signals are handled as before.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    first_ms = 0

    def ask(number: int, _frame: FrameType | None) -> None:
        nonlocal first_ms
        now_ms = int(time.monotonic() * 1000)
        if not gate.is_shut:
            first_ms = now_ms
        elif number == signal.SIGINT and not is_repeated(first_ms, now_ms):
            raise KeyboardInterrupt
        gate.shut()

    before = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
