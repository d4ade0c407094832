"""The table of rules in docs/security.md, from `broker/security/rules/table.py`. The rest of the page is written by hand."""

from __future__ import annotations

from pathlib import Path

from sordini.broker.requests.fetch_sessions import FetchSessions
from sordini.broker.security.rules.rule import Rule
from sordini.broker.security.rules.table import rules
from sordini.protocol.api import ApiKey

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
HEAD = "| API | what it requires |\n| --- | --- |\n"
NO_RULE = "none; it comes before the login"


def page() -> str:
    """The page with this table in place of the one that it has."""
    before, head, after = PAGE.read_text(encoding="utf-8").partition(HEAD)
    if not head:
        raise ValueError(f"{PAGE}: the head of the table of rules is missing: {HEAD!r}")
    _, gap, rest = after.partition("\n\n")
    return before + HEAD + "".join(rows()) + gap[1:] + rest


def rows() -> list[str]:
    table = rules(FetchSessions(1, lambda: 1, lambda _: None))
    return [f"| {_name(api)} | {_meaning(rule)} |\n" for api, rule in sorted(table.items())]


def _name(api: ApiKey) -> str:
    return "".join(word.capitalize() for word in api.name.split("_"))


def _meaning(rule: Rule | None) -> str:
    return NO_RULE if rule is None else rule.meaning
