from __future__ import annotations

from pathlib import Path

from sordini.pipeline.jobs.checkpoints import Checkpoint, planned_start, put_in_force, uncommitted_batch
from sordini.pipeline.jobs.state_folder import StateFolder
from tests.unit.pipeline.jobs.test_checkpoints import SAME, end, spark_ran


def a_query(folder: Path, *, planned: int, committed: int) -> StateFolder:
    state = StateFolder(str(folder))
    put_in_force(state, Checkpoint(0, 3, SAME), start=end(4))
    spark_ran(folder, 0, planned=planned, committed=committed)
    return state


def test_a_batch_that_is_in_the_table_and_not_committed_may_lack_its_dead_letters(tmp_path: Path) -> None:
    state = a_query(tmp_path, planned=2, committed=1)
    assert uncommitted_batch(state, (5, end(30))) == (end(20), end(30))


def test_the_first_batch_of_a_checkpoint_begins_where_the_checkpoint_does(tmp_path: Path) -> None:
    state = a_query(tmp_path, planned=0, committed=-1)
    assert uncommitted_batch(state, (3, end(10))) == (end(4), end(10))
    checkpoint = Checkpoint(0, 3, SAME)
    assert planned_start(state, checkpoint, 0) == end(4)
    assert planned_start(state, checkpoint, 1) == end(10)


def test_of_a_batch_whose_table_keeps_more_positions_the_range_is_the_checkpoints(tmp_path: Path) -> None:
    state = a_query(tmp_path, planned=2, committed=1)
    assert uncommitted_batch(state, (5, {**end(30), "gone": {0: 7}})) == (end(20), end(30))


def test_what_is_committed_or_not_in_the_table_or_anothers_is_not_half_done(tmp_path: Path) -> None:
    state = a_query(tmp_path, planned=2, committed=1)
    assert uncommitted_batch(state, (4, end(20))) is None
    assert uncommitted_batch(state, (5, end(29))) is None
    assert uncommitted_batch(state, (6, end(30))) is None
    assert uncommitted_batch(state, None) is None
    assert uncommitted_batch(StateFolder(str(tmp_path / "none")), (5, end(30))) is None
    (tmp_path / "0/commits/2").write_text("v1\n{}")
    assert uncommitted_batch(state, (5, end(30))) is None
