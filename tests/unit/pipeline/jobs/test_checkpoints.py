from __future__ import annotations

import json
from pathlib import Path

import pytest

from sordini.pipeline.jobs import checkpoints
from sordini.pipeline.jobs.checkpoints import Checkpoint, choose, put_in_force
from sordini.pipeline.jobs.state_folder import StateError, StateFolder

SAME = {"format": "sordini", "topics": ["views"], "pattern": ""}


def end(at: int) -> dict[str, dict[int, int]]:
    return {"views": {0: at}}


def spark_ran(folder: Path, number: int, *, planned: int, committed: int) -> None:
    """A checkpoint as Spark leaves it: batch n ends at offset 10 * (n + 1)."""
    for log, last in (("offsets", planned), ("commits", committed)):
        (folder / str(number) / log).mkdir(parents=True)
        for batch in range(last + 1):
            lines = ["v1", "{}", json.dumps({"views": {"0": 10 * (batch + 1)}})] if log == "offsets" else ["v1", "{}"]
            (folder / str(number) / log / str(batch)).write_text("\n".join(lines))


def a_query(folder: Path, *, first: int = 0, planned: int, committed: int) -> StateFolder:
    state = StateFolder(str(folder))
    put_in_force(state, Checkpoint(0, first, SAME))
    spark_ran(folder, 0, planned=planned, committed=committed)
    return state


def test_a_first_run_begins_with_batch_0(tmp_path: Path) -> None:
    choice = choose(StateFolder(str(tmp_path)), None, SAME)
    assert choice == (Checkpoint(0, 0, SAME), True, "")


def test_a_checkpoint_is_gone_on_with_when_the_table_has_what_it_committed_last(tmp_path: Path) -> None:
    state = a_query(tmp_path, first=5, planned=2, committed=2)
    choice = choose(state, (7, end(30)), SAME)
    assert not choice.is_new
    assert choice.checkpoint.first_batch_id == 5


def test_a_new_checkpoint_begins_when_a_topic_is_another_one_and_not_when_one_comes_or_is_not_reported(
    tmp_path: Path,
) -> None:
    state = a_query(tmp_path, planned=2, committed=2)
    put_in_force(state, Checkpoint(0, 0, SAME, {"views": "old"}))
    for ids in ({"views": "old", "clicks": "new"}, {}):
        assert not choose(state, (2, end(30)), SAME, topic_ids=ids).is_new
    choice = choose(state, (2, end(30)), SAME, topic_ids={"views": "new"})
    assert choice == (Checkpoint(1, 3, SAME, {"views": "new"}), True, "'views' was deleted and created again")


def test_a_batch_that_is_in_the_table_and_not_committed_is_repeated_by_its_checkpoint(tmp_path: Path) -> None:
    state = a_query(tmp_path, planned=2, committed=1)
    assert not choose(state, (2, end(30)), SAME).is_new
    assert not choose(state, (1, end(20)), SAME).is_new


@pytest.mark.parametrize("committed", [-1, 0])
def test_a_query_that_died_in_its_first_batch_goes_on_whether_the_table_has_it_or_not(
    tmp_path: Path, committed: int
) -> None:
    state = a_query(tmp_path, planned=0, committed=committed)
    assert not choose(state, (0, end(10)), SAME).is_new
    assert choose(state, None, SAME).is_new == (committed == 0)


@pytest.mark.parametrize(
    ("last", "why"),
    [
        ((9, end(100)), "the table is at batch 9"),
        ((0, end(10)), "the table is at batch 0"),
        ((2, end(31)), "up to other offsets"),
        (None, "the table is at batch -1"),
    ],
    ids=["the table went on without it", "the table was put back", "other offsets", "the table is gone"],
)
def test_a_checkpoint_that_contradicts_the_table_is_left_and_a_new_one_begins_at_the_tables_end(
    tmp_path: Path, last: tuple[int, dict[str, dict[int, int]]] | None, why: str
) -> None:
    state = a_query(tmp_path, planned=2, committed=2)
    choice = choose(state, last, SAME)
    assert choice.is_new
    assert why in choice.why
    assert choice.checkpoint == Checkpoint(1, last[0] + 1 if last else 0, SAME)


def test_a_checkpoint_that_is_gone_makes_a_new_one_begin_at_the_tables_end(tmp_path: Path) -> None:
    choice = choose(StateFolder(str(tmp_path)), (7, end(30)), SAME)
    assert choice.checkpoint == Checkpoint(0, 8, SAME)
    assert "is lost" in choice.why


def test_folders_of_a_forgotten_checkpoint_are_not_taken_up(tmp_path: Path) -> None:
    spark_ran(tmp_path, 3, planned=1, committed=1)
    assert choose(StateFolder(str(tmp_path)), None, SAME).checkpoint.number == 4


def test_folders_that_are_newer_than_a_restored_note_are_not_taken_up(tmp_path: Path) -> None:
    state = a_query(tmp_path, planned=1, committed=1)
    spark_ran(tmp_path, 1, planned=4, committed=4)
    choice = choose(state, (9, end(100)), SAME)
    assert (choice.is_new, choice.checkpoint.number) == (True, 2)


def test_a_table_that_keeps_the_position_in_a_topic_that_is_gone_agrees_with_a_checkpoint_without_it(
    tmp_path: Path,
) -> None:
    state = a_query(tmp_path, planned=2, committed=2)
    assert not choose(state, (2, {**end(30), "gone": {0: 7}}), SAME).is_new
    assert choose(state, (2, {"gone": {0: 7}}), SAME).is_new


def with_ids(folder: Path, batch: int, **ids: str) -> None:
    """As the source logs a batch that read other topics than the one before."""
    position = {"views": {"0": 10 * (batch + 1)}, "$topic_ids": ids}
    (folder / "0" / "offsets" / str(batch)).write_text("\n".join(["v1", "{}", json.dumps(position)]))


def test_a_topic_that_was_created_again_while_the_query_ran_is_known_to_the_batches_after_it(tmp_path: Path) -> None:
    state = a_query(tmp_path, first=5, planned=2, committed=1)
    put_in_force(state, Checkpoint(0, 5, SAME, {"views": "old"}))
    with_ids(tmp_path, 1, views="old")
    with_ids(tmp_path, 2, views="new")
    assert not choose(state, (7, end(30)), SAME, topic_ids={"views": "new"}).is_new
    assert not choose(state, (6, end(20)), SAME, topic_ids={"views": "new"}).is_new
    assert choose(state, (7, end(30)), SAME, topic_ids={"views": "newest"}).is_new
    assert checkpoints.topic_ids_at(state, (7, end(30))) == {"views": "new"}
    assert checkpoints.topic_ids_at(state, (6, end(20))) == {"views": "old"}
    assert checkpoints.topic_ids_at(state, (7, end(31))) == {}, "another run has written that batch"
    assert checkpoints.topic_ids_at(state, (9, end(50))) == {}
    assert checkpoints.topic_ids_at(state, None) == {}


def test_another_source_gets_a_checkpoint_of_its_own(tmp_path: Path) -> None:
    state = a_query(tmp_path, planned=1, committed=1)
    choice = choose(state, (1, end(20)), {**SAME, "format": "kafka"})
    assert choice.is_new
    assert choice.checkpoint.first_batch_id == 2


def test_batches_without_rows_may_be_missing_in_the_table_of_an_aggregate(tmp_path: Path) -> None:
    state = a_query(tmp_path, planned=5, committed=5)
    assert not choose(state, (2, end(30)), SAME, skips_batches=True).is_new
    assert not choose(state, None, SAME, skips_batches=True).is_new
    assert choose(state, (2, end(31)), SAME, skips_batches=True).is_new
    assert choose(state, (6, end(70)), SAME, skips_batches=True).is_new


def test_a_table_of_an_aggregate_that_lacks_its_last_windows_is_an_older_copy(tmp_path: Path) -> None:
    state = a_query(tmp_path, planned=5, committed=5)
    assert not choose(state, (2, end(30)), SAME, skips_batches=True, written=2).is_new
    choice = choose(state, (2, end(30)), SAME, skips_batches=True, written=4)
    assert (choice.is_new, choice.checkpoint.first_batch_id) == (True, 3)
    assert choice.why == "the table is at batch 2 and had batch 4"
    assert choose(state, None, SAME, skips_batches=True, written=4).is_new


def test_a_sink_that_keeps_no_note_leaves_the_word_to_the_checkpoint(tmp_path: Path) -> None:
    state = a_query(tmp_path, planned=5, committed=4)
    assert not choose(state, None, SAME, table_has_position=False).is_new


def test_where_a_query_is_its_last_committed_batch_tells(tmp_path: Path) -> None:
    assert checkpoints.reached(StateFolder(str(tmp_path))) is None
    state = a_query(tmp_path, first=4, planned=2, committed=1)
    assert checkpoints.reached(state) == (5, end(20))


def test_damaged_notes_are_reported(tmp_path: Path) -> None:
    state = a_query(tmp_path, planned=0, committed=0)
    (tmp_path / "0/offsets/0").write_text("v1\n")
    with pytest.raises(StateError, match="is damaged"):
        choose(state, (0, end(10)), SAME)
    (tmp_path / "current.json").write_text('{"number": 0}')
    with pytest.raises(StateError, match="is damaged"):
        choose(state, (0, end(10)), SAME)
