"""A batch in flight is in as few parts as its states allow, whatever is put into it."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from sordini.broker.shares.machine.in_flight import InFlightBatch, Part
from sordini.broker.shares.machine.record_states import RecordState

END = 12
PUTS = st.lists(
    st.tuples(
        st.integers(0, END - 1),
        st.integers(1, 3),
        st.sampled_from([RecordState.ACQUIRED, RecordState.AVAILABLE, RecordState.ACKNOWLEDGED]),
    ),
    max_size=30,
)


@given(PUTS)
def test_a_batch_has_what_was_put_last_at_each_offset_and_its_neighbours_differ(
    puts: list[tuple[int, int, RecordState]],
) -> None:
    batch = InFlightBatch([Part(0, END, RecordState.ACQUIRED, 1)])
    expected = dict.fromkeys(range(END), RecordState.ACQUIRED)
    for first, size, state in puts:
        end = min(first + size, END)
        batch.put(Part(first, end, state, 1))
        expected |= dict.fromkeys(range(first, end), state)
        found = {offset: part.state for part in batch.parts for offset in range(part.first, part.end)}
        assert found == expected
        assert all(one.end == other.first and one[2:] != other[2:] for one, other in pairwise(batch.parts))
        for offset in range(END):
            (part,) = batch.within(offset, offset + 1)
            assert (part.first, part.end, part.state) == (offset, offset + 1, expected[offset])
