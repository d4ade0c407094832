"""A plan kills each victim once a round and is its seed's; views make lanes of records."""

from __future__ import annotations

from collections import Counter

from tests.exactly_once.checker import Evidence, Output, violations
from tests.exactly_once.schedule import AFTER_MAX, AFTER_MIN, plan
from tests.exactly_once.views import Copies, Counts, word_of

BROKERS = (1, 2, 3)
SOURCE = {("s", 0): [(0, b"s-1-0"), (1, b"s-8-3")], ("s", 1): [(4, b"s-2-1"), (5, b"s-1-2")]}
"""Transactions 1 and 8 have the same word."""


def test_each_round_kills_every_broker_and_every_client_once() -> None:
    kills = plan(7, BROKERS, 2, 3)
    for round_number in range(3):
        some = kills[round_number * 5 : (round_number + 1) * 5]
        victims = Counter((kill.is_broker, kill.victim) for kill in some)
        assert victims == Counter([(True, 1), (True, 2), (True, 3), (False, 0), (False, 1)])
    assert len(kills) == 15
    assert all(AFTER_MIN <= kill.after < AFTER_MAX for kill in kills)


def test_a_plan_is_its_seed_s() -> None:
    assert plan(7, BROKERS, 2, 3) == plan(7, BROKERS, 2, 3)
    assert plan(7, BROKERS, 2, 3) != plan(8, BROKERS, 2, 3)


def test_a_copy_names_its_input_and_its_transaction() -> None:
    rows = {("t", 1): [(9, b'{"of": "s-2-1", "by": "c-1-1", "size": 2}'), (12, b"s-1-2")]}
    assert Copies().outputs(rows) == {"1": [Output(9, "s-2-1", "c-1-1", 2), Output(12, "s-1-2")]}
    assert Copies().inputs(SOURCE) == {"0": ["s-1-0", "s-8-3"], "1": ["s-2-1", "s-1-2"]}


def test_each_word_has_its_counts_one_after_the_other() -> None:
    words = [word_of(value) for value in ("s-1-0", "s-8-3", "s-2-1")]
    assert words[0] == words[1] != words[2]
    assert Counts().inputs(SOURCE) == {
        words[0]: [f"{words[0]}#{number}" for number in (1, 2, 3)],
        words[2]: [f"{words[2]}#1"],
    }


def test_a_record_that_was_counted_twice_or_never_is_found() -> None:
    """The count after it is one too high, or the last one is missing."""
    [word, other] = Counts().inputs(SOURCE)

    def laws(*counts: int) -> set[str]:
        rows = {("t", 0): [(number, f"{word}#{count}".encode()) for number, count in enumerate(counts)]}
        rows["t", 1] = [(0, f"{other}#1".encode())]
        evidence = Evidence(Counts().inputs(SOURCE), Counts().outputs(rows))
        return {line.partition(" ")[0] for line in violations(evidence)}

    assert laws(1, 2, 3) == set()
    assert laws(1, 2, 3, 4) == {"E3", "E4"}
    assert laws(1, 2) == {"E1"}
    assert laws(1, 2, 2, 3) == {"E2"}
    assert laws(1, 3, 2) == {"E4"}
