from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sordini.pipeline.jobs.offset_gaps import Gap, seen_in

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


def test_a_gap_is_shown_by_its_first_and_last_offset() -> None:
    assert (str(Gap("t", 0, 5, 6)), str(Gap("t", 0, 5, 8))) == ("t-0@5", "t-0@5..7")
