"""Signals, taken by a thread that does nothing but wait for them.

    SIGTERM, SIGINT   stop in order; a second one, or the deadline, forces the end
    SIGHUP            reopen the log file, and nothing else

They are blocked in every thread and waited for in this one, so that they arrive also while the loop's thread is held:
by the recovery of a large log at the start, or by a disk that does not answer at the end. What is asked of the broker
runs on its loop; only the forced end does not, for it must not depend on it. What was not finished then is what a
crash would have left, and the next start mends it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from asyncio import AbstractEventLoop
from collections.abc import Callable
from typing import NamedTuple, NoReturn

from sordini.broker.clock import Clock

EXIT_FORCED = 3
STOPPING = frozenset({signal.SIGTERM, signal.SIGINT})
WAITED_FOR = STOPPING | {signal.SIGHUP}


class SignalActions(NamedTuple):
    """What a signal does. `stop` and `reopen` run on the loop; `before_forced_exit` in the thread, right before the end."""

    stop: Callable[[], None]
    reopen: Callable[[], None]
    before_forced_exit: Callable[[str], None]
    """Says why the exit is forced; it must not wait for the loop."""


def block_signals() -> None:
    """Keep the signals for the thread. Before any other thread is started: threads inherit this."""
    signal.pthread_sigmask(signal.SIG_BLOCK, WAITED_FOR)


class SignalThread:
    """Waits for signals until the process ends, the threads that the interpreter waits for at its end included."""

    def __init__(self, loop: AbstractEventLoop, reactions: SignalActions, clock: Clock, deadline_ms: int) -> None:
        """`deadline_ms` is how long a stop may take."""
        self._loop = loop
        self._reactions = reactions
        self._clock = clock
        self._deadline_ms = deadline_ms
        self._thread = threading.Thread(target=self._wait, name="sordini-signals", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _wait(self) -> None:
        while signal.sigwait(WAITED_FOR) == signal.SIGHUP:
            self._on_loop(self._reactions.reopen)
        self._on_loop(self._reactions.stop)
        end_ms = self._clock.monotonic_ms() + self._deadline_ms
        while (left_ms := end_ms - self._clock.monotonic_ms()) > 0:
            found = signal.sigtimedwait(WAITED_FOR, left_ms / 1000)
            if found is not None and found.si_signo in STOPPING:
                self._force("a second signal")
            elif found is not None:
                self._on_loop(self._reactions.reopen)
        self._force(f"{self._deadline_ms} ms (sordini.shutdown.deadline.ms)")

    def _on_loop(self, reaction: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # The loop is closed: the end is near anyway.
            self._loop.call_soon_threadsafe(reaction)

    def _force(self, reason: str) -> NoReturn:
        self._reactions.before_forced_exit(reason)
        os._exit(EXIT_FORCED)
