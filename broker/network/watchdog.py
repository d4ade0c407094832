"""Measures the lag of the event loop, and logs what stalls it.

A timer on the loop measures how much later than scheduled it runs: that is the lag, kept as plain integers. Beside the
loop one thread waits (in a call that releases the interpreter lock) and checks a few times a second whether the timer
still runs; when it has not for longer than the threshold, the thread logs the stack of the loop's thread, once per
stall: the innermost calls as `folder/file.py:line function`, the innermost last. A simulation has no thread:
`threshold_ms` 0 keeps only the numbers.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from itertools import islice
from types import CodeType
from typing import Final

from sordini.replication.ports import Clock, Logger

BEAT_MS: Final = 100
WINDOW_MS: Final = 30_000
"""The largest lag is that of this window and of the one before. Reading it changes nothing."""
STACK_FRAMES_MAX: Final = 20
PATH_PARTS: Final = 2
"""How much of a file's path is logged: its folder and its name."""


class Watchdog:
    """Watches the loop it is started on."""

    def __init__(self, clock: Clock, log: Logger, threshold_ms: int = 1000) -> None:
        self._clock = clock
        self._log = log
        self._threshold_ms = threshold_ms
        self._beat: asyncio.TimerHandle | None = None
        self._beat_ms = 0
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()
        self._watched_thread = 0
        self.lag_ms = 0
        """Lag of the last beat."""
        self._window_began_ms = 0
        self.lag_ms_max = 0
        """The largest lag of the present window."""
        self._lag_ms_max_before = 0
        self.lag_ms_total = 0
        self.checks = 0
        self.stalls = 0

    def start(self) -> None:
        """Start on the running loop."""
        self._watched_thread = threading.get_ident()
        self._beat_ms = self._window_began_ms = self._clock.monotonic_ms()
        self._beat = asyncio.get_running_loop().call_later(BEAT_MS / 1000, self._on_beat)
        if self._threshold_ms > 0:
            self._thread = threading.Thread(target=self._watch, name="sordini-watchdog", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End the beat and the thread."""
        if self._beat is not None:
            self._beat.cancel()
            self._beat = None
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    @property
    def lag_ms_worst(self) -> int:
        """The largest lag of the last 30 to 60 seconds."""
        return max(self.lag_ms_max, self._lag_ms_max_before)

    def _on_beat(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._window_began_ms >= WINDOW_MS:
            self._lag_ms_max_before, self.lag_ms_max, self._window_began_ms = self.lag_ms_max, 0, now_ms
        self.lag_ms = max(0, now_ms - self._beat_ms - BEAT_MS)
        self.lag_ms_max = max(self.lag_ms_max, self.lag_ms)
        self.lag_ms_total += self.lag_ms
        self.checks += 1
        self._beat_ms = now_ms
        self._beat = asyncio.get_running_loop().call_later(BEAT_MS / 1000, self._on_beat)

    def _watch(self) -> None:
        """The thread: waits, and checks the beat."""
        reported_beat_ms = -1
        while not self._stopped.wait(max(self._threshold_ms, BEAT_MS) / 2000):
            beat_ms = self._beat_ms
            held_ms = self._clock.monotonic_ms() - beat_ms - BEAT_MS
            if held_ms < self._threshold_ms or beat_ms == reported_beat_ms:
                continue
            reported_beat_ms = beat_ms
            self.stalls += 1
            self._log.warning("event loop stalled", held_ms=held_ms, calls=self._calls())

    def _calls(self) -> str:
        """The stack of the loop's thread, innermost call last."""
        frame = sys._current_frames().get(self._watched_thread)  # noqa: SLF001 - the documented name, underscore and all.
        if frame is None:
            return ""
        innermost = list(islice(traceback.walk_stack(frame), STACK_FRAMES_MAX))
        return " > ".join(_call(one.f_code, line) for one, line in reversed(innermost))


def _call(code: CodeType, line: int) -> str:
    file = "/".join(code.co_filename.split("/")[-PATH_PARTS:])
    return f"{file}:{line} {code.co_name}"
