"""The parts of what takes long that runs have."""

from __future__ import annotations

from math import ceil

import pytest

from tests.support.parts import every, examples, part_of

CASES = list(range(7))


@pytest.mark.parametrize("count", range(1, 9))
def test_the_parts_of_successive_numbers_are_equally_long_and_together_all_cases(count: int) -> None:
    parts = [part_of(CASES, count, str(part)) for part in range(100, 100 + ceil(len(CASES) / count))]
    assert {len(part) for part in parts} == {min(count, 7)}
    assert sorted({case for part in parts for case in part}) == CASES
    assert all(part == sorted(part) for part in parts)


@pytest.mark.parametrize("step", range(1, 9))
def test_each_case_is_in_one_of_as_many_successive_parts_as_there_are_steps(step: int) -> None:
    parts = [every(step, CASES, str(part)) for part in range(100, 100 + step)]
    assert sorted(case for part in parts for case in part) == CASES


def test_without_a_number_it_is_the_first_part_and_all_are_everything() -> None:
    assert part_of(CASES, 2, "") == part_of(CASES, 2, "0") == [0, 1]
    assert every(3, CASES, "") == every(3, CASES, "0") == [0, 3, 6]
    assert part_of(CASES, 2, "all") == every(3, CASES, "all") == CASES


def test_a_quarter_of_the_examples_is_drawn_when_nothing_is_asked_for() -> None:
    assert [examples(count, "") for count in (300, 100, 6, 2)] == [75, 25, 1, 1]
    assert examples(300, "0") == examples(300, "all") == 300
