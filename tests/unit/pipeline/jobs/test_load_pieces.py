"""What a job's state notes of its batches, where the sink has no note of them (any more)."""

from __future__ import annotations

from pathlib import Path

import pytest

from sordini.pipeline.jobs.checkpoints import Checkpoint, put_in_force
from sordini.pipeline.jobs.load import TOPIC_IDS, known_ids
from sordini.pipeline.jobs.load_pieces import (
    DONE,
    INTENT,
    LoadPiece,
    NoteExpired,
    last_before_expiry,
    last_noted_batch,
)
from sordini.pipeline.jobs.state_folder import StateFolder
from tests.unit.pipeline.jobs.test_checkpoints import SAME, end, spark_ran, with_ids


def state_of(folder: Path, *, first: int, loaded: LoadPiece) -> StateFolder:
    """A stream whose batches `first` and the one after it end at 10 and 20, and a piece that was loaded."""
    state = StateFolder(str(folder))
    put_in_force(state.below("stream"), Checkpoint(0, first, SAME))
    spark_ran(folder / "stream", 0, planned=1, committed=1)
    state.write(DONE, loaded.to_json())
    state.write(INTENT, loaded.to_json())
    return state


def test_the_later_batch_of_a_topic_that_was_created_again_is_the_one_with_the_greater_number(tmp_path: Path) -> None:
    state = state_of(tmp_path, first=3, loaded=LoadPiece(5, end(0), end(7)))
    assert last_noted_batch(state, by_number=True) == (5, end(7))
    assert last_before_expiry(state, "topic rows", "group") == (5, end(7))


def test_where_a_stream_has_numbers_of_its_own_the_batch_with_the_greater_offsets_is_the_later_one(
    tmp_path: Path,
) -> None:
    assert last_noted_batch(StateFolder(str(tmp_path / "none"))) is None
    state = state_of(tmp_path, first=0, loaded=LoadPiece(5, end(0), end(7)))
    assert last_noted_batch(state) == (1, end(20))


def test_a_piece_that_was_begun_before_its_note_expired_is_not_decided_here(tmp_path: Path) -> None:
    state = state_of(tmp_path, first=3, loaded=LoadPiece(5, end(20), end(27)))
    state.write(INTENT, LoadPiece(6, end(27), end(30)).to_json())
    with pytest.raises(
        NoteExpired, match=r"whether batch 6 is in topic rows is not known: .* group 'group' have expired"
    ):
        last_before_expiry(state, "topic rows", "group")


def test_the_ids_of_topics_are_those_of_the_run_that_wrote_the_batch_though_a_stream_had_planned_the_same_offsets(
    tmp_path: Path,
) -> None:
    state = state_of(tmp_path, first=3, loaded=LoadPiece(2, end(0), end(5)))
    with_ids(tmp_path / "stream", 1, views="old")
    state.write(TOPIC_IDS, {"views": "new", "clicks": "same"})
    assert known_ids(state, None) == {"views": "new", "clicks": "same"}
    assert known_ids(state, (4, end(20))) == {"views": "old", "clicks": "same"}, "the stream wrote it"
    state.write(INTENT, LoadPiece(4, end(0), end(20)).to_json())
    assert known_ids(state, (4, end(20))) == {"views": "new", "clicks": "same"}
    state.write(INTENT, LoadPiece(4, end(0), end(21)).to_json())
    assert known_ids(state, (4, end(20))) == {"views": "old", "clicks": "same"}, "another piece, which was not written"
