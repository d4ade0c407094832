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
        for one, other in pairwise(runs):
            assert one.end <= other.first
            assert one.end < other.first or one[2:] != other[2:]


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
