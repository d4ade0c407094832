"""`ssl.principal.mapping.rules` (KIP-371): how a certificate's distinguished name becomes a principal.

    RULE:^CN=(.*?),OU=Services.*$/$1/L, DEFAULT

Rules are tried in their order; the first whose pattern matches the whole name is applied: as in Java, every match of
its pattern in the name is replaced, and `/L` or `/U` changes the case. DEFAULT is the name itself. A name that no rule
matches is refused. Pure.
"""

from __future__ import annotations

import re
from typing import Final

from sordini.broker.configuration.linear_pattern import LinearPattern, PatternError
from sordini.system.named_tuple import NamedTuple

NAME_CHARACTERS_MAX: Final = 4096
"""Of a distinguished name that rules are applied to."""
_RULE = re.compile(r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*(?:,|$)")


class MappingError(ValueError):
    """Rules that are not understood, or a name that no rule matches."""


class _Rule(NamedTuple):
    pattern: LinearPattern | None
    """None for DEFAULT."""
    replacement: str
    case: str


class PrincipalMapping:
    """The rules of one listener."""

    def __init__(self, rules: str) -> None:
        """Raises MappingError."""
        self._rules: list[_Rule] = []
        text = rules.strip() or "DEFAULT"
        at = 0
        while at < len(text):
            found = _RULE.match(text, at)
            if found is None:
                raise MappingError(f"{text[at:]!r} is no RULE:pattern/replacement/[LU] and not DEFAULT")
            at = found.end()
            try:
                pattern = None if found[1] else LinearPattern(found[2])
            except PatternError as error:
                raise MappingError(f"the pattern {found[2]!r} is not understood: {error}") from None
            if pattern is not None:
                _expanded(found[3], "", (0, 0) * (pattern.groups + 1))  # So that a wrong one is found now.
            self._rules.append(_Rule(pattern, found[3] or "", found[4] or ""))

    def apply(self, name: str) -> str:
        """The name of the principal. Raises MappingError when there is none."""
        if len(name) > NAME_CHARACTERS_MAX:
            raise MappingError(f"a distinguished name of {len(name)} characters is too long")
        for rule in self._rules:
            if rule.pattern is None:
                return name
            if rule.pattern.find(name, is_whole=True) is not None:
                mapped = _replaced(rule.pattern, rule.replacement, name)
                return mapped.lower() if rule.case == "L" else mapped.upper() if rule.case == "U" else mapped
        raise MappingError(f"no rule of ssl.principal.mapping.rules matches {name!r}")


def _replaced(pattern: LinearPattern, replacement: str, name: str) -> str:
    """Every match replaced."""
    parts, at, copied = [], 0, 0
    while at <= len(name) and (found := pattern.find(name, at)) is not None:
        begin, end = found[0], found[1]
        parts += [name[copied:begin], _expanded(replacement, name, found)]
        copied = end
        at = end + (begin == end)
    return "".join([*parts, name[copied:]])


def _expanded(replacement: str, name: str, slots: tuple[int, ...]) -> str:
    """A replacement with the text of groups for `$1`; `$9` without such a group stands for itself."""
    parts, at, groups = [], 0, len(slots) // 2 - 1
    while at < len(replacement):
        character = replacement[at]
        at += 1
        if character == "\\" and at < len(replacement):
            parts.append(replacement[at])
            at += 1
        elif character == "$" and replacement[at : at + 1].isdecimal():
            number = int(replacement[at])
            if number > groups:
                parts.append(character)
                continue
            at += 1
            while replacement[at : at + 1].isdecimal() and number * 10 + int(replacement[at]) <= groups:
                number = number * 10 + int(replacement[at])
                at += 1
            begin, end = slots[2 * number], slots[2 * number + 1]
            parts.append(name[begin:end] if begin >= 0 else "")
        elif character in "\\$":
            raise MappingError(
                f"the replacement {replacement!r} has a {character} that escapes nothing and names no group"
            )
        else:
            parts.append(character)
    return "".join(parts)
