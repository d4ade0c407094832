"""How a log line looks: readable text, or one JSON object. Pure; the time is an argument.

    2026-11-23T14:07:36.522410 [info     ] broker registered              broker_epoch=20 session=0x1

Fields stand in the order of their names. The JSON object has the fields first, then `event`, `level` and `timestamp`.
A field `exc_info` becomes the traceback: behind a line of text, in the object's field `exception`.

This is the form of structlog's renderers, written here because its import was a fifth of a broker's start.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Mapping
from typing import Any, Final

EVENT_CHARACTERS: Final = 30
LEVEL_CHARACTERS: Final = 9
_QUOTED: Final = frozenset(" \t=\r\n\"'")

_RESET, _BRIGHT, _DIM = "\x1b[0m", "\x1b[1m", "\x1b[2m"
_CYAN, _MAGENTA = "\x1b[36m", "\x1b[35m"
_LEVEL_COLOURS: Final = {"debug": "\x1b[32m", "info": "\x1b[32m", "warning": "\x1b[33m", "error": "\x1b[31m"}


def text_line(timestamp: str, level: str, event: str, fields: Mapping[str, Any], *, is_coloured: bool = False) -> str:
    """A readable line, its newline included; with a traceback more than one."""
    shown = dict(fields)
    trace = _traceback(shown.pop("exc_info", None))
    end = f"\n{trace}" if trace else ""
    if not is_coloured:
        pairs = "".join(f" {name}={_value(shown[name])}" for name in sorted(shown))
        padded = f"{event:<{EVENT_CHARACTERS}}" if pairs else event
        return f"{timestamp} [{level:<{LEVEL_CHARACTERS}}] {padded}{pairs}{end}\n"
    pairs = "".join(f" {_CYAN}{name}{_RESET}={_MAGENTA}{_value(shown[name])}{_RESET}" for name in sorted(shown))
    marked = f"{_LEVEL_COLOURS[level]}{_BRIGHT}{level:<{LEVEL_CHARACTERS}}{_RESET}"
    return f"{_DIM}{timestamp}{_RESET} [{marked}] {_BRIGHT}{event:<{EVENT_CHARACTERS}}{_RESET}{pairs}{end}\n"


def json_line(timestamp: str, level: str, event: str, fields: Mapping[str, Any]) -> str:
    """One JSON object and a newline; values that JSON does not have are written as text."""
    shown = dict(fields)
    trace = _traceback(shown.pop("exc_info", None))
    shown.update(event=event, level=level, timestamp=timestamp)
    if trace:
        shown["exception"] = trace
    return json.dumps(shown, ensure_ascii=False, default=str) + "\n"


def _value(value: Any) -> str:
    """Text as it is, if it cannot be mistaken for more than one word; all else as Python writes it."""
    return value if isinstance(value, str) and _QUOTED.isdisjoint(value) else repr(value)


def _traceback(error: BaseException | None) -> str:
    return "".join(traceback.format_exception(error)).rstrip("\n") if error is not None else ""
