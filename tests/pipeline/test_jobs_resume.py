"""A Delta table that an earlier version wrote and others cleaned up has lost its job's position: `resume` mends it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from sordini.pipeline.errors import PipelineError
from sordini.pipeline.jobs import resume
from sordini.pipeline.tables.delta.positions import NOTES_KEY
from sordini.pipeline.tables.table import LostPosition
from tests.pipeline.sent import KEEP
from tests.pipeline.test_jobs import a_job, good, numbers, produce, run_load

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sordini.pipeline.jobs.job import Job


@pytest.fixture
def job(bootstrap: str, make_topic: Callable[..., str], tmp_path: Path) -> Job:
    return a_job(tmp_path, bootstrap, make_topic(2, configs=KEEP), "delta")


def lose_the_position(job: Job) -> None:
    """An earlier version's batch, whose offsets were in commitInfo alone, and then another program's clean-up."""
    assert job.sink is not None
    place = job.sink.location
    before = DeltaTable(place)
    number = before.transaction_version(job.name)
    assert number is not None
    notes = {job.name: {"batch": number + 1, "offsets": {job.source.topics[0]: {"0": 20, "1": 20}}}}
    commit = CommitProperties(custom_metadata={NOTES_KEY: notes}, app_transactions=[Transaction(job.name, number + 1)])
    nothing = pa.table(before.to_pyarrow_table().slice(0, 0))
    write_deltalake(place, nothing, mode="append", commit_properties=commit, partition_by=["event_date"])
    for _ in range(11):
        write_deltalake(place, nothing, mode="append", partition_by=["event_date"])
    DeltaTable(place).create_checkpoint()
    for old in sorted(Path(place, "_delta_log").glob("*.json"))[:-1]:
        old.unlink()


def test_a_job_whose_table_lost_its_position_stops_and_goes_on_from_its_rows_with_nothing_lost_or_twice(
    job: Job, spark: SparkSession
) -> None:
    produce(job, 0, 40)
    run_load(job, spark)
    [topic] = job.source.topics
    with pytest.raises(PipelineError, match=r"it continues after batch 0; there is nothing to restore"):
        resume.lost(job)
    lose_the_position(job)
    produce(job, 40, 20)
    with pytest.raises(LostPosition, match="sordini pipeline resume"):
        run_load(job, spark)
    tables = resume.lost(job)
    offsets = resume.after_rows(job, spark)
    assert offsets == {topic: {0: 20, 1: 20}}
    assert resume.note(tables, offsets) == 2
    assert [(batch.batch_id, batch.rows, batch.dead) for batch in run_load(job, spark)] == [(3, 18, 2)]
    assert numbers(job.sink, spark) == good(60)
    assert len(numbers(job.dead_letters, spark, "offset")) == 6


def test_offsets_that_are_given_name_every_partition_and_records_that_are_there(job: Job) -> None:
    produce(job, 0, 10)
    [topic] = job.source.topics
    assert resume.checked(job, {topic: {0: 5, 1: 0}}) == {topic: {0: 5, 1: 0}}
    for offsets, reported in (
        ({topic: {0: 5}}, f"leaves out {topic}-1: it names every partition"),
        ({topic: {0: 5, 1: 1, 2: 0}}, f"has {topic}-2: it names every partition"),
        ({topic: {0: 6, 1: 1}}, f"{topic}-0 has offsets 0 to 5, and not 6"),
    ):
        with pytest.raises(PipelineError, match=reported):
            resume.checked(job, offsets)
