"""Secrets are compared in constant time wherever they are compared (CVE-2021-38153)."""

from __future__ import annotations

import ast
import hmac
from pathlib import Path

import pytest

from sordini.broker.configuration.settings import Password
from sordini.broker.security.sasl.exchanges import LoginRefused, PlainExchange

ROOT = Path(__file__).resolve().parents[4]
FOLDERS = ("broker/security", "broker/administration", "broker/configuration", "client", "cli")
SECRETS = frozenset(
    {"password", "passwords", "secret", "proof", "signature", "stored_key", "server_key", "client_key", "salted"}
)


def names_of(node: ast.expr) -> set[str]:
    """Words of the names in an expression, as `password` in `self._password`; `is None` and lengths are no secrets."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len":
        return set()
    found = set()
    for inner in ast.walk(node):
        name = inner.id if isinstance(inner, ast.Name) else inner.attr if isinstance(inner, ast.Attribute) else ""
        found.add(name.lstrip("_").lower())
    return found


def compared_secrets(text: str) -> list[int]:
    """Lines on which `==` or `!=` has a secret on one of its sides, and no constant on the other."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Compare)
        and any(isinstance(operator, ast.Eq | ast.NotEq) for operator in node.ops)
        and not any(isinstance(side, ast.Constant) for side in (node.left, *node.comparators))
        and any(names_of(side) & SECRETS for side in (node.left, *node.comparators))
    ]


def test_no_secret_is_compared_with_the_operators_that_stop_at_the_first_difference() -> None:
    sources = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    assert len(sources) > 100
    assert [f"{path.relative_to(ROOT)}:{line}" for path in sources for line in compared_secrets(path.read_text())] == []


def test_the_search_finds_such_a_comparison() -> None:
    assert compared_secrets("if self._password == given: ...") == [1]
    assert compared_secrets("ok = given != known.stored_key") == [1]
    assert compared_secrets("if len(proof) != size or password is None or password == '': ...") == []


@pytest.mark.parametrize("user", ["alice", "nobody"])
def test_a_password_is_compared_as_a_whole_also_of_a_user_who_does_not_exist(
    monkeypatch: pytest.MonkeyPatch, user: str
) -> None:
    calls = []
    whole = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", lambda one, other: calls.append((one, other)) or whole(one, other))
    with pytest.raises(LoginRefused):
        PlainExchange({"alice": "right"}.get).step(b"\0%s\0wrong" % user.encode())
    assert len(calls) == 1
    assert Password("a") == Password("a") != Password("b")
    assert len(calls) == 3
