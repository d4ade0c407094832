"""Makes text from the wire safe to print: it cannot move the cursor, set a title or control the terminal.

`shown` escapes every character that is not printable: C0, DEL and C1, line breaks and tabs among them, bidirectional
overrides, zero-width characters and lone surrogates.
"""

from __future__ import annotations

import re

_UNSAFE_IN_JSON = "[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
"""Characters that are valid in a JSON string, but control a terminal or cannot be encoded."""


def shown(text: str) -> str:
    """One line of printable characters: the others are escaped as in Python, `\\x1b` or `\\u202e`."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


def shown_lines(text: str) -> str:
    """As `shown`, of text with trusted line breaks."""
    return "\n".join(map(shown, text.split("\n")))


def shown_bytes(data: bytes) -> bytes:
    """One line of printable UTF-8; what is not UTF-8 is escaped byte by byte."""
    return shown(data.decode(errors="backslashreplace")).encode()


def safe_json(text: str) -> str:
    """A JSON document with the same values, and without characters that control a terminal."""
    return re.sub(_UNSAFE_IN_JSON, lambda match: f"\\u{ord(match[0]):04x}", text)


def counted(number: int, noun: str) -> str:
    """`1 batch`, `2 batches`."""
    plural = f"{noun}es" if noun.endswith("ch") else f"{noun}s"
    return f"{number} {noun if number == 1 else plural}"


def not_utf8(error: UnicodeDecodeError) -> str:
    """Where bytes of a file are no UTF-8: the line and the byte, and no more, since it may be a part of a password."""
    line = error.object.count(b"\n", 0, error.start) + 1
    return f"line {line} is not UTF-8: it has the byte 0x{error.object[error.start]:02x}"
