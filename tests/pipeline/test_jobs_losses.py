"""Jobs whose records are gone when they come for them: retention passed them, or the topic is another one now."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sordini.pipeline.errors import PipelineError, TopicRecreated
from sordini.pipeline.jobs.batch_writer import Batch, BatchWriter, open_sink_table
from sordini.pipeline.jobs.graceful_stop import BatchGate
from sordini.pipeline.jobs.job import Job
from sordini.pipeline.jobs.load import TOPIC_IDS, finish, known_ids, load
from sordini.pipeline.jobs.load_pieces import DONE, INTENT, LoadPiece, last_noted_batch, open_piece
from sordini.pipeline.jobs.source_topics import Offsets, RecordsLost, SourceTopics
from sordini.pipeline.jobs.state_folder import StateFolder
from sordini.pipeline.jobs.stream import Flow, stream
from tests.pipeline.sent import KEEP
from tests.pipeline.test_jobs import JOB, a_job, good, numbers, produce, run_load
from tests.pipeline.topics import Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REGARDLESS = JOB.replace("records_max: 40", "records_max: 40\n  fail_on_data_loss: false")
Run = Callable[..., list[str]]


@pytest.fixture
def place(bootstrap: str) -> Place:
    return Place(bootstrap)


@pytest.fixture(params=["load", pytest.param("stream", marks=pytest.mark.long)])
def run(request: pytest.FixtureRequest, spark: SparkSession) -> Run:
    """`run(job)` does all there is and returns what it gave notice of."""

    def loaded(job: Job, *, pieces_max: int = 100) -> list[str]:
        reported: list[str] = []
        done: list[Any] = []
        done.extend(load(job, spark, lambda: len(done) >= pieces_max, reported.append))
        return reported

    def streamed(job: Job) -> list[str]:
        reported: list[str] = []
        stream([job], spark, available_now=True, on_batch=lambda *_: None, notice=reported.append)
        return reported

    return loaded if request.param == "load" else streamed


def both(folder: Path, place: Place) -> tuple[str, Job, Job]:
    """A topic of two partitions and one job: stopping at a loss, and continuing over it."""
    topic = place.make_topic(2, configs=KEEP)
    strict = a_job(folder, place.bootstrap, topic, "delta")
    return topic, strict, a_job(folder, place.bootstrap, topic, "delta", REGARDLESS)


def test_records_that_retention_took_stop_a_job_which_goes_on_behind_them_when_configured_to(
    place: Place, run: Run, spark: SparkSession, tmp_path: Path
) -> None:
    topic, strict, regardless = both(tmp_path, place)
    produce(strict, 0, 60)
    run(strict)
    produce(strict, 60, 60)
    place.delete_records(topic, {0: 40, 1: 30})
    with pytest.raises(RecordsLost, match=f"{topic}-0: offsets 30 to 39 were deleted before they were read"):
        run(strict)
    assert numbers(strict.sink, spark) == good(60)
    assert f"events: {topic}-0: offsets 30 to 39 were deleted before they were read" in [
        reported if reported.startswith("events: ") else f"events: {reported}" for reported in run(regardless)
    ]
    left = [number for number in good(60, 60) if number % 2 or number >= 80]
    assert numbers(strict.sink, spark) == sorted([*good(60), *left])
    assert run(strict) == []


@pytest.mark.parametrize("again", [pytest.param(20, marks=pytest.mark.slow), 200], ids=["shorter", "longer"])
def test_a_topic_made_again_stops_a_job_which_reads_it_from_its_beginning_when_configured_to(
    place: Place, run: Run, spark: SparkSession, tmp_path: Path, again: int
) -> None:
    topic, strict, regardless = both(tmp_path, place)
    produce(strict, 0, 60)
    run(strict)
    place.recreate(topic, 2, configs=KEEP)
    produce(strict, 1000, again)
    with pytest.raises(TopicRecreated, match="deleted and created again"):
        run(strict)
    assert numbers(strict.sink, spark) == good(60)
    assert any("was deleted and created again: it is read from its start" in reported for reported in run(regardless))
    assert numbers(strict.sink, spark) == [*good(60), *good(again, 1000)]
    produce(strict, 2000, 20)
    assert run(strict) == []
    assert numbers(strict.sink, spark) == [*good(60), *good(again, 1000), *good(20, 2000)]


@pytest.mark.slow
def test_a_topic_made_again_is_read_from_its_beginning_though_the_first_run_that_saw_it_wrote_nothing(
    place: Place, spark: SparkSession, tmp_path: Path
) -> None:
    topic, strict, regardless = both(tmp_path, place)
    produce(strict, 0, 60)
    list(load(strict, spark, lambda: False, pytest.fail))
    place.recreate(topic, 2, configs=KEEP)
    produce(strict, 1000, 100)
    assert list(load(regardless, spark, lambda: True, lambda _: None)) == []
    list(load(strict, spark, lambda: False, pytest.fail))
    assert numbers(strict.sink, spark) == [*good(60), *good(100, 1000)]


@pytest.mark.slow
def test_a_topic_that_was_away_while_a_job_ran_is_known_to_be_another_when_it_comes_again(
    place: Place, spark: SparkSession, tmp_path: Path
) -> None:
    topic, named, _ = both(tmp_path, place)
    place.make_topic(1, name=f"{topic}-beside", configs=KEEP)
    job = a_job(tmp_path, place.bootstrap, topic, "delta", JOB.replace("topics: [$topic]", "pattern: '$topic.*'"))
    produce(named, 0, 60)
    list(load(job, spark, lambda: False, pytest.fail))
    place.delete_topic(topic)
    notices: list[str] = []
    assert list(load(job, spark, lambda: False, notices.append)) == []
    assert notices == [f"'{topic}': not in the cluster any more; the position is kept in case it comes back"]
    place.make_topic(2, name=topic, configs=KEEP)
    produce(named, 1000, 100)
    with pytest.raises(TopicRecreated, match="deleted and created again"):
        list(load(job, spark, lambda: False, pytest.fail))


@pytest.mark.slow
def test_a_piece_that_was_begun_is_not_made_of_another_topics_records(
    place: Place, run: Run, spark: SparkSession, tmp_path: Path
) -> None:
    topic, strict, regardless = both(tmp_path, place)
    produce(strict, 0, 40)
    list(load(strict, spark, lambda: False, pytest.fail))
    produce(strict, 40, 40)
    begun = LoadPiece(1, {topic: {0: 20, 1: 20}}, {topic: {0: 40, 1: 40}})
    StateFolder(strict.state).write(INTENT, begun.to_json())
    place.recreate(topic, 2, configs=KEEP)
    produce(strict, 1000, 100)
    with pytest.raises(TopicRecreated):
        run(strict)
    run(regardless)
    assert numbers(strict.sink, spark) == [*good(40), *good(100, 1000)]


@pytest.mark.slow
def test_a_topic_that_a_job_leaves_out_for_a_while_is_gone_on_from_its_position(
    place: Place, run: Run, spark: SparkSession, tmp_path: Path
) -> None:
    topic, both_times, _ = both(tmp_path, place)
    beside = a_job(tmp_path, place.bootstrap, place.make_topic(2, configs=KEEP), "delta")
    two = a_job(
        tmp_path, place.bootstrap, topic, "delta", JOB.replace("[$topic]", f"[$topic, {beside.source.topics[0]}]")
    )
    produce(both_times, 0, 40)
    produce(beside, 1000, 40)
    run(two)
    produce(both_times, 40, 20)
    produce(beside, 1040, 20)
    run(both_times)
    assert numbers(two.sink, spark) == [*good(60), *good(40, 1000)]
    run(two)
    assert numbers(two.sink, spark) == [*good(60), *good(60, 1000)]


@pytest.mark.slow
def test_of_a_topic_that_comes_back_to_a_stream_what_follows_its_position_is_written_whatever_the_batches_are(
    place: Place, spark: SparkSession, tmp_path: Path
) -> None:
    topic, job, _ = both(tmp_path, place)
    produce(job, 0, 40)
    run_load(job, spark)
    produce(job, 40, 25)
    writer = BatchWriter.of(job, spark)
    reached = writer.reached()
    assert reached == (0, {topic: {0: 20, 1: 20}})
    flow = Flow(writer, SourceTopics.of(job), reached, known_ids(StateFolder(job.state), reached), pytest.fail)
    start: Offsets = {}  # Of a checkpoint that began while the topic was not there.
    for batch_id, ends, position in (
        (1, {0: 10, 1: 10}, {0: 20, 1: 20}),
        (2, {0: 15, 1: 25}, {0: 20, 1: 25}),
        (3, {0: 30, 1: 30}, {0: 30, 1: 30}),
        (4, {0: 33, 1: 32}, {0: 33, 1: 32}),
    ):
        end = {topic: ends}
        flow.write(writer.records(start, end), batch_id, start, end)
        assert writer.reached() == (batch_id, {topic: position})
        start = end
    assert numbers(job.sink, spark) == good(65)
    assert len(numbers(job.dead_letters, spark, "offset")) == 6
    # A run that does not know whether Spark has committed the batch reads the topic for it from its start.
    assert writer.write(writer.records({}, end), 4, end, 65).was_there
    assert len(numbers(job.dead_letters, spark, "offset")) == 6


@pytest.mark.long
def test_a_topic_that_was_created_again_while_a_stream_ran_is_not_read_again_by_the_next_run(
    place: Place, run: Run, spark: SparkSession, tmp_path: Path
) -> None:
    topic, strict, regardless = both(tmp_path, place)
    produce(strict, 0, 40)
    gate = BatchGate()

    def on_batch(_: object, batch: Batch) -> None:
        if batch.batch_id == 0:
            place.recreate(topic, 2, configs=KEEP)
            produce(strict, 1000, 20)
        else:
            gate.shut()

    stream([regardless], spark, available_now=False, on_batch=on_batch, notice=pytest.fail, gate=gate)
    assert numbers(strict.sink, spark) == [*good(40), *good(20, 1000)]
    produce(strict, 2000, 20)
    assert run(regardless) in (
        [],
        ["events: a new checkpoint begins, as the checkpoint is lost, the table has the position"],
    )
    assert numbers(strict.sink, spark) == [*good(40), *good(20, 1000), *good(20, 2000)]


@pytest.mark.slow
@pytest.mark.parametrize("left", [0, 10], ids=["none is left", "some are left"])
def test_a_piece_that_is_in_the_table_does_not_stop_a_job_whose_topic_has_its_records_no_more(
    place: Place, run: Run, spark: SparkSession, tmp_path: Path, left: int
) -> None:
    topic, job, _ = both(tmp_path, place)
    produce(job, 0, 40)
    run_load(job, spark)
    state = StateFolder(job.state)
    begun = state.read(INTENT)
    assert begun is not None
    state.write(DONE, {**begun, "batch_id": -1})  # As if the process had been killed before.
    assert job.dead_letters is not None
    shutil.rmtree(job.dead_letters.location)  # As an earlier version left it, which wrote them last.
    place.delete_records(topic, {0: 20 - left, 1: 20 - left})
    produce(job, 40, 20)
    run(job)
    assert numbers(job.sink, spark) == good(60)
    assert len(numbers(job.dead_letters, spark, "offset")) == 2 + left // 5


@pytest.mark.parametrize("transaction", [{}, {"kafka.transactional.id": "losses"}], ids=["at least once", "expired"])
def test_of_a_piece_that_cannot_be_repeated_into_a_topic_the_records_of_other_topics_are_still_to_be_read(
    place: Place, tmp_path: Path, transaction: dict[str, str]
) -> None:
    again, other = place.make_topic(1), place.make_topic(1)
    sink = {"kind": "kafka", "location": place.make_topic(1), "options": transaction}
    source = {"bootstrap": place.bootstrap, "topics": [again, other], "fail_on_data_loss": False}
    job = Job.of(name="a", home=tmp_path, source=source, sink=sink)
    state = StateFolder(job.state)
    piece = LoadPiece(4, {again: {0: 7}, other: {0: 3}}, {again: {0: 9}, other: {0: 8}})
    state.write(INTENT, piece.to_json())
    state.write(TOPIC_IDS, {again: "that of the topic before"})
    writer = BatchWriter.of(job, None)  # type: ignore[arg-type]  # Nothing is read.
    assert finish(writer, state, SourceTopics.of(job)) == []
    assert last_noted_batch(state, by_number=bool(transaction)) == (4, piece.start)
    assert open_piece(state) is None


@pytest.mark.long
def test_a_batch_that_spark_had_planned_is_not_made_of_another_topics_records(
    place: Place, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, strict, regardless = both(tmp_path, place)
    produce(strict, 0, 40)
    stream([strict], spark, available_now=True, on_batch=lambda *_: None, notice=pytest.fail)
    produce(strict, 40, 40)
    with monkeypatch.context() as patch:
        patch.setattr(BatchWriter, "write", _fails)
        with pytest.raises(PipelineError, match="events stopped: OSError: the disk is full"):
            stream([strict], spark, available_now=True, on_batch=lambda *_: None, notice=pytest.fail)
    place.recreate(topic, 2, configs=KEEP)
    produce(strict, 1000, 100)
    notices: list[str] = []
    stream([regardless], spark, available_now=True, on_batch=lambda *_: None, notice=notices.append)
    assert any(
        f"a new checkpoint begins, as '{topic}' was deleted and created again" in reported for reported in notices
    )
    assert numbers(strict.sink, spark) == [*good(40), *good(100, 1000)]
    assert strict.sink is not None
    last = open_sink_table(strict.sink, strict.name).last()
    assert last is not None
    assert last[1] == {topic: {0: 50, 1: 50}}


def _fails(*_: object) -> None:
    raise OSError("the disk is full")
