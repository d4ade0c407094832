"""Options of a .proto file, as the known registry writes them. Pure.

[deprecated = true]                 one
[                                   several
  deprecated = true,
  (owner) = {
    name: "x",
    groups: [
      "y"
    ]
  }
]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from sordini.schemas.registered.types import InvalidSchema

_ESCAPED: Final = re.compile(r"\\(.)|(['\"])", re.DOTALL)
_ESCAPES: Final = {"\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v"}
DEPTH_MAX: Final = 60
_ENDS: Final = frozenset(",;]}>:=")
_Belongs = Callable[[str], bool]


def write_option(tokens: Sequence[str]) -> str:
    """`NAME = VALUE`."""
    at = tokens.index("=") if "=" in tokens else 0
    if at == 0 or at + 1 == len(tokens):
        raise InvalidSchema("an option is NAME = VALUE")
    return f"{''.join(tokens[:at])} = {_Value(tokens[at + 1 :]).whole()}"


def write_options(tokens: Sequence[str]) -> str:
    """Those in brackets behind a field; `tokens` are without the brackets."""
    written = [write_option(part) for part in split(tokens)]
    if len(written) == 1:
        return f"[{written[0]}]"
    return "[\n" + "".join(indented(one) for one in _with_commas(written)) + "]"


def split(tokens: Sequence[str]) -> list[Sequence[str]]:
    """The parts between commas, those inside brackets left alone."""
    parts: list[list[str]] = [[]]
    depth = 0
    for word in tokens:
        depth += (word in "[{(<") - (word in "]})>")
        if word == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(word)
    return [part for part in parts if part]


def indented(text: str) -> str:
    return "".join(f"  {line}\n" for line in text.removesuffix("\n").split("\n"))


def unquoted(word: str) -> str:
    return word[1:-1]


def write_string(tokens: Sequence[str]) -> str:
    """Strings beside each other are one; escapes by number stay as they are."""
    text = "".join(map(unquoted, tokens))
    for plain, escape in _ESCAPES.items():
        text = text.replace(plain, escape)
    return '"' + _ESCAPED.sub(lambda match: "\\" + (match.group(1) or match.group(2)), text) + '"'


class _Value:
    """Reads one value: a string, a message in braces, a list in brackets, or anything else as it is."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self._tokens = tokens
        self._at = 0

    def whole(self) -> str:
        written = self._value(0)
        if self._at < len(self._tokens):
            raise InvalidSchema("an option with more than a value")
        return written

    def _value(self, depth: int) -> str:
        if depth > DEPTH_MAX:
            raise InvalidSchema(f"an option nested more than {DEPTH_MAX} levels deep")
        word = self._peek()
        if word in {"{", "<"}:
            return self._message(depth)
        if word == "[":
            return self._list(depth)
        if word[0] in "\"'":
            return write_string(self._run(lambda one: one[0] in "\"'"))
        return "".join(self._run(lambda one: one not in _ENDS, at_most=2 if word in {"-", "+"} else 1))

    def _message(self, depth: int) -> str:
        self._at += 1
        members = []
        while self._peek() not in {"}", ">"}:
            name = self._member_name()
            if self._peek() == ":":
                self._at += 1
            members.append(f"{name}: {self._value(depth + 1)}")
            if self._peek() in {",", ";"}:
                self._at += 1
        self._at += 1
        return "{\n" + "".join(indented(one) for one in _with_commas(members)) + "}"

    def _member_name(self) -> str:
        if self._peek() != "[":
            self._at += 1
            return self._tokens[self._at - 1]
        start = self._at
        while self._peek() != "]":
            self._at += 1
        self._at += 1
        return "".join(self._tokens[start : self._at])

    def _list(self, depth: int) -> str:
        self._at += 1
        items = []
        while self._peek() != "]":
            items.append(self._value(depth + 1))
            if self._peek() == ",":
                self._at += 1
        self._at += 1
        return "[\n" + "".join(indented(one) for one in _with_commas(items)) + "]"

    def _run(self, belongs: _Belongs, at_most: int = 1_000_000) -> Sequence[str]:
        start = self._at
        while self._at < len(self._tokens) and self._at - start < at_most and belongs(self._tokens[self._at]):
            self._at += 1
        if self._at == start:
            raise InvalidSchema(f"an option's value begins with {self._tokens[start]!r}")
        return self._tokens[start : self._at]

    def _peek(self) -> str:
        if self._at >= len(self._tokens):
            raise InvalidSchema("an option ends too early")
        return self._tokens[self._at]


def _with_commas(parts: list[str]) -> list[str]:
    return [f"{part}," for part in parts[:-1]] + parts[-1:]
