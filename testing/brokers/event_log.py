"""The log of a broker in a test: the last lines are kept for the report of a failure, and nothing is printed but where
the site has a log of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from sordini.replication.ports import Logger

LINES_KEPT: Final = 1_000


class Lines:
    """The last lines of all brokers of a site."""

    def __init__(self, elapsed_s: Callable[[], float], log: Logger | None = None) -> None:
        self._elapsed_s = elapsed_s
        self._log = log
        self.is_stopping = False
        """While all brokers stop, warnings about the others are expected."""
        self._kept: deque[tuple[float, str]] = deque(maxlen=LINES_KEPT)

    def add(self, level: str, who: str, event: str, fields: dict[str, Any]) -> None:
        if self.is_stopping and level == "warning":
            level = "info"
        if self._log is not None:
            getattr(self._log, level)(event, **fields, this_broker=who)
        shown = " ".join(f"{name}={value}" for name, value in fields.items())
        now_s = self._elapsed_s()
        self._kept.append((now_s, f"{now_s:9.3f} {level:7} {who}: {event} {shown}".rstrip()))

    def last(self, count: int, since_s: float = 0.0) -> list[str]:
        """The newest lines of those since a time, oldest first."""
        return [text for time_s, text in list(self._kept) if time_s >= since_s][-count:]


class BrokerLog:
    """The log port of one broker."""

    lines_lost = 0

    def __init__(self, lines: Lines, who: str, level: str = "info") -> None:
        self._lines = lines
        self._who = who
        self.level = level

    def debug(self, event: str, **fields: object) -> None:
        if self.level == "debug":
            self._lines.add("debug", self._who, event, fields)

    def info(self, event: str, **fields: object) -> None:
        self._lines.add("info", self._who, event, fields)

    def warning(self, event: str, **fields: object) -> None:
        self._lines.add("warning", self._who, event, fields)

    def error(self, event: str, **fields: object) -> None:
        self._lines.add("error", self._who, event, fields)
