"""Patterns of transactional ids: they match what Python's do, in linear time, or are refused."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.broker.configuration.linear_pattern import DEPTH_MAX, RE2
from sordini.broker.transactions.id_pattern import IdPattern
from sordini.protocol.errors import BrokerError, ErrorCode

ATOMS = st.sampled_from(["a", "b", "-", ".", "[ab]", "[^a]", "[a-c]", "[b-]", r"\d", r"\W", r"\.", "[]a]"])
COUNTS = st.sampled_from(["", "*", "+", "?", "*?", "+?", "??", "{2}", "{1,3}"])
REPEATED = st.builds("{}{}".format, ATOMS, COUNTS)
SEQUENCES = st.lists(REPEATED, max_size=4).map("".join)
ALTERNATIVES = st.lists(SEQUENCES, min_size=1, max_size=3).map("|".join)
GROUPS = st.builds("{}({}){}{}".format, SEQUENCES, ALTERNATIVES, COUNTS, SEQUENCES)
TEXTS = st.text("abc-1.", max_size=8)


@given(st.one_of(GROUPS, ALTERNATIVES), TEXTS)
def test_a_pattern_matches_the_same_ids_as_in_other_engines(pattern: str, text: str) -> None:
    assert IdPattern(pattern).matches(text) == (re.fullmatch(pattern, text, re.ASCII) is not None)


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [("^orders-.*$", True), ("orders", False), ("ORDERS-.*", False), ("(?:orders|a^)-17", True), ("$orders.*", False)],
)
def test_a_pattern_matches_whole_ids(pattern: str, matches: bool) -> None:
    assert IdPattern(pattern).matches("orders-17") is matches


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        ")",
        "a)",
        "*",
        "a**",
        "a*+",
        "a*??",
        "[a",
        "[b-a]",
        "a{2}{3}",
        "a{",
        r"\b",
        r"(a)\1",
        "(?=a)",
        "a\\",
        "[[a]",
    ],
)
def test_what_is_not_served_is_refused(pattern: str) -> None:
    with pytest.raises(BrokerError) as refusal:
        IdPattern(pattern)
    assert refusal.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


def test_a_pattern_at_which_engines_backtrack_is_matched_in_few_steps() -> None:
    pattern = IdPattern("(a*)*" * 20 + "b")
    assert pattern.cost_of("a" * 200) < 20
    assert not pattern.matches("a" * 200)


def test_a_pattern_that_repeats_repetitions_is_read_or_refused_at_once() -> None:
    assert IdPattern("(?:(?:){999999}){999999}a").matches("a")
    assert IdPattern("(?:(?:b){0}){999999}a").matches("a")
    with pytest.raises(BrokerError, match="too large"):
        IdPattern("(a{999}){999}")


def test_the_length_and_the_depth_of_a_pattern_are_limited() -> None:
    assert IdPattern("a" * RE2.characters_max).matches("a" * RE2.characters_max)
    with pytest.raises(BrokerError):
        IdPattern("a" * (RE2.characters_max + 1))
    assert IdPattern("(" * DEPTH_MAX + "a" + ")" * DEPTH_MAX).matches("a")
    with pytest.raises(BrokerError):
        IdPattern("(" * (DEPTH_MAX + 1) + "a" + ")" * (DEPTH_MAX + 1))
