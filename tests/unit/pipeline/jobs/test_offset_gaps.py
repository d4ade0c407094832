from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sordini.pipeline.jobs.offset_gaps import Gap, grouped, seen_in

PLACES = st.lists(st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 2), st.integers(0, 40)), max_size=60)


def batch(places: list[tuple[str, int, int]]) -> pa.RecordBatch:
    topics, numbers, offsets = ([place[at] for place in places] for at in range(3))
    columns = [pa.array(topics, pa.string()), pa.array(numbers, pa.int32()), pa.array(offsets, pa.int64())]
    return pa.RecordBatch.from_arrays(columns, names=["topic", "partition", "offset"])


@given(PLACES, PLACES, st.integers(0, 60))
def test_gaps_are_the_offsets_between_first_and_last_that_neither_rows_nor_dead_letters_have(
    rows: list[tuple[str, int, int]], letters: list[tuple[str, int, int]], half: int
) -> None:
    seen = seen_in([batch(rows[:half]), batch(rows[half:])])
    expected = set()
    for topic, number in {place[:2] for place in rows}:
        offsets = [at for *place, at in rows if place == [topic, number]]
        expected |= {(topic, number, at) for at in range(min(offsets), max(offsets))} - set(rows) - set(letters)
    gaps = list(seen.gaps(seen_in([batch(letters)])))
    assert {(gap.topic, gap.partition, at) for gap in gaps for at in range(gap.start, gap.end)} == expected
    assert len(gaps) == len(
        {(topic, number, at) for topic, number, at in expected if (topic, number, at - 1) not in expected}
    )
    assert seen.repeated() == len(rows) - len(set(rows))


def test_what_lacks_up_to_the_position_is_a_gap_too() -> None:
    seen, letters = seen_in([batch([("a", 0, 3), ("a", 0, 4)])]), seen_in([batch([("a", 0, 7)])])
    assert list(seen.gaps(letters, {"a": {0: 10}, "b": {0: 9}})) == [Gap("a", 0, 5, 7), Gap("a", 0, 8, 10)]
    assert list(seen.gaps(letters, {"a": {0: 6}})) == [Gap("a", 0, 5, 6)]
    assert list(seen.gaps(letters, {"a": {0: 2}})) == []


GAPS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 1), st.integers(0, 99)), unique=True, max_size=80)


@given(GAPS, st.integers(1, 20))
def test_groups_have_every_gap_once_in_order_and_the_widest_spaces_between_them(
    places: list[tuple[str, int, int]], most: int
) -> None:
    gaps = [Gap(topic, number, 3 * at * at, 3 * at * at + 1) for topic, number, at in places]
    groups = grouped(gaps, most)
    assert [gap for group in groups for gap in group] == sorted(gaps)
    assert all(len({gap[:2] for gap in group}) == 1 for group in groups)
    assert len(groups) <= most - 1 + len({place[:2] for place in places})
    inner = [after.start - gap.end for group in groups for gap, after in pairwise(group)]
    outer = [after[0].start - group[-1].end for group, after in pairwise(groups) if group[0][:2] == after[0][:2]]
    assert not inner or not outer or max(inner) <= min(outer)


def test_a_gap_is_shown_by_its_first_and_last_offset() -> None:
    assert (str(Gap("t", 0, 5, 6)), str(Gap("t", 0, 5, 8))) == ("t-0@5", "t-0@5..7")
