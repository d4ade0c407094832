"""Which of the slow tests a run has."""

from __future__ import annotations

from tests.support.parts import FOLDER_PARTS, SLOW_PARTS, has_slow

NODES = [f"tests/a/test_{number}.py::test_it" for number in range(100)]
NUMBERS = [part * FOLDER_PARTS for part in range(SLOW_PARTS)]


def test_a_plain_run_has_none_and_all_has_every_one() -> None:
    assert not any(has_slow(node, "") for node in NODES)
    assert all(has_slow(node, "all") for node in NODES)


def test_each_is_in_exactly_one_part_and_any_number_names_one() -> None:
    for node in NODES:
        assert sum(has_slow(node, str(number)) for number in NUMBERS) == 1
        assert has_slow(node, "13") == has_slow(node, str(13 + 7 * SLOW_PARTS * FOLDER_PARTS))
    assert all(any(has_slow(node, str(number)) for node in NODES) for number in NUMBERS)


def test_every_part_meets_every_long_folder() -> None:
    met = {
        (number % FOLDER_PARTS, node)
        for number in range(SLOW_PARTS * FOLDER_PARTS)
        for node in NODES
        if has_slow(node, str(number))
    }
    assert len(met) == FOLDER_PARTS * len(NODES)


def test_the_tests_of_a_file_are_in_one_part() -> None:
    for number in NUMBERS:
        assert has_slow("tests/a.py::test_one[x]", str(number)) == has_slow("tests/a.py::test_two", str(number))
