"""What an example says while it runs: a line for each step, and one line that renews itself while a step goes on."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

QUIET_SECONDS = 15.0
"""Where no terminal is, a step that goes on says so this often."""
_CLEAR = "\r\x1b[K"


class ProgressOutput:
    """Writes to `out`; a clock of seconds can be handed in."""

    def __init__(self, out: TextIO = sys.stdout, clock: Callable[[], float] = time.monotonic) -> None:
        self._out = out
        self._clock = clock
        self._began = clock()
        self._last_line_at = self._began
        self._is_terminal = out.isatty()
        self._is_open = False

    def __call__(self, text: str) -> None:
        """A step, in a line of its own."""
        self._write(f"{_CLEAR if self._is_open else ''}{self._line(text)}\n")
        self._is_open = False
        self._last_line_at = self._clock()

    def passing(self, text: str) -> None:
        """How far a step is: on a terminal in the place of what was said of it before, elsewhere now and then."""
        if self._is_terminal:
            self._write(f"{_CLEAR}{self._line(text)}")
            self._is_open = True
        elif self._clock() - self._last_line_at >= QUIET_SECONDS:
            self(text)

    def _line(self, text: str) -> str:
        return f"{self._clock() - self._began:6.1f} s  {text}"

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
