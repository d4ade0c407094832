"""The jobs on a live broker, one after the other on the same job file, as people use them."""

from __future__ import annotations

import json
import shutil
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

import pytest

from sordini.pipeline.jobs.aggregate import aggregate
from sordini.pipeline.jobs.audit import audit, counts_of
from sordini.pipeline.jobs.backfill import Range, backfill, close_windows
from sordini.pipeline.jobs.batch_writer import Batch, BatchWriter, open_sink_table
from sordini.pipeline.jobs.compact import compact
from sordini.pipeline.jobs.job_file import read_job
from sordini.pipeline.jobs.load import Step, load
from sordini.pipeline.jobs.load_pieces import INTENT, LoadPiece
from sordini.pipeline.jobs.state_folder import StateError, StateFolder
from sordini.pipeline.jobs.status import status
from sordini.pipeline.jobs.stream import stream
from tests.pipeline.topics import Place

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaProducer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sordini.pipeline.jobs.job import Job, Sink

START_S = 1_795_334_400  # 2026-11-22T08:00:00Z, the beginning of a minute.
KEEP = {"retention.ms": "-1"}
BROKEN_EACH = 10

JOB = """\
name: events
source:
  bootstrap: $bootstrap
  topics: [$topic]
  records_max: 40
decode:
  mode: json
  schema:
    fields: {n: int!, event_time: timestamp!, page: string}
sink: {kind: $kind, location: tables/events, partition_by: [event_date]}
aggregates:
  per_minute:
    window: 1 minute
    watermark: 1 minute
    by: page
    measures: {views: count(*), most: max(n)}
    sink: {kind: $kind, location: tables/per_minute}
audit: {counts: counts.jsonl}
"""


def produce(job: Job, first: int, count: int, seconds_each: int = 3) -> None:
    """Send events `first` and following; every tenth is broken. The producer keeps its counts for the audit."""
    counts: Counter[int] = Counter()
    [topic] = job.source.topics
    with closing(KafkaProducer(bootstrap_servers=job.source.bootstrap)) as producer:
        for number in range(first, first + count):
            seconds = START_S + seconds_each * number
            event = {"n": number, "event_time": moment(seconds), "page": f"/{number % 2}"}
            value = b"broken" if number % BROKEN_EACH == 5 else json.dumps(event).encode()
            producer.send(topic, value, key=b"k", partition=number % 2, timestamp_ms=seconds * 1000)
            counts[seconds // 60 * 60] += 1
        producer.flush(timeout=30)
    with (job.home / "counts.jsonl").open("a") as file:
        for start, number in counts.items():
            file.write(json.dumps({"topic": topic, "window_start": moment(start), "count": number}) + "\n")


def moment(seconds: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(seconds, UTC).isoformat()


@pytest.fixture(params=["delta", pytest.param("iceberg", marks=pytest.mark.long)])
def job(request: pytest.FixtureRequest, bootstrap: str, make_topic: Callable[..., str], tmp_path: Path) -> Job:
    return a_job(tmp_path, bootstrap, make_topic(2, configs=KEEP), request.param)


def a_job(
    folder: Path, bootstrap: str, topic: str, kind: str, text: str = JOB, environment: Mapping[str, str] | None = None
) -> Job:
    path = folder / "job.yaml"
    path.write_text(Template(text).substitute(bootstrap=bootstrap, topic=topic, kind=kind))
    return read_job(path, environment or {})


def run_load(job: Job, spark: SparkSession, pieces_max: int = 100) -> list[Batch]:
    done: list[Batch] = []
    steps = load(job, spark, lambda: len(done) >= pieces_max, pytest.fail)
    done.extend(step.batch for step in steps)
    return done


def run_stream(job: Job, spark: SparkSession) -> tuple[list[Batch], list[str]]:
    batches: list[Batch] = []
    notices: list[str] = []
    stream([job], spark, available_now=True, on_batch=lambda _, batch: batches.append(batch), notice=notices.append)
    return batches, notices


def numbers(sink: Sink | None, spark: SparkSession, column: str = "n") -> list[int]:
    assert sink is not None
    return sorted(row[0] for row in open_sink_table(sink, "reader").read(spark).select(column).collect())


def good(count: int, first: int = 0) -> list[int]:
    return [number for number in range(first, first + count) if number % BROKEN_EACH != 5]


def test_what_a_load_and_a_stream_write_is_audited_and_compacted(job: Job, spark: SparkSession) -> None:
    produce(job, 0, 40)
    assert [(batch.batch_id, batch.rows + batch.dead) for batch in run_load(job, spark)] == [(0, 40)]
    produce(job, 40, 20)
    batches, _ = run_stream(job, spark)
    assert [(batch.batch_id, batch.rows, batch.dead) for batch in batches] == [(1, 18, 2)]
    rows = audit(job, spark, counts_of(job))
    assert [row for row in rows if row.difference or row.twice] == []
    assert (sum(row.sent for row in rows), sum(row.dead for row in rows)) == (60, 6)
    assert [(place.next_offset, place.lag) for place in status(job) if place.of == "events"] == [(30, 0), (30, 0)]
    [events, *_] = compact(job, 2**20, clean_up=False)
    assert events.files_before > events.files_after == 1
    assert numbers(job.sink, spark) == good(60)


@pytest.mark.slow
def test_load_and_stream_take_turns_and_every_record_is_in_the_table_or_a_dead_letter_once(
    job: Job, spark: SparkSession
) -> None:
    produce(job, 0, 100)
    assert [(batch.batch_id, batch.rows + batch.dead) for batch in run_load(job, spark)] == [(0, 40), (1, 40), (2, 20)]
    assert run_load(job, spark) == []
    produce(job, 100, 20)
    batches, notices = run_stream(job, spark)
    assert [(batch.batch_id, batch.rows, batch.dead) for batch in batches] == [(3, 18, 2)]
    assert notices == ["events: a new checkpoint begins, as the checkpoint is lost, the table has the position"]
    produce(job, 120, 20)
    assert [batch.batch_id for batch in run_load(job, spark)] == [4]
    produce(job, 140, 20)
    batches, [notice] = run_stream(job, spark)
    assert [batch.batch_id for batch in batches] == [5]
    assert "the table is at batch 4" in notice

    assert numbers(job.sink, spark) == good(160)
    assert len(numbers(job.dead_letters, spark, "offset")) == 16
    with (job.home / "counts.jsonl").open("a") as file:  # Several jobs may share it.
        file.write(json.dumps({"topic": "others", "window_start": moment(START_S), "count": 7}) + "\n")
    rows = audit(job, spark, counts_of(job))
    assert [row for row in rows if row.difference or row.twice] == []
    assert (sum(row.sent for row in rows), sum(row.dead for row in rows)) == (160, 16)
    assert [(place.next_offset, place.lag) for place in status(job) if place.of == "events"] == [(80, 0), (80, 0)]

    [events, *_] = compact(job, 2**20, clean_up=False)
    assert events.files_before > events.files_after == 1
    assert numbers(job.sink, spark) == good(160)


@pytest.mark.slow
def test_a_piece_whose_done_is_missing_is_loaded_again_and_not_twice(job: Job, spark: SparkSession) -> None:
    produce(job, 0, 40)
    state, flow = StateFolder(job.state), BatchWriter.of(job, spark)
    [topic] = job.source.topics
    piece = LoadPiece(0, {topic: {0: 0, 1: 0}}, {topic: {0: 15, 1: 15}})
    state.write(INTENT, piece.to_json())
    # The sink had the piece, the dead letters had not, when the process died.
    decoded = flow.rows(_decoded(flow, piece).rows())
    flow.sink.append(decoded, piece.batch_id, piece.end)
    again, rest = steps_of(job, spark)
    assert (again.batch.batch_id, again.batch.was_there, again.batch.dead, again.records_done) == (0, True, 3, 30)
    assert (rest.batch.batch_id, rest.batch.rows, rest.batch.dead, rest.records_done) == (1, 9, 1, rest.records_all)
    # No table had the slice: its rows are reported as those of any other.
    produce(job, 40, 20)
    state.write(INTENT, LoadPiece(2, {topic: {0: 20, 1: 20}}, {topic: {0: 30, 1: 30}}).to_json())
    [again] = steps_of(job, spark)
    assert (again.batch.batch_id, again.batch.rows, again.batch.dead, again.records_all) == (2, 18, 2, 20)
    assert numbers(job.sink, spark) == good(60)
    assert len(numbers(job.dead_letters, spark, "offset")) == 6


def steps_of(job: Job, spark: SparkSession) -> list[Step]:
    """The output of a load that resumes after a crash."""
    notices: list[str] = []
    steps = list(load(job, spark, lambda: False, notices.append))
    assert notices == [f"batch {steps[0].batch.batch_id} was begun by an earlier run and is repeated"]
    return steps


def _decoded(flow: BatchWriter, piece: LoadPiece) -> Any:
    from sordini.pipeline.jobs.batch_writer import decode

    return decode(flow.job, flow.records(piece.start, piece.end))


@pytest.mark.long
def test_backfill_puts_in_what_is_missing_and_leaves_what_is_there(job: Job, spark: SparkSession) -> None:
    produce(job, 0, 60)
    assert job.sink is not None
    late = a_job(
        job.home,
        job.source.bootstrap,
        job.source.topics[0],
        job.sink.kind.value,
        JOB.replace("records_max", "starting: 2026-11-22T08:01:30Z\n  records_max"),
    )
    run_load(late, spark)
    assert numbers(job.sink, spark) == good(30, first=30)
    assert filled(job, spark, Range()) == (27, 3)
    assert numbers(job.sink, spark) == good(60)
    assert filled(job, spark, Range(START_S * 1000, None)) == (0, 0)
    assert len(numbers(job.dead_letters, spark, "offset")) == 6
    [topic] = job.source.topics
    second_half = Range({topic: {0: 15, 1: 15}}, None)
    assert filled(job, spark, second_half, str(job.home / "tables/again")) == (27, 3)


def filled(job: Job, spark: SparkSession, wanted: Range, into: str = "") -> tuple[int, int]:
    """The rows and the dead letters that a backfill wrote."""
    done = [step.batch for step in backfill(job, spark, wanted, lambda: False, into)]
    return sum(batch.rows for batch in done), sum(batch.dead for batch in done)


@pytest.mark.long
def test_windows_are_written_once_by_stream_or_backfill(job: Job, spark: SparkSession) -> None:
    produce(job, 0, 100)  # Five minutes, twenty events in each, of which two are broken.
    batches: list[Batch] = []

    def run() -> list[str]:
        notices: list[str] = []

        def reported(_: object, batch: Batch) -> None:
            batches.append(batch)

        aggregate(job, spark, list(job.aggregates), available_now=True, on_batch=reported, notice=notices.append)
        return notices

    [one] = job.aggregates
    assert run() == []
    closed = windows(one.sink, spark)
    assert closed == {(minute, page): 8 if page == "/1" else 10 for minute in range(3) for page in ("/0", "/1")}
    end_ms = (START_S + 300) * 1000
    assert close_windows(job, spark, one, None, end_ms).rows == 4
    every = {(minute, page): 8 if page == "/1" else 10 for minute in range(5) for page in ("/0", "/1")}
    assert windows(one.sink, spark) == every
    assert close_windows(job, spark, one, None, end_ms).rows == 0

    produce(job, 100, 60)
    assert run() == []
    found = windows(one.sink, spark)
    assert {window: views for window, views in found.items() if window[0] < 5} == every
    assert max(minute for minute, _ in found) == 5
    # Without its state the query reads everything again, and no window is there twice.
    (job.home / ".sordini/events/aggregate-per_minute/current.json").unlink()
    [notice] = run()
    assert "all is read again" in notice
    assert windows(one.sink, spark) == found

    # Nor does that need records which retention has deleted since they were read.
    Place(job.source.bootstrap).delete_records(job.source.topics[0], {0: 30, 1: 30})
    (job.home / ".sordini/events/aggregate-per_minute/current.json").unlink()
    [notice, deleted] = run()
    assert "all is read again" in notice
    assert "retention has deleted records that were read before" in deleted
    assert windows(one.sink, spark) == found


@pytest.mark.long
def test_windows_of_a_table_that_was_restored_from_an_older_copy_are_written_again(
    job: Job, spark: SparkSession
) -> None:
    [one] = job.aggregates

    def run() -> list[str]:
        notices: list[str] = []
        aggregate(job, spark, [one], available_now=True, on_batch=lambda *_: None, notice=notices.append)
        return notices

    table = Path(one.sink.location)
    produce(job, 0, 100)
    assert run() == []
    shutil.copytree(table, job.home / "copy")
    produce(job, 100, 100)
    assert run() == []
    found = windows(one.sink, spark)
    produce(job, 200, 20)
    shutil.rmtree(table)
    shutil.copytree(job.home / "copy", table)
    blocked = job.home / ".sordini/events/aggregate-per_minute/.current.json.new"
    blocked.mkdir()
    with pytest.raises(StateError, match=r"current.json cannot be written"):
        run()
    blocked.rmdir()
    [notice] = run()
    assert "all is read again with a new checkpoint, as the table is at batch" in notice
    assert found.items() <= windows(one.sink, spark).items()
    assert run() == []


def windows(sink: Sink, spark: SparkSession) -> dict[tuple[int, str], int]:
    """Minute since the start and page -> views; a window that is there twice fails."""
    rows = (
        open_sink_table(sink, "reader").read(spark).selectExpr("unix_seconds(window_start)", "page", "views").collect()
    )
    found = {((row[0] - START_S) // 60, row[1]): row[2] for row in rows}
    assert len(found) == len(rows)
    return found
