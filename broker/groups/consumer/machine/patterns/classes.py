"""Characters and sets of characters in a pattern: escapes, groups with a name, and classes in brackets."""

from __future__ import annotations

from typing import Final

from sordini.broker.groups.consumer.machine.patterns.characters import (
    NOTHING,
    PERL,
    POSIX,
    complement,
    folded,
    folded_range_of,
    range_of,
    unicode_group,
)
from sordini.broker.groups.consumer.machine.patterns.cursor import Cursor, PatternError

INVALID_RANGE: Final = "invalid character class range"
INVALID_ESCAPE: Final = "invalid escape sequence"
_MISSING_BRACKET: Final = "missing closing ]"
_TRAILING_BACKSLASH: Final = "trailing backslash at end of expression"
_CONTROLS: Final = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_OCTAL: Final = "01234567"
_HEXADECIMAL: Final = "0123456789abcdefABCDEF"
_CODE_POINT_MAX: Final = 0x10FFFF


def single(character: str, *, is_folded: bool) -> int:
    """The set of one character, or of its two cases."""
    return (folded_range_of if is_folded else range_of)(character, character)


def read_named_group(cursor: Cursor, *, is_folded: bool) -> int | None:
    """The set of `\\d`, `\\pN`, `\\P{Name}` and the like; None, and nothing is read, if there is none of them."""
    for letter, characters in PERL.items():
        if cursor.take_if(f"\\{letter}"):
            return characters
        if cursor.take_if(f"\\{letter.upper()}"):
            return complement(characters)
    is_negated = cursor.is_next("\\P")
    if not cursor.take_if("\\p") and not cursor.take_if("\\P"):
        return None
    if cursor.is_at_end:
        raise PatternError(INVALID_RANGE)
    name: str | None = cursor.take()
    if name == "{":
        name = cursor.take_until("}")
    if name is not None and name.startswith("^"):
        name, is_negated = name[1:], not is_negated
    group = None if name is None else unicode_group(name)
    if group is None:
        raise PatternError(INVALID_RANGE)
    group = folded(group) if is_folded else group
    return complement(group) if is_negated else group


def read_class(cursor: Cursor, *, is_folded: bool) -> int:
    """The set of a class whose opening bracket has been read."""
    is_negated = cursor.take_if("^")
    characters, is_first = NOTHING, True
    while is_first or not cursor.take_if("]"):
        is_first = False
        group = _read_posix_group(cursor, is_folded=is_folded)
        if group is None:
            group = read_named_group(cursor, is_folded=is_folded)
        if group is None:
            group = _read_range(cursor, is_folded=is_folded)
        characters |= group
    return complement(characters) if is_negated else characters


def _read_posix_group(cursor: Cursor, *, is_folded: bool) -> int | None:
    """The set of `[:alpha:]` or `[:^alpha:]`; a `[:` without its end is two characters."""
    if not cursor.is_next("[:"):
        return None
    start = cursor.at
    cursor.take()
    name = cursor.take_until(":]")  # From the first colon on: `[:]` is a group without a name.
    if name is None:
        cursor.at = start
        return None
    name = name.removeprefix(":")
    group = POSIX.get(name.removeprefix("^"))
    if group is None:
        raise PatternError(INVALID_RANGE)
    group = folded(group) if is_folded else group
    return complement(group) if name.startswith("^") else group


def _read_range(cursor: Cursor, *, is_folded: bool) -> int:
    low = high = _read_class_character(cursor)
    if cursor.is_next("-") and not cursor.is_next("-]"):
        cursor.take()
        high = _read_class_character(cursor)
        if high < low:
            raise PatternError(INVALID_RANGE)
    return (folded_range_of if is_folded else range_of)(low, high)


def _read_class_character(cursor: Cursor) -> str:
    if cursor.is_at_end:
        raise PatternError(_MISSING_BRACKET)
    return read_escape(cursor) if cursor.is_next("\\") else cursor.take()


def read_escape(cursor: Cursor) -> str:
    """The character that an escape stands for."""
    cursor.take()
    if cursor.is_at_end:
        raise PatternError(_TRAILING_BACKSLASH)
    character = cursor.take()
    if character == "x":
        return _read_hexadecimal(cursor)
    if character == "0" or (character in _OCTAL and cursor.next() and cursor.next() in _OCTAL):
        return chr(int(character + cursor.take_while(_OCTAL, 2), 8))
    if character in _CONTROLS:
        return _CONTROLS[character]
    if character.isascii() and character.isalnum():
        raise PatternError(INVALID_ESCAPE)  # References to groups, too: they cannot be matched in linear time.
    return character


def _read_hexadecimal(cursor: Cursor) -> str:
    if cursor.take_if("{"):
        digits = cursor.take_while(_HEXADECIMAL)
        is_complete = bool(digits) and cursor.take_if("}")
    else:
        digits = cursor.take_while(_HEXADECIMAL, 2)
        is_complete = len(digits) == 2
    code_point = int(digits, 16) if is_complete else _CODE_POINT_MAX + 1
    if code_point > _CODE_POINT_MAX:
        raise PatternError(INVALID_ESCAPE)
    return chr(code_point)
