"""Files of properties, as Java reads them: from bytes to keys and texts."""

from __future__ import annotations

import codecs
from collections.abc import Sequence

from sordini.broker.configuration.settings import ConfigError
from sordini.protocol.printable import not_utf8


def decode_properties(data: bytes) -> str:
    """The text of a properties file. Raises ConfigError, which names the line that is not UTF-8 and shows no more."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise ConfigError("the file is UTF-16: save it as UTF-8")
    try:
        return data.removeprefix(codecs.BOM_UTF8).decode()  # Editors of Windows write a byte order mark.
    except UnicodeDecodeError as error:
        raise ConfigError(not_utf8(error)) from None


def read_properties(text: str) -> dict[str, str]:
    """Read a properties file: `key=value` or `key: value`, `#` and `!` comments, backslash continuations.

    Raises ConfigError with the line's number when a line has no key. The line itself may be a part of a password.
    """
    entries: dict[str, str] = {}
    for number, line in _logical_lines(text.splitlines()):
        separators = [at for at in (line.find("="), line.find(":")) if at >= 0]
        at = min(separators, default=len(line))
        key = line[:at].strip()
        if not key:
            raise ConfigError(f"line {number} has no key; a line is key=value")
        entries[key] = line[at + 1 :].strip()
    return entries


def _logical_lines(lines: Sequence[str]) -> list[tuple[int, str]]:
    joined: list[tuple[int, str]] = []
    continued = ""
    for number, raw in enumerate(lines, 1):
        line = raw.strip()
        if not continued and (not line or line[0] in "#!"):
            continue
        if line.endswith("\\"):
            continued += line[:-1]
            continue
        joined.append((number, continued + line))
        continued = ""
    if continued:
        joined.append((len(lines), continued))
    return joined
