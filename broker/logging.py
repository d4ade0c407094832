"""Log lines: one event, one line, its facts as fields. structlog is imported on the first line, not at the start.

Whatever comes from a peer is written with its control characters escaped, so that nobody can forge a line.
"""

from __future__ import annotations

import sys
from typing import Any, TextIO

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
FIELD_CHARACTERS_MAX = 256


class Logger:
    """A logger that costs nothing until it has something to say."""

    __slots__ = ("_file", "_level", "_logger")

    def __init__(self, level: str = "info", file: TextIO | None = None) -> None:
        self._level = LEVELS[level]
        self._file = file
        self._logger: Any = None

    def debug(self, event: str, **fields: Any) -> None:
        if self._level <= LEVELS["debug"]:
            self._write("debug", event, fields)

    def info(self, event: str, **fields: Any) -> None:
        if self._level <= LEVELS["info"]:
            self._write("info", event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        if self._level <= LEVELS["warning"]:
            self._write("warning", event, fields)

    def error(self, event: str, **fields: Any) -> None:
        self._write("error", event, fields)

    def _write(self, level: str, event: str, fields: dict[str, Any]) -> None:
        if self._logger is None:
            self._logger = _structlog(self._file or sys.stderr)
        getattr(self._logger, level)(event, **{name: _one_line(name, value) for name, value in fields.items()})


def _one_line(name: str, value: Any) -> Any:
    if not isinstance(value, str) or name == "exc_info":
        return value
    shown = value if value.isprintable() else repr(value)[1:-1]
    return shown if len(shown) <= FIELD_CHARACTERS_MAX else shown[:FIELD_CHARACTERS_MAX] + "..."


def _structlog(file: TextIO) -> Any:
    import structlog  # Late: 40 ms that a quiet start does not pay.

    return structlog.wrap_logger(
        structlog.WriteLogger(file),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=False),
            structlog.processors.format_exc_info,
            structlog.dev.ConsoleRenderer(colors=file.isatty(), exception_formatter=structlog.dev.plain_traceback),
        ],
    )
