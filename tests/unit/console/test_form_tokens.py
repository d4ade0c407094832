"""Tokens of forms."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sordini.console.security.form_tokens import FormTokens

TEXTS = st.lists(st.text(max_size=8), max_size=4)


@given(TEXTS, TEXTS)
def test_a_token_is_valid_for_its_own_parts_alone(parts: list[str], others: list[str]) -> None:
    tokens = FormTokens(b"k" * 32)
    token = tokens.token("purpose", *parts)
    assert tokens.is_valid(token, "purpose", *parts)
    assert tokens.is_valid(token, "purpose", *others) is (parts == others)
    assert not tokens.is_valid(token, "another", *parts)


def test_a_token_of_another_process_is_not_valid() -> None:
    assert not FormTokens(b"b" * 32).is_valid(FormTokens(b"a" * 32).token("x", "y"), "x", "y")
