"""The checker finds what is planted, by its law and by no other; and a run without faults breaks none."""

from __future__ import annotations

import pytest

from tests.exactly_once.checker import Ending, Evidence, Output, violations

INPUTS = {"0": ["a", "b", "c"], "1": ["x", "y"]}
FIRST = [Output(0, "a", "t1", 3), Output(1, "b", "t1", 3)]
LAST = Output(3, "c", "t3", 2)
OTHER = [Output(0, "x", "t1", 3), Output(4, "y", "t3", 2)]
GOOD = Evidence(
    INPUTS,
    {"0": [*FIRST, LAST], "1": OTHER},
    [{"0": FIRST, "1": OTHER[:1]}],
    {"t1": Ending.COMMITTED, "t2": Ending.ABORTED},
    {"0": 0, "1": 0},
)


def with_outputs(*outputs: Output) -> Evidence:
    """GOOD with other outputs in lane 0, watched by no reader."""
    return GOOD._replace(outputs={"0": list(outputs), "1": OTHER}, watched=[])


def laws_broken_by(evidence: Evidence) -> set[str]:
    return {line.partition(" ")[0] for line in violations(evidence)}


def test_a_run_without_faults_breaks_no_law() -> None:
    assert violations(GOOD) == []


def test_a_transaction_of_which_nothing_is_known_may_be_there_or_not() -> None:
    assert violations(GOOD._replace(endings={})) == []


@pytest.mark.parametrize(
    ("planted", "laws"),
    [
        (GOOD._replace(inputs={**INPUTS, "0": ["a", "b", "c", "d"]}), {"E1"}),
        (with_outputs(*FIRST, LAST._replace(size=3), Output(9, "c", "t3", 3)), {"E2", "E5"}),
        (with_outputs(*FIRST, LAST, Output(5, "a")), {"E2", "E4"}),
        (with_outputs(*FIRST, LAST, Output(5, "d")), {"E3", "E4"}),
        (GOOD._replace(inputs={**INPUTS, "0": ["b", "a", "c"]}), {"E4"}),
        (GOOD._replace(inputs={"0": ["a", "b"], "1": ["c", "x", "y"]}), {"E4"}),
        (with_outputs(FIRST[0], LAST)._replace(inputs={**INPUTS, "0": ["a", "c"]}), {"E5"}),
        (GOOD._replace(endings={"t3": Ending.ABORTED}), {"E6"}),
        (GOOD._replace(endings={**GOOD.endings, "t4": Ending.COMMITTED}), {"E7"}),
        (GOOD._replace(watched=[{"0": [*FIRST, Output(2, "c", "t2", 1)]}]), {"E6", "E8"}),
        (GOOD._replace(watched=[{"0": [FIRST[1]]}]), {"E8"}),
        (GOOD._replace(watched=[{"0": [*FIRST, LAST, Output(7, "e", "t9", 1)]}]), {"E8"}),
        (GOOD._replace(unread={"0": 0, "1": 2}), {"E9"}),
        (GOOD._replace(open_lanes=["1"]), {"E10"}),
    ],
    ids=[
        "a skipped input",
        "an input copied twice by one transaction",
        "an input copied twice",
        "an aborted input that was read",
        "two outputs in the other order",
        "an output on another lane",
        "a torn transaction",
        "an aborted transaction that is there",
        "a committed transaction that is not there",
        "an aborted transaction that a reader saw meanwhile",
        "a reader that skipped an output",
        "a reader that saw what is gone",
        "offsets that were not committed",
        "a transaction that is open",
    ],
)
def test_a_planted_anomaly_is_found_by_its_law(planted: Evidence, laws: set[str]) -> None:
    assert laws_broken_by(planted) == laws
