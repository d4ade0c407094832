"""From the bytes of a value to names and values: JSON objects, and pairs of texts."""

from __future__ import annotations

import decimal
import json
import re
from collections.abc import Callable, Iterable
from typing import Any, Final, NoReturn
from urllib.parse import unquote_to_bytes

from sordini.pipeline.schemas.kinds import Decimal, Kind, ListOf, MapOf, StructOf
from sordini.pipeline.schemas.values.row_reader import Parse, Unreadable

_SPACE: Final = " \t\r\n"
_WRONG_ESCAPE: Final = re.compile(rb"%(?![0-9A-Fa-f]{2})")


def json_parser(kinds: Iterable[Kind], *, objects_only: bool = True) -> Callable[[bytes], Any]:
    """Parses JSON in UTF-8; text after a value is ignored. Numbers are exact if `kinds` have a decimal."""
    parse_float = _exact if any(map(_has_decimal, kinds)) else None
    decode = json.JSONDecoder(parse_float=parse_float, parse_constant=_no_constant).raw_decode

    def parse(value: bytes) -> Any:
        text = _text(value).lstrip(_SPACE)
        if objects_only and not text.startswith("{"):
            raise Unreadable("not a JSON object")
        try:
            found, _ = decode(text)
            if b"\\u" in value:
                _check_characters(found)
        except RecursionError:
            raise Unreadable("nested too deeply") from None
        except ValueError:
            raise Unreadable("not JSON") from None
        return found

    return parse


def pairs_parser(between: str, equals: str) -> Parse:
    """Parses text like `page=/home&member_id=7`, each name once (the first counts); an empty text is no value.

    Between `&` and `=`, as in a URL, percent encoding is undone: a text with an invalid one is no value, as in Spark.
    """
    undo: Callable[[str], str | None] = _undone if (between, equals) == ("&", "=") else _same

    def parse(value: bytes) -> dict[str, Any]:
        text = _text(value)
        if equals not in text:
            raise Unreadable(f"no name{equals}value in it")
        found: dict[str, Any] = {}
        for pair in text.split(between):
            name, is_pair, written = pair.partition(equals)
            if is_pair and name not in found:
                found[name] = undo(written) or None
        return found

    return parse


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise Unreadable("not UTF-8") from None


def _has_decimal(kind: Kind) -> bool:
    match kind:
        case ListOf():
            return _has_decimal(kind.items)
        case MapOf():
            return _has_decimal(kind.values)
        case StructOf():
            return any(_has_decimal(field.type) for field in kind.fields)
        case _:
            return isinstance(kind, Decimal)


def _exact(text: str) -> decimal.Decimal | float:
    try:
        return decimal.Decimal(text)
    except decimal.DecimalException:  # An exponent beyond Python's own bounds.
        return float(text)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)  # NaN and Infinity are no JSON.


def _check_characters(value: Any) -> None:
    """An escaped half of a surrogate pair is no character, and no column can have it. Raises ValueError."""
    json.dumps(value, ensure_ascii=False, default=str).encode()


def _undone(text: str) -> str | None:
    data = text.replace("+", " ").encode()
    if _WRONG_ESCAPE.search(data):
        return None
    return unquote_to_bytes(data).decode(errors="replace")


def _same(text: str) -> str | None:
    return text
