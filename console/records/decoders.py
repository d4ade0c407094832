"""Bytes of records as text for a page. Pure.

A decoder takes the bytes and returns the text, or None for bytes that are not of its kind. `DECODERS` is the one list:
forms offer its names. SCHEMA is one more for topics that the console has a schema of (`topic_schemas.py`).
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable
from typing import Final, Protocol

from sordini.schemas.codecs import Json, ValueRefused
from sordini.system.named_tuple import NamedTuple

PREVIEW_BYTES: Final = 2_048
"""Of one key or value in a list."""
WHOLE_BYTES: Final = 512 * 1024
"""Of one value on its own page; all of it can be downloaded."""
JSON_BYTES_MAX: Final = 1024 * 1024
SCHEMA_ROW_BYTES_MAX: Final = 16 * 1024
"""A list has up to 500 values, which are decoded one after another."""
SCHEMA_BYTES_MAX: Final = 1024 * 1024
_HEX_ROW: Final = 16
_PLAIN_CONTROLS: Final = frozenset("\n\r\t")
_CONTROLS_PART: Final = 0.1
"""Above this part of unprintable characters, bytes that are valid UTF-8 are not text."""

_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}:,]|[^\s\[\]{}:,"]+')
_INDENT: Final = "  "

Decoder = Callable[[bytes], str | None]


class Reader(Protocol):
    """A schema, as far as a page needs it."""

    def decode(self, data: bytes) -> Json:
        """Raises ValueRefused."""
        ...


class Decoded(NamedTuple):
    """What a page shows of some bytes."""

    text: str | None
    """None: the record has none (a tombstone, a record without a key)."""
    form: str
    """The decoder that was used."""
    size: int
    is_cut: bool
    problem: str | None = None
    """Why it is not shown by its schema."""
    schema: str | None = None
    """What a registry calls its schema."""


def as_text(data: bytes) -> str | None:
    """UTF-8, of which the last character may be cut off."""
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(data)
    except UnicodeDecodeError:
        return None


def as_json(data: bytes) -> str | None:
    """JSON, indented; numbers keep their digits, and keys that are there twice stay."""
    if len(data) > JSON_BYTES_MAX:
        return None
    try:
        text = data.decode()
        json.loads(text, parse_int=str, parse_float=str, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return _indented(text)


def as_hex(data: bytes) -> str:
    """Rows of offset, sixteen bytes, and those of them that are printable ASCII."""
    rows = []
    for start in range(0, len(data), _HEX_ROW):
        row = data[start : start + _HEX_ROW]
        letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        rows.append(f"{start:08x}  {row.hex(' '):<47}  {letters}")
    return "\n".join(rows)


DECODERS: Final[dict[str, Decoder]] = {"text": as_text, "json": as_json, "hex": as_hex}
AUTO: Final = "auto"
SCHEMA: Final = "schema"
NAMES: Final = (AUTO, SCHEMA, *DECODERS)


def decode(
    data: bytes | None, name: str, size: int | None = None, *, bytes_max: int = PREVIEW_BYTES, is_row: bool = False
) -> Decoded:
    """Bytes by a decoder, or by the first that reads them.

    `size` is that of the whole, if `data` is its beginning. What a decoder does not read is shown as hex. In a row,
    JSON that was not asked for stays on its lines.
    """
    if data is None:
        return Decoded(None, "null", 0, is_cut=False)
    size = len(data) if size is None else size
    is_cut = size > min(len(data), bytes_max)
    if name in (AUTO, "json") and not is_cut and (name == "json" or data[:1] in (b"{", b"[")):
        text = as_json(data)
        if text is not None:
            is_kept = is_row and name == AUTO
            return Decoded(data.decode() if is_kept else text, "json", size, is_cut=False)
    data = data[:bytes_max]
    if name == "hex":
        return Decoded(as_hex(data), "hex", size, is_cut)
    text = as_text(data)
    if text is None or (name == AUTO and not _is_readable(text)):
        return Decoded(as_hex(data), "hex", size, is_cut)
    return Decoded(text, "text", size, is_cut)


def decode_with(
    codec: Reader | None,
    data: bytes | None,
    name: str,
    size: int | None = None,
    *,
    bytes_max: int = PREVIEW_BYTES,
    is_row: bool = False,
) -> Decoded:
    """As `decode`, by the topic's schema if there is one and the decoder's name leaves it open."""
    if name not in (AUTO, SCHEMA):
        return decode(data, name, size, bytes_max=bytes_max, is_row=is_row)
    if codec is None or data is None:
        return decode(data, AUTO, size, bytes_max=bytes_max, is_row=is_row)
    most = SCHEMA_ROW_BYTES_MAX if is_row else SCHEMA_BYTES_MAX
    if len(data) > most or (size or 0) > len(data):
        problem = f"not decoded by the schema: it is longer than {most // 1024} KiB"
    else:
        try:
            value = codec.decode(data)
            text = json.dumps(value, ensure_ascii=False, indent=None if is_row else 2)
        except (ValueRefused, RecursionError) as error:
            problem = str(error) or "nested too deep"
        else:
            return Decoded(text[:bytes_max], SCHEMA, len(data), len(text) > bytes_max)
    return decode(data, AUTO, size, bytes_max=bytes_max, is_row=is_row)._replace(problem=problem)


def _is_readable(text: str) -> bool:
    strange = sum(not letter.isprintable() and letter not in _PLAIN_CONTROLS for letter in text)
    return strange <= len(text) * _CONTROLS_PART


def _indented(text: str) -> str:
    """A valid document with a line for each value; its tokens stay what they are."""
    parts: list[str] = []
    depth, before = 0, ""
    for piece in _TOKEN.findall(text):
        if piece in "]}":
            depth -= 1
        if before and before in "[{" and piece in "]}":
            parts.append(piece)  # An empty one stays on its line.
        elif (before and before in "[{,") or piece in "]}":
            parts.append(f"\n{_INDENT * depth}{piece}")
        else:
            parts.append(f" {piece}" if before == ":" else piece)
        if piece in "[{":
            depth += 1
        before = piece
    return "".join(parts)


def _refuse(name: str) -> str:
    raise ValueError(name)  # NaN and Infinity are no JSON.
