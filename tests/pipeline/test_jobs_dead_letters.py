"""Dead letters and their batch: both are kept or neither, whatever fails, and nothing is there twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sordini.pipeline.jobs.batch_writer import BatchWriter
from sordini.pipeline.jobs.dead_letters import DeadLettersFailed
from sordini.pipeline.jobs.job import Job
from sordini.pipeline.jobs.status import reached
from tests.pipeline.sent import KEEP
from tests.pipeline.test_jobs import a_job, good, numbers, produce, run_load
from tests.support.frames import plain_rows as kind_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(params=["delta", pytest.param("iceberg", marks=pytest.mark.long)])
def job(request: pytest.FixtureRequest, bootstrap: str, make_topic: Callable[..., str], tmp_path: Path) -> Job:
    return a_job(tmp_path, bootstrap, make_topic(2, configs=KEEP), request.param)


def test_dead_letters_that_cannot_be_written_stop_their_batch_before_it_is_in_the_sink(
    job: Job, spark: SparkSession
) -> None:
    assert job.dead_letters is not None
    produce(job, 0, 40)
    flow = BatchWriter.of(job, spark)
    [topic] = job.source.topics
    ends = {topic: {0: 20, 1: 20}}
    records = flow.records({topic: {0: 0, 1: 0}}, ends)
    place = Path(job.dead_letters.location)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.touch()  # No folder can be made there.
    with pytest.raises(
        DeadLettersFailed,
        match=r"the dead letters of batch 0 cannot be written to .*events-dead, so the batch is not in the sink: ",
    ) as failed:
        flow.write(records, 0, ends)
    assert "\n" not in str(failed.value)
    assert reached(job) is None
    place.unlink()
    assert flow.write(records, 0, ends)[1:3] == (36, 4)
    assert numbers(job.sink, spark) == good(40)
    assert len(numbers(job.dead_letters, spark, "offset")) == 4


@pytest.mark.slow
def test_dead_letters_of_a_batch_that_died_before_its_commit_are_not_there_twice_by_load_or_stream(
    job: Job, spark: SparkSession
) -> None:
    produce(job, 0, 60)
    flow = BatchWriter.of(job, spark)
    [topic] = job.source.topics
    # A stream had planned another batch than `load` makes, kept its dead letters, and died; its checkpoint is gone.
    other = {topic: {0: 9, 1: 10}}
    decoded = _decoded(flow, {topic: {0: 0, 1: 0}}, other)
    assert flow.dead_letters.append(decoded, 0, other).rows == 2
    assert [(batch.batch_id, batch.rows, batch.dead) for batch in run_load(job, spark)] == [(0, 36, 2), (1, 18, 2)]
    produce(job, 60, 20)
    assert [(batch.batch_id, batch.rows, batch.dead) for batch in run_load(job, spark)] == [(2, 18, 2)]
    assert numbers(job.sink, spark) == good(80)
    places = sorted(row["offset"] * 2 + row["partition"] for row in plain_rows(job))
    assert places == [number for number in range(80) if number % 10 == 5]


def plain_rows(job: Job) -> list[dict[str, int]]:
    assert job.dead_letters is not None
    found: list[dict[str, int]] = kind_rows(job.dead_letters.kind.value, job.dead_letters.location).to_pylist()
    return found


def _decoded(flow: BatchWriter, start: dict[str, dict[int, int]], end: dict[str, dict[int, int]]) -> DataFrame:
    from sordini.pipeline.jobs.batch_writer import decode

    return decode(flow.job, flow.records(start, end)).dead_letters()
