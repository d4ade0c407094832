"""Log lines: one event, one line, with fields; `log_lines` has their form.

Control characters in values are escaped, so that a peer cannot forge a line. A line that cannot be written (a full
disk, a closed or stalled reader) is counted and dropped: the log never stops the broker (`log_writer.py`).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
from collections.abc import Callable
from typing import Any, Protocol

from sordini.broker.clock import local_timestamp
from sordini.broker.process.log_lines import json_line, text_line
from sordini.broker.process.log_writer import LogWriter
from sordini.storage.disk import Disk, File

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
FORMATS = ("text", "json")
FIELD_CHARACTERS_MAX = 256
CALLS_CHARACTERS_MAX = 4096
"""Of the field `calls`, a stack trace; of a longer one the end is kept, the innermost calls."""


class Output(Protocol):
    """Where lines go: a LogWriter, or a test's buffer."""

    def write(self, text: str, /) -> int: ...

    def flush(self) -> None: ...

    def isatty(self) -> bool: ...


class Logger:
    """Writes lines to one output."""

    __slots__ = ("_file", "_form", "_level", "_lost")

    def __init__(self, level: str = "info", file: Output | None = None, form: str = "text") -> None:
        """`form` is text or json (one object a line)."""
        assert form in FORMATS, form
        self._level = LEVELS[level]
        self._file = file
        self._form = form
        self._lost = 0
        if isinstance(file, LogWriter):
            file.dropped_line = self._dropped_line

    @property
    def lines_lost(self) -> int:
        """Lines that could not be written since the start."""
        return self._lost + (self._file.lines_lost if isinstance(self._file, LogWriter) else 0)

    @property
    def level(self) -> str:
        """The lowest of LEVELS that is written; may be set at any time."""
        return next(name for name, number in LEVELS.items() if number == self._level)

    @level.setter
    def level(self, name: str) -> None:
        self._level = LEVELS[name]

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
        file = self._file or sys.stderr
        shown = {name: _one_line(name, value) for name, value in fields.items()}
        try:
            file.write(_line(self._form, level, event, shown, is_coloured=file.isatty()))
            file.flush()
        except OSError:
            self._lost += 1

    def _dropped_line(self, count: int) -> str:
        return _line(self._form, "warning", "log lines dropped", {"count": count})


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


def _one_line(name: str, value: Any) -> Any:
    if not isinstance(value, str) or name == "exc_info":
        return value
    shown = value if value.isprintable() else repr(value)[1:-1]
    if name == "calls":
        return shown if len(shown) <= CALLS_CHARACTERS_MAX else "..." + shown[-CALLS_CHARACTERS_MAX:]
    return shown if len(shown) <= FIELD_CHARACTERS_MAX else shown[:FIELD_CHARACTERS_MAX] + "..."


def _line(form: str, level: str, event: str, fields: dict[str, Any], *, is_coloured: bool = False) -> str:
    now = local_timestamp()
    if form == "json":
        return json_line(now, level, event, fields)
    return text_line(now, level, event, fields, is_coloured=is_coloured)
