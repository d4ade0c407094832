"""The syntax of RE2/J 1.8, as far as it says whether a whole name matches; errors have RE2/J's texts.

    pattern    sequence { | sequence }
    sequence   { item [ * + ? {n} {n,} {n,m} [?] ] }
    item       character  .  ^  $  [class]  escape  (pattern)  (?P<name>pattern)  (?:pattern)  (?is-m:pattern)  (?is-m)
    flags      i: both cases; s: `.` reads a newline, too; m, U: no effect on a whole name; behind - they end
    escape     \\d \\s \\w \\D \\S \\W \\pN \\p{Name} \\P{^Name} \\b \\B \\A \\z \\Q...\\E \\n \\x41 \\x{41} \\012 \\.

No part is read twice and nothing recurs: time and memory are bounded by the length and by INSTRUCTIONS_MAX. A `{` that
begins no count, and a `]` outside of a class, are characters.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from sordini.broker.groups.consumer.machine.patterns.characters import ALL, NEWLINE, complement
from sordini.broker.groups.consumer.machine.patterns.classes import read_class, read_escape, read_named_group, single
from sordini.broker.groups.consumer.machine.patterns.cursor import Cursor, PatternError
from sordini.broker.groups.consumer.machine.patterns.program import (
    Operation,
    Program,
    either,
    in_sequence,
    read,
    repeated,
    repeated_size,
    test,
)
from sordini.system.named_tuple import NamedTuple

CHARACTERS_MAX: Final = 8_192
"""A hundred names of topics; RE2/J has no limit."""
INSTRUCTIONS_MAX: Final = 10_000
"""Of one pattern; RE2/J has no limit, and makes a million of `(a{1000}){1000}`."""
REPETITIONS_MAX: Final = 1_000
"""Of one part, as in RE2/J."""
_DIGITS: Final = "0123456789"
_NAME_CHARACTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"
_REPETITIONS: Final = "*+?{"
_SPECIAL: Final = "()[|.\\^$"
_SIMPLE_REPETITIONS: Final = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_TESTS: Final = {
    "^": Operation.AT_BEGIN,
    "$": Operation.AT_END,
    "\\A": Operation.AT_BEGIN,
    "\\z": Operation.AT_END,
    "\\b": Operation.AT_WORD_BOUNDARY,
    "\\B": Operation.NOT_AT_WORD_BOUNDARY,
}
"""A name has one line, so that `^` and `$` are its begin and end with the flag m, too."""


class _Flags(NamedTuple):
    is_folded: bool = False
    dot_is_all: bool = False


class _OpenGroup:
    """A group whose closing parenthesis has not been read, or the whole pattern."""

    def __init__(self, flags_outside: _Flags) -> None:
        self.flags_outside = flags_outside
        self.alternatives: list[Program] = []
        self.items: list[Program] = []
        """Of the alternative that is being read."""

    def end_alternative(self) -> None:
        self.alternatives.append(in_sequence(self.items))
        self.items = []


class SyntaxReader:
    """Reads one pattern."""

    def __init__(self, pattern: str) -> None:
        """Raises PatternError if it is too long."""
        if len(pattern) > CHARACTERS_MAX:
            raise PatternError(f"it has more than {CHARACTERS_MAX} characters")
        self._cursor = Cursor(pattern)
        self._flags = _Flags()
        self._groups = [_OpenGroup(self._flags)]
        self._names: set[str] = set()
        self._instructions = 0
        """Of all items of open groups."""

    def program(self) -> Program:
        """The program of the pattern; raises PatternError."""
        was_repetition = False
        while not self._cursor.is_at_end:
            character = self._cursor.next()
            is_repetition = character in _REPETITIONS and self._read_repetition(is_nested=was_repetition)
            if not is_repetition:
                self._read_item(character)
            was_repetition = is_repetition or character == "{"  # As in RE2/J, which allows `\{*`, and `{*` not.
        if len(self._groups) > 1:
            raise PatternError("missing closing )")
        return self._closed(self._groups.pop())

    def _read_repetition(self, *, is_nested: bool) -> bool:
        """Read `*`, `{2,3}?` and the like, and repeat the last item by it; False, if there is none."""
        bounds = self._read_bounds()
        if bounds is None:
            return False
        items = self._groups[-1].items
        if not items:
            raise PatternError("missing argument to repetition operator")
        self._cursor.take_if("?")  # The shortest repetition is preferred: the same names match.
        if is_nested:
            raise PatternError("invalid nested repetition operator")
        part = items.pop()
        self._count(repeated_size(part, *bounds) - len(part))
        items.append(repeated(part, *bounds))
        return True

    def _read_bounds(self) -> tuple[int, int | None] | None:
        cursor = self._cursor
        if cursor.next() in _SIMPLE_REPETITIONS:
            return _SIMPLE_REPETITIONS[cursor.take()]
        start = cursor.at
        bounds = self._read_counts() if cursor.take_if("{") else None
        if bounds is None:
            cursor.at = start
            return None
        low, high = bounds
        if max(low, high or 0) > REPETITIONS_MAX or (high is not None and high < low):
            raise PatternError("invalid repeat count")
        return bounds

    def _read_counts(self) -> tuple[int, int | None] | None:
        """What is behind the brace; None if it is no count."""
        low = high = self._read_number()
        if low is not None and self._cursor.take_if(",}"):
            return low, None
        if self._cursor.take_if(","):
            high = self._read_number()
        return (low, high) if low is not None and high is not None and self._cursor.take_if("}") else None

    def _read_number(self) -> int | None:
        digits = self._cursor.take_while(_DIGITS)
        if not digits or (len(digits) > 1 and digits[0] == "0"):
            return None
        return int(digits[:9])

    def _read_item(self, character: str) -> None:
        """Read the item that begins with this character."""
        cursor = self._cursor
        if character not in _SPECIAL:
            self._add_character(cursor.take())
        elif cursor.take_if("("):
            self._open_group()
        elif cursor.take_if("|"):
            self._groups[-1].end_alternative()
        elif cursor.take_if(")"):
            self._close_group()
        elif cursor.take_if("."):
            self._add(read(ALL if self._flags.dot_is_all else complement(NEWLINE)))
        elif cursor.take_if("["):
            self._add(read(read_class(cursor, is_folded=self._flags.is_folded)))
        elif cursor.take_if("\\Q"):
            literal = cursor.take_until("\\E")
            for quoted in cursor.take_all() if literal is None else literal:
                self._add_character(quoted)
        else:
            self._read_test_or_escape()

    def _read_test_or_escape(self) -> None:
        cursor = self._cursor
        for text, operation in _TESTS.items():
            if cursor.take_if(text):
                self._add(test(operation))
                return
        characters = read_named_group(cursor, is_folded=self._flags.is_folded)
        if characters is not None:
            self._add(read(characters))
        else:
            self._add_character(read_escape(cursor))

    def _open_group(self) -> None:
        """Read what is behind the parenthesis: flags, a name, or nothing."""
        flags_outside = self._flags
        if self._cursor.take_if("?P<") or self._cursor.take_if("?<"):
            self._read_name()
        elif self._cursor.take_if("?") and not self._read_flags():
            return
        self._groups.append(_OpenGroup(flags_outside))

    def _read_name(self) -> None:
        name = self._cursor.take_until(">")
        if not name or name.strip(_NAME_CHARACTERS):
            raise PatternError("invalid named capture")
        if name in self._names:
            raise PatternError("duplicate capture group name")
        self._names.add(name)

    def _read_flags(self) -> bool:
        """Read flags; True where a group begins behind them, False where they hold for the rest of this one."""
        is_on, is_complete = True, True
        while not self._cursor.is_at_end:
            character = self._cursor.take()
            if character in (":", ")") and is_complete:
                return character == ":"
            if character == "-" and is_on:
                is_on = is_complete = False
                continue
            if character not in ("i", "m", "s", "U"):
                break
            is_complete = True
            if character == "i":
                self._flags = self._flags._replace(is_folded=is_on)
            elif character == "s":
                self._flags = self._flags._replace(dot_is_all=is_on)
        raise PatternError("invalid or unsupported Perl syntax")

    def _close_group(self) -> None:
        if len(self._groups) == 1:
            raise PatternError("regexp/syntax: internal error")  # That is what RE2/J says of it.
        group = self._groups.pop()
        self._flags = group.flags_outside
        self._groups[-1].items.append(self._closed(group))

    def _closed(self, group: _OpenGroup) -> Program:
        group.end_alternative()
        self._count(len(group.alternatives) + 1)
        return either(group.alternatives)

    def _add_character(self, character: str) -> None:
        self._add(_read_character(character, self._flags.is_folded))

    def _add(self, item: Program) -> None:
        self._count(len(item))
        self._groups[-1].items.append(item)

    def _count(self, more: int) -> None:
        self._instructions += more
        if self._instructions > INSTRUCTIONS_MAX:
            raise PatternError(f"it needs more than {INSTRUCTIONS_MAX} instructions")


@lru_cache(512)
def _read_character(character: str, is_folded: bool) -> Program:  # noqa: FBT001 - a part of the cache's key.
    return read(single(character, is_folded=is_folded))
