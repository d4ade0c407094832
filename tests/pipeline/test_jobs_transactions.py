"""Jobs whose sink is a topic in transactions: the position is in the topic's cluster, and every row is there once."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from sordini.pipeline.errors import Fenced
from sordini.pipeline.jobs.batch_writer import BatchWriter
from sordini.pipeline.jobs.load import load
from sordini.pipeline.jobs.load_pieces import DONE, INTENT, LoadPiece, NoteExpired
from sordini.pipeline.jobs.state_folder import StateFolder
from sordini.pipeline.jobs.status import status
from sordini.pipeline.jobs.transactional_topic import TransactionalTopic
from sordini.pipeline.source.client import Client
from sordini.pipeline.source.transaction_notes import BadNote
from sordini.protocol.types import TopicPartition
from tests.pipeline.sent import committed_values
from tests.pipeline.test_jobs import JOB, KEEP, a_job, good, produce, run_load, run_stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sordini.pipeline.jobs.job import Job

pytestmark = pytest.mark.long

TEXT = (
    JOB[: JOB.index("sink:")]
    + "sink: {kind: kafka, location: $kind, options: {key: page, kafka.transactional.id: $kind}}\n"
)


@pytest.fixture
def job(bootstrap: str, make_topic: Callable[..., str], tmp_path: Path) -> Job:
    into = make_topic(2, configs=KEEP)
    letters = make_topic(1, configs=KEEP)
    text = f"{TEXT}dead_letters: {{location: {letters}}}\n"
    return a_job(tmp_path, bootstrap, make_topic(2, configs=KEEP), into, text)


def written(job: Job) -> Counter[int]:
    """What a reader of committed records sees, by number."""
    assert job.sink is not None
    return Counter(json.loads(value)["n"] for value in committed_values(job.source.bootstrap, job.sink.location))


def dead(job: Job) -> Counter[int]:
    assert job.dead_letters is not None
    letters = committed_values(job.source.bootstrap, job.dead_letters.location, 1)
    return Counter(2 * letter["offset"] + letter["partition"] for letter in map(json.loads, letters))


def check(job: Job, count: int) -> None:
    """All of the first records are there once, good ones and others."""
    assert written(job) == Counter(good(count))
    assert dead(job) == Counter(set(range(count)) - set(good(count)))


def test_load_and_stream_alternate_without_their_state(spark: SparkSession, job: Job) -> None:
    produce(job, 0, 60)
    assert [(batch.rows, batch.dead) for batch in run_load(job, spark)] == [(36, 4), (18, 2)]
    produce(job, 60, 20)
    batches, notices = run_stream(job, spark)
    assert [(batch.batch_id, batch.rows, batch.dead) for batch in batches] == [(2, 18, 2)]
    assert len(notices) == 1, "Spark's checkpoint begins where the topic ends"
    shutil.rmtree(job.state)
    produce(job, 80, 20)
    [batch] = run_load(job, spark)
    assert (batch.batch_id, batch.rows, batch.dead) == (3, 18, 2)
    shutil.rmtree(job.state)
    produce(job, 100, 20)
    batches, notices = run_stream(job, spark)
    assert [batch.batch_id for batch in batches] == [4]
    assert "the checkpoint is lost" in notices[0]
    check(job, 120)
    assert [(row.batch, row.next_offset, row.lag) for row in status(job)] == [(4, 60, 0), (4, 60, 0)]


def test_an_earlier_run_that_is_still_at_work_is_fenced(spark: SparkSession, job: Job) -> None:
    topic = job.source.topics[0]
    produce(job, 0, 60)
    [batch] = run_load(job, spark, pieces_max=1)
    old = BatchWriter.of(job, spark)
    assert old.reached() == (0, {topic: {0: 20, 1: 20}})
    [batch] = run_load(job, spark)
    assert (batch.batch_id, batch.rows) == (1, 18)
    records = old.records({topic: {0: 20, 1: 20}}, {topic: {0: 25, 1: 25}})
    with pytest.raises(Fenced, match="is not this writer's any more"):
        old.sink.append(old.rows(records.selectExpr("1 as n", "'/0' as page", "*")), 2, {topic: {0: 25, 1: 25}})
    check(job, 60)


def test_a_piece_that_was_committed_and_not_noted_is_recognised(spark: SparkSession, job: Job) -> None:
    produce(job, 0, 40)
    run_load(job, spark)
    (Path(job.state) / DONE).unlink()
    notices: list[str] = []
    [again] = [step.batch for step in load(job, spark, lambda: False, notices.append)]
    assert (again.batch_id, again.rows, again.was_there) == (0, 0, True)
    assert notices == ["batch 0 was begun by an earlier run and is repeated"]
    check(job, 40)


def test_dead_letters_of_another_attempt_are_not_repeated(spark: SparkSession, job: Job) -> None:
    """An attempt stored the dead letters of a piece and crashed before its rows; the next piece is a longer one."""
    topic = job.source.topics[0]
    produce(job, 0, 40)
    writer = BatchWriter.of(job, spark)
    with pytest.raises(ZeroDivisionError):
        _dies_between(writer, {topic: {0: 0, 1: 0}}, {topic: {0: 10, 1: 10}})
    assert dead(job) == Counter({5: 1, 15: 1})
    assert run_load(job, spark)
    check(job, 40)


def _dies_between(writer: BatchWriter, start: dict[str, dict[int, int]], end: dict[str, dict[int, int]]) -> None:
    class Mortal(TransactionalTopic):
        def append(self, *arguments: object) -> None:  # type: ignore[override]
            *_, before_commit = arguments
            frame = arguments[0]
            frame.collect()  # type: ignore[attr-defined]  # The counts of the batch are observed.
            before_commit()  # type: ignore[operator]
            raise ZeroDivisionError

    sink = writer.job.sink
    assert sink is not None
    options = {**writer.job.source.client_options(), **sink.options}
    mortal = Mortal(sink.location, options, f"{writer.job.state}/staged/x")
    dying = BatchWriter(writer.job, writer.spark, mortal, writer.dead_letters)
    dying.write(dying.records(start, end), 0, end)


def test_a_position_that_the_brokers_have_forgotten_is_that_of_the_state_unless_a_batch_is_in_doubt(
    spark: SparkSession, job: Job
) -> None:
    topic = job.source.topics[0]
    produce(job, 0, 40)
    run_load(job, spark)
    assert job.sink is not None
    old = job.sink.options["kafka.transactional.id"]
    forgotten = a_job(
        job.home,
        job.source.bootstrap,
        topic,
        job.sink.location,
        (job.home / "job.yaml")
        .read_text()
        .replace(f"kafka.transactional.id: {old}", f"kafka.transactional.id: {uuid4().hex}"),
    )
    produce(job, 40, 20)
    [batch] = run_load(forgotten, spark)
    assert (batch.batch_id, batch.rows) == (1, 18)
    check(job, 60)
    lost = a_job(
        job.home,
        job.source.bootstrap,
        topic,
        job.sink.location,
        (job.home / "job.yaml").read_text().replace("kafka.transactional.id: ", "kafka.transactional.id: b"),
    )
    piece = LoadPiece(2, {topic: {0: 30, 1: 30}}, {topic: {0: 31, 1: 31}})
    StateFolder(job.state).write(INTENT, piece.to_json())
    with pytest.raises(NoteExpired, match=r"whether batch 2 is in topic .* is not known"):
        run_load(lost, spark)


def test_a_group_that_consumers_use_is_not_taken_for_a_position(spark: SparkSession, job: Job) -> None:
    assert job.sink is not None
    with Client(BatchWriter.of(job, spark).sink.options.client) as client:  # type: ignore[union-attr]
        client.commit(job.sink.location, {TopicPartition(job.sink.location, 0): 0})
    produce(job, 0, 2)
    with pytest.raises(BadNote, match="it belongs to the transactional id alone"):
        run_load(job, spark)
