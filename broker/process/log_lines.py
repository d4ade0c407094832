"""How a log event becomes a line: structlog's processors, and its renderer for readable text or for JSON.

    2026-11-23T14:07:36.522410 [info     ] broker registered              broker_epoch=20 session=0x1

Fields stand in the order of their names. The JSON object has the fields first, then `event`, `level` and `timestamp`.
A field `exc_info` becomes the traceback: behind a line of text, in the object's field `exception`.

Control characters are escaped, whatever a peer put them into, so that it cannot forge a line.
"""

from __future__ import annotations

import json
from typing import Any, Final

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from sordini.system.clock import local_timestamp

FORMATS: Final = ("text", "json")
FIELD_CHARACTERS_MAX: Final = 256
LONG_CHARACTERS_MAX: Final = 4096
CALLS: Final = "calls"
"""The field of a stack trace; of a longer one the end is kept, the innermost calls."""
EVENT: Final = "event"
_TRACEBACK: Final = "exc_info"
_CHARACTERS_MAX: Final = {CALLS: LONG_CHARACTERS_MAX, EVENT: LONG_CHARACTERS_MAX}
_PLAIN: Final = (bool, int, float, type(None))
"""What is written on one line as it is."""


def completing(form: str) -> list[Processor]:
    """The steps that complete an event's fields and make them safe to print."""
    assert form in FORMATS, form
    return [_escape_for_json if form == "json" else _escape, structlog.processors.add_log_level, _add_timestamp]


def rendering(form: str, *, is_coloured: bool = False) -> list[Processor]:
    """The steps that make a line of the fields, without its newline; with a traceback, text has more lines than one."""
    if form == "json":
        return [
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(_one_line_of_json, default=str),
        ]
    return [structlog.dev.ConsoleRenderer(colors=is_coloured, exception_formatter=structlog.dev.plain_traceback)]


def _add_timestamp(_: WrappedLogger, __: str, fields: EventDict) -> EventDict:
    # structlog's TimeStamper reads the clock itself, and leaves out microseconds that are 0.
    fields["timestamp"] = local_timestamp()
    return fields


def _escape(_: WrappedLogger, __: str, fields: EventDict) -> EventDict:
    """Text and everything else without control characters, and no text without a bound."""
    return {name: value if name == _TRACEBACK else _printable(name, value) for name, value in fields.items()}


def _escape_for_json(_: WrappedLogger, __: str, fields: EventDict) -> EventDict:
    """The same for text alone: all else keeps its type, and JSON escapes what is in it."""
    return {name: _bounded(name, value) if isinstance(value, str) else value for name, value in fields.items()}


def _printable(name: str, value: Any) -> Any:
    if isinstance(value, str):
        return _bounded(name, value)
    if isinstance(value, _PLAIN):
        return value
    # The renderer writes its repr, in which only a class of its own can have such characters.
    shown = repr(value)
    return value if shown.isprintable() else _bounded(name, shown)


def _bounded(name: str, text: str) -> str:
    shown = text if text.isprintable() else repr(text)[1:-1]
    longest = _CHARACTERS_MAX.get(name, FIELD_CHARACTERS_MAX)
    if len(shown) <= longest:
        return shown
    return "..." + shown[-longest:] if name == CALLS else shown[:longest] + "..."


def _one_line_of_json(fields: EventDict, **options: Any) -> str:
    """Letters of all scripts stay as they are; a text with characters that some readers take for a newline does not."""
    line = json.dumps(fields, ensure_ascii=False, **options)
    return line if line.isprintable() else json.dumps(fields, **options)
