"""The log of a broker's process: structlog's bound logger over the writer that never blocks the loop.

    ProcessLogger   structlog's bound logger: levels, bound fields, processors (`log_lines.py`)
    LineOutput      what structlog's logger factory makes for it: the level in force, and whole lines to one output
    LogWriter       the output of a process (`log_writer.py`)

A line that cannot be written (a full disk, a closed or stalled reader) is counted and dropped: the log never stops the
broker. Lines of libraries arrive in the same log: `library_lines.py`.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
from collections.abc import Callable
from typing import Any, Final, Protocol, cast

import structlog
from structlog.typing import Processor

from sordini.broker.process.log_lines import completing, rendering
from sordini.broker.process.log_writer import LogWriter
from sordini.storage.disk import Disk, File

LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}
DEBUG, INFO, WARNING = LEVELS["debug"], LEVELS["info"], LEVELS["warning"]


class Output(Protocol):
    """Where lines go: a LogWriter, or a test's buffer."""

    def write(self, text: str, /) -> int: ...

    def flush(self) -> None: ...

    def isatty(self) -> bool: ...


class LineOutput:
    """Writes finished lines to one output, and counts those that could not be written."""

    __slots__ = ("_file", "_lost", "form", "level")

    def __init__(self, level: int, file: Output | None, form: str) -> None:
        self.level = level
        """The lowest number of LEVELS that is written; may be set at any time, for every logger bound to it."""
        self.form = form
        self._file = file
        self._lost = 0

    @property
    def lines_lost(self) -> int:
        return self._lost + (self._file.lines_lost if isinstance(self._file, LogWriter) else 0)

    @property
    def is_coloured(self) -> bool:
        return self._current.isatty()

    def write(self, line: str) -> None:
        """Write a line without its newline. Never raises OSError."""
        file = self._current
        try:
            file.write(line + "\n")
            file.flush()
        except OSError:
            self._lost += 1

    # What structlog calls, by the method of the logger.
    debug = info = warning = error = critical = write

    @property
    def _current(self) -> Output:
        return self._file or sys.stderr


class ProcessLogger(structlog.BoundLoggerBase):
    """The process's log, with fields that were bound to it. Make it with `make_logger`, and others of it with `bind`.

    structlog's own filtering loggers have their level for good; that of this one may change while the broker runs.
    """

    _logger: LineOutput

    @property
    def output(self) -> LineOutput:
        """Where its lines go."""
        return self._logger

    @property
    def lines_lost(self) -> int:
        """Lines that could not be written since the start."""
        return self._logger.lines_lost

    @property
    def level(self) -> str:
        """The lowest of LEVELS that is written; may be set at any time, for all loggers of this output."""
        return next(name for name, number in LEVELS.items() if number == self._logger.level)

    @level.setter
    def level(self, name: str) -> None:
        self._logger.level = LEVELS[name]

    def debug(self, event: str, **fields: Any) -> None:
        if self._logger.level <= DEBUG:
            self._write("debug", event, fields)

    def info(self, event: str, **fields: Any) -> None:
        if self._logger.level <= INFO:
            self._write("info", event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        if self._logger.level <= WARNING:
            self._write("warning", event, fields)

    def error(self, event: str, **fields: Any) -> None:
        self._write("error", event, fields)

    def line(self, level: str, event: str, fields: dict[str, Any]) -> str:
        """The line of an event, without its newline. Raises structlog.DropEvent where a processor drops it."""
        (line,), _ = self._process_event(level, event, fields)
        return cast("str", line)

    def adjusted(self, step: Processor) -> ProcessLogger:
        """A logger to the same output with one more processor, which gets the completed fields before the renderer."""
        output = self._logger
        steps = [*completing(output.form), step, *rendering(output.form, is_coloured=output.is_coloured)]
        return ProcessLogger(output, steps, self._context)

    def _write(self, level: str, event: str, fields: dict[str, Any]) -> None:
        with contextlib.suppress(structlog.DropEvent):
            self._logger.write(self.line(level, event, fields))


def make_logger(level: str = "info", file: Output | None = None, form: str = "text") -> ProcessLogger:
    """A logger to `file`, or to what standard error is when a line is written. `form` is one of log_lines.FORMATS."""
    output = LineOutput(LEVELS[level], file, form)
    steps = [*completing(form), *rendering(form, is_coloured=output.is_coloured)]
    logger: ProcessLogger = structlog.wrap_logger(output, steps, wrapper_class=ProcessLogger, context_class=dict).bind()
    if isinstance(file, LogWriter):
        file.dropped_line = lambda count: logger.line("warning", "log lines dropped", {"count": count}) + "\n"
    return logger


class LogFile:
    """A file that lines are appended to; `reopen` opens its path again after logrotate has renamed the file."""

    def __init__(self, disk: Disk, path: str) -> None:
        """Raises OSError when it cannot be opened."""
        self._disk = disk
        self.path = path
        self._file = _open_to_append(disk, path)
        self.on_reopened: Callable[[], None] = _nothing
        """For a user that has duplicated the descriptor."""

    def fileno(self) -> int:
        return self._file.fileno()

    def reopen(self) -> None:
        """Continue in the file that has the path now, or in a new one. Raises OSError; then nothing has changed."""
        former, self._file = self._file, _open_to_append(self._disk, self.path)
        self.on_reopened()
        former.close()

    def close(self) -> None:
        self._file.close()


def _open_to_append(disk: Disk, path: str) -> File:
    file = disk.open(path, create=True)
    # O_APPEND: other processes may append to the file, or truncate it (logrotate's copytruncate).
    with contextlib.suppress(OSError):
        flags = fcntl.fcntl(file.fileno(), fcntl.F_GETFL)
        fcntl.fcntl(file.fileno(), fcntl.F_SETFL, flags | os.O_APPEND)
    return file


def _nothing() -> None:
    """The descriptor has no other user."""
