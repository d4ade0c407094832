"""Records by their stored state: what is written later replaces what was there."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from sordini.broker.share_state.machine.state_runs import StateRun, with_written

RUNS = st.builds(
    lambda first, size, state, deliveries: StateRun(first, first + size, state, deliveries),
    st.integers(0, 15),
    st.integers(1, 6),
    st.sampled_from([0, 2, 4]),
    st.integers(1, 3),
)
WRITES = st.lists(st.tuples(st.lists(RUNS, min_size=1, max_size=3), st.sampled_from([0, 0, 3, 6])), max_size=6)


def by_offset(runs: Sequence[StateRun]) -> dict[int, tuple[int, int]]:
    return {offset: (run.deliveries, run.state) for run in runs for offset in range(run.first, run.end)}


@given(WRITES)
def test_each_record_has_the_highest_of_its_deliveries_and_states_and_none_is_below_the_start(
    writes: list[tuple[list[StateRun], int]],
) -> None:
    runs: tuple[StateRun, ...] = ()
    for written, start in writes:
        expected = by_offset(runs)
        for run in written:
            for offset, value in by_offset([run]).items():
                expected[offset] = max(value, expected.get(offset, value))
        runs = with_written(runs, written, start)
        assert by_offset(runs) == {offset: value for offset, value in expected.items() if offset >= start}


@given(WRITES)
def test_runs_are_sorted_and_as_long_as_they_can_be(writes: list[tuple[list[StateRun], int]]) -> None:
    runs: tuple[StateRun, ...] = ()
    for written, start in writes:
        runs = with_written(runs, written, start)
        assert all(run.first < run.end for run in runs)
        for one, other in pairwise(runs):
            assert one.end <= other.first
            assert one.end < other.first or one[2:] != other[2:]


@given(st.lists(RUNS, min_size=1, max_size=3), st.integers(0, 80), st.sampled_from([0, 30]))
def test_few_runs_are_put_into_many_as_they_are_merged_with_few(added: list[StateRun], shift: int, start: int) -> None:
    """Only what they touch is read, and the result is the same."""
    many = tuple(StateRun(2 * index, 2 * index + 1 + index % 2, index % 3, 1 + index % 2) for index in range(50))
    written = [run._replace(first=run.first + shift, end=run.end + shift) for run in added]
    expected = by_offset(many)
    for run in written:
        for offset, value in by_offset([run]).items():
            expected[offset] = max(value, expected.get(offset, value))
    runs = with_written(many, written, start)
    assert by_offset(runs) == {offset: value for offset, value in expected.items() if offset >= start}
    assert all(one.end < other.first or one[2:] != other[2:] for one, other in pairwise(runs))


def test_as_many_runs_as_a_request_may_have_are_merged_with_as_many() -> None:
    count = 10_000
    runs = tuple(StateRun(4 * index, 4 * index + 2, 0, 2) for index in range(count))
    between = [StateRun(4 * index + 2, 4 * index + 3, 2, 1) for index in range(count)]
    over = [StateRun(4 * index + 1, 4 * index + 3, 2, 1 + 2 * (index % 2)) for index in range(count)]
    assert with_written(runs, between, 0) == tuple(sorted([*runs, *between]))
    parts = [
        (StateRun(4 * index, 4 * index + 1, 0, 2), StateRun(4 * index + 1, 4 * index + 3, 2, 3))
        if index % 2
        else (StateRun(4 * index, 4 * index + 2, 0, 2), StateRun(4 * index + 2, 4 * index + 3, 2, 1))
        for index in range(count)
    ]
    assert with_written(runs, over, 0) == tuple(run for pair in parts for run in pair)


def test_a_write_replaces_a_part_of_a_longer_run() -> None:
    whole = StateRun(0, 10, 0, 1)
    assert with_written([whole], [StateRun(3, 5, 2, 1)], 0) == (
        StateRun(0, 3, 0, 1),
        StateRun(3, 5, 2, 1),
        StateRun(5, 10, 0, 1),
    )


def test_an_older_delivery_does_not_undo_a_newer_one() -> None:
    assert with_written([StateRun(3, 5, 2, 2)], [StateRun(0, 10, 0, 1)], 0) == (
        StateRun(0, 3, 0, 1),
        StateRun(3, 5, 2, 2),
        StateRun(5, 10, 0, 1),
    )
