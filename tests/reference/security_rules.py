"""The tables of docs/security.md that are made from the code; the rest of the page is written by hand.

The rules of each API come from its route, the bounds from `bounds.py` beside this.
"""

from __future__ import annotations

from pathlib import Path

from sordini.broker.requests.call import AuthorizationRule
from sordini.protocol.api_keys import ApiKey
from tests.reference import bounds
from tests.support.routes import rules

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
HEAD = "| API | what it requires |\n| --- | --- |\n"
NO_RULE = "none; it comes before the login"


def page() -> str:
    """The page with these tables in place of those that it has."""
    text = PAGE.read_text(encoding="utf-8")
    for head, lines in ((HEAD, rows()), (bounds.HEAD, bounds.rows())):
        text = _replaced(text, head, lines)
    return text


def _replaced(text: str, head: str, lines: list[str]) -> str:
    before, found, after = text.partition(head)
    if not found:
        raise ValueError(f"{PAGE}: the head of a table is missing: {head!r}")
    _, gap, rest = after.partition("\n\n")
    return before + head + "".join(lines) + gap[1:] + rest


def rows() -> list[str]:
    table = rules()
    return [f"| {_name(api)} | {_meaning(rule)} |\n" for api, rule in sorted(table.items())]


def _name(api: ApiKey) -> str:
    return "".join(word.capitalize() for word in api.name.split("_"))


def _meaning(rule: AuthorizationRule | None) -> str:
    return NO_RULE if rule is None else rule.meaning
