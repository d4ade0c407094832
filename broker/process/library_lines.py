"""Lines of libraries and of operators' plug-ins in the process's log: those of Python's `logging`, and of structlog.

Without a handler Python writes such records to standard error: not to the log file, without a time, and in as many
lines as their text has. Here each is one line, behind it the traceback, in the form of all others:

    2026-11-23T14:07:36.522410 [error    ] Task exception was never retrieved [asyncio]

kazoo's records come another way, each text once (`coordination_store/kazoo_lines.py`).
"""

from __future__ import annotations

import logging
import sys
from typing import Final

import structlog
from structlog.typing import EventDict, WrappedLogger

from sordini.broker.process.log_lines import completing, rendering
from sordini.broker.process.logging import LineOutput, ProcessLogger

_NUMBERS: Final = logging.getLevelNamesMapping()


class LibraryLines(logging.Handler):
    """Writes records of Python's `logging`, from any thread. Below WARNING libraries are not logged."""

    def __init__(self, output: LineOutput) -> None:
        super().__init__(logging.WARNING)
        self._output = output
        self.setFormatter(
            structlog.stdlib.ProcessorFormatter(
                processors=rendering(output.form, is_coloured=output.is_coloured),
                foreign_pre_chain=[
                    structlog.stdlib.add_logger_name,
                    structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                    *completing(output.form),
                ],
            )
        )

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno < self._output.level:
            return
        try:
            line = self.format(record)
        except Exception:  # noqa: BLE001 - a library's record whose arguments do not fit its text; Python reports it.
            self.handleError(record)
        else:
            self._output.write(line)


def take_over_libraries(log: ProcessLogger) -> None:
    """Let the lines of all libraries of this process arrive in its log."""
    output = log.output
    root = logging.getLogger()
    for former in [one for one in root.handlers if isinstance(one, LibraryLines)]:
        root.removeHandler(former)
    root.addHandler(LibraryLines(output))
    sys.unraisablehook = report_unraisable
    structlog.configure(
        processors=[
            _drop_below_level,
            *completing(output.form),
            *rendering(output.form, is_coloured=output.is_coloured),
        ],
        wrapper_class=structlog.make_filtering_bound_logger("debug"),
        logger_factory=lambda *_: output,
        cache_logger_on_first_use=False,
    )


def report_unraisable(unraisable: sys.UnraisableHookArgs) -> None:
    """As Python does, but for a TLS server name that is not ASCII: its handshake has failed, and has a limited line."""
    if isinstance(unraisable.exc_value, UnicodeDecodeError) and isinstance(unraisable.object, bytes):
        return
    sys.__unraisablehook__(unraisable)


def _drop_below_level(output: WrappedLogger, method: str, fields: EventDict) -> EventDict:
    if _NUMBERS.get(method.upper(), logging.ERROR) < output.level:
        raise structlog.DropEvent
    return fields
