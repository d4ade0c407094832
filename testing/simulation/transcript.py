"""What happened in a run, for people: faults, starts and ends, the log lines of brokers and of the application."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Final

from sordini.testing.brokers.loop_processes import current_process

LINES_MAX: Final = 5_000
"""Of a run; the oldest are forgotten."""


class Transcript:
    """Lines with the virtual time of each, in seconds since the applications were started."""

    def __init__(self, elapsed_s: Callable[[], float]) -> None:
        self._elapsed_s = elapsed_s
        self._lines: deque[str] = deque(maxlen=LINES_MAX)

    def note(self, who: str, text: str) -> None:
        self._lines.append(f"{self._elapsed_s():10.3f} {who}: {text}")

    @property
    def lines(self) -> list[str]:
        """Oldest first."""
        return list(self._lines)


class TranscriptHandler(logging.Handler):
    """Puts what an application logs into the transcript."""

    def __init__(self, transcript: Transcript, level: int) -> None:
        super().__init__()
        self._transcript = transcript
        self._least = level

    def emit(self, record: logging.LogRecord) -> None:
        # Handlers that keep records would keep the application's objects with them.
        record.msg, record.args = record.getMessage(), None
        if record.exc_info:
            record.exc_text, record.exc_info = logging.Formatter().formatException(record.exc_info), None
        if record.levelno < self._least:
            return
        process = current_process()
        who = "test" if process is None else process.name
        self._transcript.note(who, f"{record.levelname.lower()} {record.name}: {record.getMessage()}")
