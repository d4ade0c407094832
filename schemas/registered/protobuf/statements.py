"""The text of a .proto file as statements. Pure.

Only for texts that the compiler accepts: what a statement means is not checked here. Comments and spaces are left out,
strings keep their quotes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from sordini.schemas.registered.types import InvalidSchema
from sordini.system.named_tuple import NamedTuple

_TOKEN: Final = re.compile(
    r"""
    (?P<space> \s+ | //[^\n]* | /\*.*?\*/ )
    | (?P<string> "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*' )
    | (?P<name> \.?[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)* )
    | (?P<number> \.?\d(?:[eE][+-]?\d|[\w.])* )
    | (?P<other> . )
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
STATEMENTS_DEPTH_MAX: Final = 100


class Statement(NamedTuple):
    """Tokens up to a semicolon, or up to a block, whose statements are in `body`."""

    head: tuple[str, ...]
    body: tuple[Statement, ...] | None


def read_statements(text: str) -> tuple[Statement, ...]:
    """Raises InvalidSchema for text that no compiler accepts."""
    reader = _Reader(list(_tokens(text)))
    statements = reader.block(0)
    if not reader.is_at_end:
        raise InvalidSchema("a brace is closed that is not open")
    return statements


def _tokens(text: str) -> Iterator[str]:
    for match in _TOKEN.finditer(text.removeprefix("\ufeff")):
        if match.lastgroup != "space":
            yield match.group()


class _Reader:
    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._at = 0

    @property
    def is_at_end(self) -> bool:
        return self._at == len(self._tokens)

    def block(self, depth: int) -> tuple[Statement, ...]:
        if depth > STATEMENTS_DEPTH_MAX:
            raise InvalidSchema(f"nested more than {STATEMENTS_DEPTH_MAX} levels deep")
        made = []
        while not self.is_at_end and self._tokens[self._at] != "}":
            if self._tokens[self._at] == ";":
                self._at += 1
                continue
            made.append(self._statement(depth))
        return tuple(made)

    def _statement(self, depth: int) -> Statement:
        head: list[str] = []
        open_brackets = 0
        while not self.is_at_end:
            word = self._tokens[self._at]
            self._at += 1
            if open_brackets == 0 and word == ";":
                return Statement(tuple(head), None)
            if open_brackets == 0 and word == "{" and head and head[0] != "option":
                return Statement(tuple(head), self._body(depth))
            open_brackets += (word in "[{") - (word in "]}")
            head.append(word)
        raise InvalidSchema("the text ends inside a statement")

    def _body(self, depth: int) -> tuple[Statement, ...]:
        body = self.block(depth + 1)
        if self.is_at_end:
            raise InvalidSchema("the text ends inside a block")
        self._at += 1
        return body
