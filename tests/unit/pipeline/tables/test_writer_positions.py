from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.pipeline.tables import TableError, WrongBatch
from sordini.pipeline.tables.writer_positions import WriterPosition, from_json, is_written, to_json

NOTES = st.builds(
    WriterPosition,
    st.integers(0, 2**63 - 1),
    st.dictionaries(st.text(max_size=5), st.dictionaries(st.integers(0, 9), st.integers(0, 2**63 - 1))),
)


@given(NOTES)
def test_a_note_comes_back_from_its_json(note: WriterPosition) -> None:
    assert from_json(json.loads(json.dumps(to_json(note)))) == note


@given(NOTES)
def test_the_batch_that_was_noted_is_there_and_the_next_is_not(note: WriterPosition) -> None:
    assert is_written("app", note, note)
    assert not is_written("app", note, note._replace(batch_id=note.batch_id + 1))
    assert not is_written("app", None, note)


def test_offsets_that_one_of_the_two_does_not_know_contradict_nothing() -> None:
    known, unknown = WriterPosition(3, {"t": {0: 1}}), WriterPosition(3, {})
    assert is_written("app", known, unknown)
    assert is_written("app", unknown, known)


def test_a_batch_before_the_noted_one_is_refused() -> None:
    with pytest.raises(WrongBatch, match="older"):
        is_written("app", WriterPosition(3, {}), WriterPosition(2, {}))


@pytest.mark.parametrize(
    "body", [None, [], {}, {"batch": 1}, {"batch": "x", "offsets": {}}, {"batch": 1, "offsets": 5}]
)
def test_what_is_no_note_is_reported(body: object) -> None:
    with pytest.raises(TableError, match="cannot be read"):
        from_json(body)
