"""The library on a live broker: calls of jobs from a program, and the page that describes them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable
from kafka import KafkaProducer

from sordini.pipeline import (
    Job,
    PipelineError,
    aggregate,
    audit,
    backfill,
    close_windows,
    compact,
    dead_letters,
    explain,
    load,
    rows,
    status,
    stream,
)
from sordini.pipeline.library.sessions import active_session, lent
from sordini.pipeline.source.client import Client, ClientSettings
from tests.outside.processes import SordiniProcess

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sordini.pipeline import Step

PAGE = Path(__file__).resolve().parents[2] / "docs" / "pipeline-library.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SECONDS = 1_795_334_400
KEEP = {"retention.ms": "-1"}


def positive(frame: DataFrame) -> DataFrame:
    return frame.where("n >= 0")


def send(bootstrap: str, topic: str, values: list[bytes]) -> None:
    with closing(KafkaProducer(bootstrap_servers=bootstrap)) as producer:
        for number, value in enumerate(values):
            producer.send(topic, value, partition=number % 2, timestamp_ms=(SECONDS + number) * 1000)
        producer.flush(timeout=30)


def event(number: int) -> bytes:
    moment = datetime.fromtimestamp(SECONDS + number, UTC).isoformat()
    return json.dumps({"n": number, "event_time": moment}).encode()


def a_job(bootstrap: str, topic: str, home: Path, **more: Any) -> Job:
    return Job.of(
        home=home,
        name="numbers",
        source={"bootstrap": bootstrap, "topics": [topic], "records_max": 10},
        decode={"mode": "json", "schema": {"fields": {"n": "int!", "event_time": "timestamp!"}}},
        sink={"location": "tables/numbers"},
        **more,
    )


def test_what_explain_says_is_what_load_reads_and_a_stopped_load_is_continued(
    spark: SparkSession, bootstrap: str, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = make_topic(2, configs=KEEP)
    job = a_job(bootstrap, topic, tmp_path, transform=positive)
    send(bootstrap, topic, [b"broken", *map(event, range(-3, 16))])
    plan = explain(job)
    assert not any(tmp_path.iterdir()), "nothing is written"
    stop, steps = threading.Event(), []

    def first_piece(step: Step) -> None:
        steps.append(step)
        stop.set()

    done = load(job, spark=spark, on_step=first_piece, stop=stop)
    assert (plan.records_max, [one[1:] for one in plan.ranges]) == (steps[0].records_all, [(0, 0, 10), (1, 0, 10)])
    assert plan.batches.startswith("2, of at most 10 records")
    assert (done.was_stopped, done.batches_written, steps[0].records_done) == (True, 1, 10)
    plan = explain(job)
    assert plan.position == "batch 1 is next; the offsets after batch 0 are in the table"
    assert {one.partition: one.start for one in plan.ranges} == steps[0].offsets[topic]
    rest = load(job, spark=spark)
    assert (rest.was_stopped, rest.batches_written, done.rows + rest.rows) == (False, 1, 16)
    assert sorted(row["n"] for row in rows(job, spark).collect()) == list(range(16))
    [letter] = dead_letters(job, spark)
    assert (letter.partition, letter.offset, letter.value) == (0, 0, b"broken")
    assert letter.timestamp == datetime.fromtimestamp(SECONDS, UTC)
    assert [place.lag for place in status(job)] == [0, 0]
    assert explain(job).batches == "none: all was written before"


@pytest.mark.slow
def test_a_record_whose_time_is_beyond_that_of_tables_stops_no_job(
    spark: SparkSession, bootstrap: str, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = make_topic(2, configs=KEEP)
    with closing(KafkaProducer(bootstrap_servers=bootstrap)) as producer:
        for value, milliseconds in ((event(1), SECONDS * 1_000_000), (b"broken", SECONDS * 1_000_000), (event(2), 1)):
            producer.send(topic, value, partition=0, timestamp_ms=milliseconds)
    job = a_job(bootstrap, topic, tmp_path)
    done = load(job, spark=spark)
    assert (done.rows, done.dead_letters) == (2, 1)
    found = {row["n"]: row["at"] for row in rows(job, spark).selectExpr("n", "unix_millis(timestamp) AS at").collect()}
    assert found == {1: None, 2: 1}
    [letter] = dead_letters(job, spark)
    assert (letter.value, letter.timestamp) == (b"broken", None)
    raw = Job.of(
        home=tmp_path,
        name="raw",
        source={"bootstrap": bootstrap, "topics": [topic], "commit_group": f"{topic}-shown"},
        sink={"location": "tables/raw", "partition_by": ["event_date"]},
    )
    assert load(raw, spark=spark).rows == 3
    with Client(ClientSettings.from_options({"kafka.bootstrap.servers": bootstrap})) as client:
        assert client.committed(f"{topic}-shown") == {(topic, 0): 3, (topic, 1): 0}
    days = rows(raw, spark).select("event_date").collect()
    assert sorted(str(row["event_date"]) for row in days) == ["1970-01-01", "None", "None"]


@pytest.mark.slow
def test_a_call_in_a_thread_takes_the_session_of_the_program_and_leaves_it_running(
    spark: SparkSession, bootstrap: str, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = make_topic(2, configs=KEEP)
    send(bootstrap, topic, [event(1), event(2)])
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(load(a_job(bootstrap, topic, tmp_path)).rows))
    thread.start()
    thread.join(120)
    assert found == [2]
    assert spark.range(3).count() == 3
    assert active_session() is not None


def test_a_session_has_its_time_zone_again_when_the_last_call_on_it_has_ended(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.session.timeZone", "America/Los_Angeles")
    try:
        with ExitStack() as later:
            with lent(spark):
                later.enter_context(lent(spark))
            assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
        assert spark.conf.get("spark.sql.session.timeZone") == "America/Los_Angeles"
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.mark.slow
def test_a_transform_may_have_functions_for_sparks_workers(
    spark: SparkSession, bootstrap: str, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = make_topic(2, configs=KEEP)
    send(bootstrap, topic, [event(1), event(2)])
    (tmp_path / "doubling.py").write_text(
        "from pyspark.sql.functions import udf\n\n\ndef twice(n):\n    return 2 * n\n\n\n"
        "def doubled(rows):\n    return rows.withColumn('n', udf(twice, 'int')('n'))\n"
    )
    job = a_job(bootstrap, topic, tmp_path, transform="doubling:doubled")
    load(job, spark=spark)
    assert sorted(row["n"] for row in rows(job, spark).collect()) == [2, 4]


@pytest.mark.slow
def test_a_backfill_fills_what_it_can_though_a_partition_is_behind_and_its_dead_letters_are_newer(
    spark: SparkSession, bootstrap: str, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = make_topic(2, configs=KEEP)
    job = a_job(bootstrap, topic, tmp_path)
    assert job.sink is not None
    assert job.dead_letters is not None
    send(bootstrap, topic, [b"broken", *map(event, range(9))])
    load(job, spark=spark)
    send(bootstrap, topic, [b"", *map(event, range(10, 19))])
    place = Path(job.sink.location)
    shutil.copytree(place, tmp_path / "copy")
    shutil.rmtree(job.dead_letters.location)
    assert backfill(job, spark=spark, start={topic: {0: 0, 1: 9}}).dead_letters == 1
    shutil.rmtree(place)
    shutil.copytree(tmp_path / "copy", place)
    DeltaTable(job.sink.location).delete("n < 3")
    again = backfill(job, spark=spark, start={topic: {0: 0, 1: 8}})
    assert (again.rows, again.dead_letters) == (1, 0), "offset 1 of partition 0"
    with pytest.raises(PipelineError, match="which is the job's own table"):
        backfill(job, spark=spark, into=job.sink.location)


@pytest.mark.long
def test_every_call_does_what_its_command_does(
    spark: SparkSession, bootstrap: str, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = make_topic(2, configs=KEEP)
    per_minute = {"window": "1 minute", "watermark": "1 minute", "sink": {"location": "tables/minutes"}}
    counts = tmp_path / "counts.jsonl"
    job = a_job(bootstrap, topic, tmp_path, aggregates={"minutes": per_minute}, audit={"counts": str(counts)})
    send(bootstrap, topic, [*map(event, range(30)), b"broken"])
    window = datetime.fromtimestamp(SECONDS, UTC).isoformat()
    counts.write_text(json.dumps({"topic": topic, "window_start": window, "count": 31}) + "\n")
    seen: list[tuple[str, int]] = []
    [result] = stream(job, available_now=True, spark=spark, on_batch=lambda name, one: seen.append((name, one.rows)))
    assert (result.rows, result.dead_letters) == (30, 1)
    assert sum(count for _, count in seen) == 30
    [counted] = audit(job, spark=spark)
    assert (counted.sent, counted.rows, counted.dead, counted.difference) == (31, 30, 1, 0)
    [windows] = aggregate(job, available_now=True, spark=spark)
    assert windows.rows == 0, "no watermark has passed its end"
    assert [one.rows for one in close_windows(job, spark=spark)] == [1]
    assert backfill(job, spark=spark, start={topic: {0: 0, 1: 0}}).rows == 0
    assert job.sink is not None
    DeltaTable(job.sink.location).delete("n < 5")  # As after a mistake in a transform.
    assert backfill(job, spark=spark).rows == 5
    again = backfill(job, into="tables/again", end=datetime.fromtimestamp(SECONDS + 10, UTC), spark=spark)
    assert again.rows == 10
    [table, *_] = compact(job)
    assert table.files_before > table.files_after == 1
    with pytest.raises(PipelineError, match=r"has no aggregate hours; it has minutes"):
        aggregate(job, only=["hours"], spark=spark)


@pytest.mark.long
def test_a_session_of_another_time_zone_has_it_again_after_a_call_and_days_are_in_utc(
    spark: SparkSession, bootstrap: str, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = make_topic(2, configs=KEEP)
    job = Job.of(
        home=tmp_path,
        name="days",
        source={"bootstrap": bootstrap, "topics": [topic]},
        sink={"location": "tables/days", "partition_by": ["event_date"]},
    )
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    producer.send(topic, b"v", partition=0, timestamp_ms=SECONDS // 86400 * 86400_000 + 1000)
    producer.close()
    spark.conf.set("spark.sql.session.timeZone", "America/Los_Angeles")
    try:
        assert load(job, spark=spark).rows == 1
        assert spark.conf.get("spark.sql.session.timeZone") == "America/Los_Angeles"
        with pytest.raises(PipelineError, match="has no aggregates"):
            aggregate(job, spark=spark)
        assert spark.conf.get("spark.sql.session.timeZone") == "America/Los_Angeles"
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    [row] = rows(job, spark).select("event_date").collect()
    assert row[0] == datetime.fromtimestamp(SECONDS, UTC).date()


@pytest.mark.long
def test_an_error_of_a_transform_a_callback_or_a_lost_broker_is_what_the_caller_gets(
    spark: SparkSession, bootstrap: str, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = make_topic(2, configs=KEEP)
    send(bootstrap, topic, [event(1), event(2)])
    with pytest.raises(PipelineError, match=r"transform is 'test_library:nothing': failed|returns NoneType"):
        load(a_job(bootstrap, topic, tmp_path, transform=lambda frame: None), spark=spark)
    job = a_job(bootstrap, topic, tmp_path)

    def full(_: object) -> None:
        raise KeyError("a bug of the caller")

    with pytest.raises(KeyError, match="a bug of the caller"):
        load(job, spark=spark, on_step=full)
    assert load(job, spark=spark).batches_written == 0, "the batch is in the table"
    with pytest.raises(PipelineError, match=r"127\.0\.0\.1:1"):
        load(a_job("127.0.0.1:1", topic, tmp_path), spark=spark)


@pytest.mark.long
def test_two_calls_of_one_program_each_start_and_end_a_spark_of_their_own(
    bootstrap: str, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = make_topic(2, configs=KEEP)
    send(bootstrap, topic, [event(1), event(2)])
    program = (
        "from pyspark import SparkContext\n"
        "from sordini.pipeline import Job, load\n"
        f"job = Job.of(name='two', source={{'bootstrap': '{bootstrap}', 'topics': ['{topic}']}}, sink={{'location': 't'}})\n"
        "print(load(job).rows, SparkContext._active_spark_context)\n"
        "print(load(job).rows, SparkContext._active_spark_context)\n"
        "from threading import Thread\n"
        "found = []\n"
        "jobs = [Job.of(name=f'of-{n}', source={'bootstrap': job.source.bootstrap, 'topics': job.source.topics},\n"
        "               sink={'location': f't{n}'}) for n in range(2)]\n"
        "threads = [Thread(target=lambda job=job: found.append(load(job).rows)) for job in jobs]\n"
        "[thread.start() for thread in threads]\n"
        "[thread.join() for thread in threads]\n"
        "print(found, SparkContext._active_spark_context)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout == "2 None\n0 None\n[2, 2] None\n", done.stderr[-2000:]


@pytest.mark.long
def test_the_page_s_programs_run_from_top_to_bottom(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with SordiniProcess(tmp_path / "broker") as broker:
        event_of = {"event_id": "1", "event_time": "2026-11-22T08:00:00Z", "session_id": "s", "page": "/home"}
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
        for value in (json.dumps(event_of).encode(), b"broken"):
            producer.send("page_views", value)
        producer.close()
        page = PAGE.read_text().replace("127.0.0.1:9092", broker.bootstrap)
        (tmp_path / "views.yaml").write_text(
            f"name: views\nsource: {{topics: [page_views], bootstrap: '{broker.bootstrap}'}}\n"
            "decode: {mode: json, schema: {fields: {event_time: timestamp!, page: string!}}}\nsink: {location: tables/views}\n"
        )
        names: dict[str, Any] = {"__name__": "page"}
        for block in BLOCK.findall(page):
            exec(compile(block, str(PAGE), "exec"), names)
    printed = capsys.readouterr().out
    assert "1 rows, 1 dead letters in 1 batches" in printed
    for said in re.findall(r"^```text\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        assert said in printed
