"""Regular expressions of subscriptions; what RE2/J says of hundreds is in tests/compat/coordinator_classes."""

from __future__ import annotations

import random

import pytest

from sordini.broker.groups.consumer.machine.patterns.automaton import CACHE_MAX, Automaton
from sordini.broker.groups.consumer.machine.patterns.cursor import PatternError
from sordini.broker.groups.consumer.machine.patterns.program import Program
from sordini.broker.groups.consumer.machine.patterns.syntax import CHARACTERS_MAX, INSTRUCTIONS_MAX, SyntaxReader
from sordini.broker.groups.consumer.machine.topic_patterns import PATTERNS_MAX, TopicPattern, TopicPatterns
from tests.support.assignor_groups import result_of

NAMES = ["orders", "orders-eu", "orders.us", "Orders", "payments", "__consumer_offsets", "a", "aa", "aab", "x{2"]


def matching(pattern: str) -> list[str]:
    return result_of(TopicPattern(pattern).matching(NAMES))


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("orders", "orders"),
        ("orders.*", "orders orders-eu orders.us"),
        ("orders[.-](eu|us)", "orders-eu orders.us"),
        (r"orders\..*", "orders.us"),
        ("(?i)orders", "orders Orders"),
        ("(?i:O)rders", "orders Orders"),
        ("((?i)o)rders|PAYMENTS", "orders Orders"),
        ("[^_].*s", "orders orders.us Orders payments"),
        (r"\w+", "orders Orders payments __consumer_offsets a aa aab"),
        (r".*\bus", "orders.us"),
        (r".*s\b.+", "orders-eu orders.us"),
        (r".*s\B.+", "__consumer_offsets"),
        ("a{1,2}b?", "a aa aab"),
        ("a{2,}", "aa"),
        ("(a|aa)*b", "aab"),
        ("(?:a*)*", "a aa"),
        (r"\Qorders.us\E|\x61", "orders.us a"),
        (r"[[:upper:]]\p{L}+", "Orders"),
        ("x{2", "x{2"),
        ("^pay$|^payments$", "payments"),
        ("order", ""),
        ("pay$ments", ""),
        ("", ""),
    ],
)
def test_a_pattern_names_the_topics_that_match_as_a_whole(pattern: str, found: str) -> None:
    assert matching(pattern) == found.split()


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(orders", "missing closing )"),
        ("orders)", "regexp/syntax: internal error"),
        ("[orders", "missing closing ]"),
        ("*", "missing argument to repetition operator"),
        ("a**", "invalid nested repetition operator"),
        ("a{1001}", "invalid repeat count"),
        (r"(a)\1", "invalid escape sequence"),
        ("(?=a)", "invalid or unsupported Perl syntax"),
        ("(?<=a)", "invalid named capture"),
        ("[b-a]", "invalid character class range"),
        ("\\", "trailing backslash at end of expression"),
        ("(?P<n>a)(?P<n>b)", "duplicate capture group name"),
        ("a" * (CHARACTERS_MAX + 1), f"it has more than {CHARACTERS_MAX} characters"),
        ("(a{1000}){1000}", f"it needs more than {INSTRUCTIONS_MAX} instructions"),
        ("(((a{9}){9}){9}){9}" * 2, f"it needs more than {INSTRUCTIONS_MAX} instructions"),
    ],
)
def test_a_pattern_that_is_refused_says_why(pattern: str, reason: str) -> None:
    with pytest.raises(PatternError) as refused:
        TopicPattern(pattern)
    assert str(refused.value) == reason


def test_a_program_is_as_large_as_it_was_counted() -> None:
    """The limit is checked before a repetition is made."""

    def size(pattern: str) -> int:
        program: Program = SyntaxReader(pattern).program()
        return len(program)

    assert size("a{1000}" * 9) == 9_000
    assert size("(a{100}){99}") == 9_900
    assert size("a{0,1000}" * 4) == 8_000
    assert size("(?:a*){1000}") == 3_000
    assert size("(?:){1000}" * 100) == 0
    with pytest.raises(PatternError):
        size("a{1000}" * 11)


def test_groups_may_be_as_deep_as_the_pattern_is_long() -> None:
    depth = CHARACTERS_MAX // 2 - 1
    assert matching("(" * depth + "a" + ")" * depth) == ["a"]
    assert matching("(a" * 2_000 + ")" * 2_000) == []


@pytest.mark.parametrize(
    "pattern",
    ["(a*)*b", "(a|aa)+$b", "(a|b)*a(a|b){1000}", "(?:a?){200}a{200}", "(.*)*x(.*)*y", "(a{0,1000}){4}"],
)
def test_the_steps_of_a_match_are_linear_in_the_name(pattern: str) -> None:
    """Patterns that let an engine that backtracks, or makes all states, take exponential time."""
    size = len(SyntaxReader(pattern).program())
    for length in (100, 249):
        names = ["a" * length, "ab" * (length // 2), "a" * (length - 1) + "b"]
        steps = list(TopicPattern(pattern).matching(names))
        assert sum(steps) <= 3 * length * (2 + size // 8)
        assert max(steps) <= 8 + size // 8


def test_many_names_are_one_look_up_for_each_character_once_the_states_are_known() -> None:
    names = [f"orders-{number}" for number in range(1_000)]
    assert sum(TopicPattern("orders-[0-9]+").matching(names)) < 1_050


def test_the_states_of_a_pattern_take_bounded_memory() -> None:
    automaton = Automaton(SyntaxReader("(a|b)*a(a|b){60}").program())
    draw, most = random.Random(1), 0
    for _ in range(10):
        name = "".join(draw.choice("ab") for _ in range(249))
        assert result_of(automaton.matches(name)) is (name[-61] == "a")
        assert automaton.cached <= CACHE_MAX + 249
        most = max(most, automaton.cached)
    assert most > CACHE_MAX // 2


def test_the_patterns_used_last_are_kept_compiled() -> None:
    patterns = TopicPatterns()
    first, second = patterns.compiled("a"), patterns.compiled("b")
    for number in range(PATTERNS_MAX - 2):
        patterns.compiled(f"c{number}")
    assert patterns.compiled("a") is first
    patterns.compiled("d")
    assert len(patterns) == PATTERNS_MAX
    assert patterns.compiled("a") is first
    assert patterns.compiled("b") is not second


def test_a_name_beyond_ascii_matches_nothing_that_reads_it() -> None:
    assert result_of(TopicPattern("[^a]|é|.").matching(["é", "b"])) == ["b"]
