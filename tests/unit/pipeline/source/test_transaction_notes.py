from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.pipeline.source.transaction_notes import METADATA_BYTES_MAX, BadNote, Note, newest, to_pieces

TOPICS = st.text("abcXYZ019._-", min_size=1, max_size=5)
OFFSETS = st.dictionaries(
    TOPICS, st.dictionaries(st.integers(0, 9999), st.integers(0, 2**62), min_size=1, max_size=4), max_size=4
)
NOTES = st.builds(Note, st.integers(0, 2**40), OFFSETS)


@given(st.lists(NOTES, min_size=1, max_size=4, unique_by=lambda note: note.batch_id), st.randoms())
def test_of_all_notes_in_a_group_the_newest_is_in_force_whatever_the_order(notes: list[Note], random) -> None:
    texts = [text for note in notes for text in to_pieces(note)]
    random.shuffle(texts)
    assert newest(texts, "g") == max(notes)


def test_a_group_without_offsets_has_no_note() -> None:
    assert newest([], "g") is None


def test_a_position_of_many_partitions_is_in_pieces_that_a_broker_takes() -> None:
    # Offsets that do not compress.
    many = Note(7, {"topic": {number: 7_919**3 * (number + 1) % 2**61 for number in range(3000)}})
    pieces = to_pieces(many)
    assert len(pieces) > 1
    assert max(map(len, pieces)) <= METADATA_BYTES_MAX
    assert newest(pieces, "g") == newest(pieces[::-1], "g") == many
    with pytest.raises(BadNote, match="has lost a part of the note of batch 7"):
        newest(pieces[1:], "g")


@pytest.mark.parametrize(
    ("texts", "complaint"),
    [
        ([""], "offsets that are no note"),
        (["consumer-1"], "offsets that are no note"),
        (["sordini 3 0 1 eNoDAAAAAAE="], "cannot be read"),
        (["sordini 3 0 1 AAAA"], "cannot be read"),
        (["sordini 3 0 1 e"], "cannot be read"),
    ],
)
def test_what_is_no_note_is_said_and_not_taken_for_a_position(texts: list[str], complaint: str) -> None:
    with pytest.raises(BadNote, match=complaint):
        newest(texts, "g")
