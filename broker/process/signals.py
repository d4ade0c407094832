"""Signals, taken by a thread that does nothing but wait for them.

    SIGTERM, SIGINT   stop in order; a second one that does not repeat it, or the deadline, forces the end
    SIGHUP            reopen the files of the log and the audit log, and nothing else

They are blocked in every thread and waited for in this one, so that they are handled also while the loop is blocked:
by the recovery of a large log at the start, or by a disk that hangs at the end. Actions run on the loop; only the
forced exit does not, because it must not depend on the loop. Its result equals that of a crash, from which the next
start recovers.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from asyncio import AbstractEventLoop
from collections.abc import Callable
from typing import NoReturn

from sordini.replication.ports import Clock
from sordini.system.named_tuple import NamedTuple
from sordini.system.processes import is_repeated, wait_for_signal

EXIT_FORCED = 3
STOPPING = frozenset({signal.SIGTERM, signal.SIGINT})
WAITED_FOR = STOPPING | {signal.SIGHUP}


class SignalActions(NamedTuple):
    """What signals do. `stop` and `reopen` run on the loop, `before_forced_exit` in the thread, right before exit."""

    stop: Callable[[], None]
    reopen: Callable[[], None]
    before_forced_exit: Callable[[str], None]
    """Gets the reason of a forced exit; it must not wait for the loop."""


def block_signals() -> None:
    """Block the signals for all threads. Call it before any thread is started: threads inherit the mask."""
    signal.pthread_sigmask(signal.SIG_BLOCK, WAITED_FOR)


class SignalThread:
    """Waits for signals until the process ends, also while the interpreter joins its threads."""

    def __init__(self, loop: AbstractEventLoop, actions: SignalActions, clock: Clock, deadline_ms: int) -> None:
        """`deadline_ms` is how long a stop may take."""
        self._loop = loop
        self._actions = actions
        self._clock = clock
        self._deadline_ms = deadline_ms
        self._thread = threading.Thread(target=self._wait, name="sordini-signals", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _wait(self) -> None:
        while signal.sigwait(WAITED_FOR) == signal.SIGHUP:
            self._on_loop(self._actions.reopen)
        first_ms = self._clock.monotonic_ms()
        self._on_loop(self._actions.stop)
        end_ms = first_ms + self._deadline_ms
        while (left_ms := end_ms - self._clock.monotonic_ms()) > 0:
            found = wait_for_signal(WAITED_FOR, left_ms / 1000)
            if found in STOPPING:
                if not is_repeated(first_ms, self._clock.monotonic_ms()):
                    self._force("a second signal")
            elif found is not None:
                self._on_loop(self._actions.reopen)
        self._force(f"{self._deadline_ms} ms (sordini.shutdown.deadline.ms)")

    def _on_loop(self, action: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # The loop is closed: the process is about to end.
            self._loop.call_soon_threadsafe(action)

    def _force(self, reason: str) -> NoReturn:
        self._actions.before_forced_exit(reason)
        os._exit(EXIT_FORCED)
