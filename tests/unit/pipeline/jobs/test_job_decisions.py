"""What the jobs decide: compared counts, positions, lags, what they pass to Spark and read from it."""

from __future__ import annotations

import os
import subprocess
import threading
from dataclasses import replace
from pathlib import Path
from urllib.request import urlopen

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.pipeline.error_messages import root_cause_of
from sordini.pipeline.errors import PipelineError
from sordini.pipeline.jobs.aggregate import still_there
from sordini.pipeline.jobs.audit import compare, read_counts
from sordini.pipeline.jobs.backfill import _up_to
from sordini.pipeline.jobs.graceful_stop import BatchGate, Stopped
from sordini.pipeline.jobs.job import Decode, Job, JobSource, SourceFormat, SparkSettings
from sordini.pipeline.jobs.kafka_connector import CONNECTORS, NoConnector
from sordini.pipeline.jobs.load import distance
from sordini.pipeline.jobs.load_pieces import LoadPiece
from sordini.pipeline.jobs.metrics import Metrics, lags
from sordini.pipeline.jobs.session import _standard_error_to, check_connector, java_version, settings
from sordini.pipeline.jobs.source_topics import starting
from sordini.pipeline.jobs.status import partition_rows
from sordini.pipeline.source.options import Edge, Timestamps


def a_job(form: SourceFormat = SourceFormat.SORDINI, **config: str) -> Job:
    source = JobSource("127.0.0.1:9092", ("views",), format=form)
    return Job("views", Path(), source, Decode(), None, None, "state", spark=SparkSettings(config=config))


def test_an_audit_tells_missing_surplus_and_doubled_records_apart() -> None:
    sent = {("views", 0): 10, ("views", 60): 10, ("views", 120): 10, ("views", 180): 10}
    found = {("views", 0): (9, 0), ("views", 60): (8, 0), ("views", 120): (10, 3), ("clicks", 0): (2, 0)}
    dead = {("views", 0): (1, 0), ("views", 60): (1, 1)}
    rows = compare(sent, found, dead)
    assert [(row.topic, row.window_start, row.difference, row.twice) for row in rows] == [
        ("clicks", "1970-01-01T00:00:00Z", 2, 0),
        ("views", "1970-01-01T00:00:00Z", 0, 0),
        ("views", "1970-01-01T00:01:00Z", -1, 1),
        ("views", "1970-01-01T00:02:00Z", 0, 3),
        ("views", "1970-01-01T00:03:00Z", -10, 0),
    ]


def test_counts_of_several_producers_and_finer_windows_are_added_up(tmp_path: Path) -> None:
    lines = (
        '{"topic": "views", "window_start": "1970-01-01T00:00:00Z", "count": 3}\n\n'
        '{"topic": "views", "window_start": "1970-01-01T00:00:30", "count": 4}\n'
        '{"topic": "views", "window_start": "1970-01-01T02:01:00+02:00", "count": 5}\n'
    )
    path = tmp_path / "counts.jsonl"
    path.write_text(lines)
    assert read_counts(str(path), 60) == {("views", 0): 7, ("views", 60): 5}
    table = tmp_path / "counts.csv"
    table.write_text("topic,window_start,count\nviews,1970-01-01T00:00:00Z,3\nviews,1970-01-01T00:00:59Z,4\n")
    assert read_counts(str(table), 60) == {("views", 0): 7}
    table.write_text(f"\N{ZERO WIDTH NO-BREAK SPACE}{table.read_text()}")  # As spreadsheets write it.
    assert read_counts(str(table), 60) == {("views", 0): 7}


@pytest.mark.parametrize("line", ["{", '{"topic": "t"}', '{"topic": "t", "window_start": "x", "count": 1}', "3"])
def test_a_count_that_is_none_is_reported_with_its_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "counts.jsonl"
    path.write_text(f'{{"topic": "t", "window_start": "1970-01-01", "count": 1}}\n{line}\n')
    with pytest.raises(PipelineError, match=r"counts\.jsonl:2: not a count"):
        read_counts(str(path), 60)
    with pytest.raises(PipelineError, match="cannot be read"):
        read_counts(str(tmp_path / "none"), 60)


OFFSETS = st.dictionaries(
    st.sampled_from(["a", "b"]), st.dictionaries(st.integers(0, 3), st.integers(0, 10**12), min_size=1), min_size=1
)


@given(OFFSETS, OFFSETS, st.integers(0, 10**6))
def test_a_piece_is_the_same_after_its_note(
    start: dict[str, dict[int, int]], end: dict[str, dict[int, int]], batch_id: int
) -> None:
    import json

    piece = LoadPiece(batch_id, start, end)
    assert LoadPiece.from_json(json.loads(json.dumps(piece.to_json(), sort_keys=True))) == piece


def test_distance_counts_the_offsets_between_two_positions() -> None:
    assert distance({"a": {0: 5, 1: 7}}, {"a": {0: 9, 1: 7}}) == 4


def test_status_counts_what_waits_and_what_was_lost() -> None:
    begins, ends = {"a": {0: 10, 1: 0, 2: 5}}, {"a": {0: 30, 1: 8, 2: 5}}
    found = list(partition_rows("views", (4, {"a": {0: 4, 1: 8}}), begins, ends))
    assert [(place.partition, place.next_offset, place.lag, place.lost) for place in found] == [
        (0, 4, 20, 6),
        (1, 8, 0, 0),
        (2, None, 0, 0),
    ]
    assert [place.lag for place in partition_rows("views", None, begins, ends)] == [20, 8, 0]


def test_a_first_run_begins_where_the_job_file_says() -> None:
    assert starting(JobSource("b", ("t",))) is Edge.EARLIEST
    assert starting(JobSource("b", ("t",), starting="latest")) is Edge.LATEST
    assert starting(JobSource("b", ("t",), starting="1795334400000")) == Timestamps(1795334400000, {}, or_latest=True)


def test_the_commands_master_goes_before_the_files_and_the_files_settings_before_ours() -> None:
    job = a_job(**{"spark.sql.session.timeZone": "CET"})
    assert settings([job], "")["spark.master"] == "local[*]"
    assert settings([job], "")["spark.driver.host"] == "127.0.0.1"
    found = settings([job], "spark://m:7077")
    assert found["spark.master"] == "spark://m:7077"
    assert "spark.driver.host" not in found
    assert found["spark.sql.session.timeZone"] == "CET"
    assert "spark.jars.packages" not in found
    assert "spark-sql-kafka" in settings([a_job(SourceFormat.KAFKA)], "")["spark.jars.packages"]
    assert "spark.jars.packages" not in settings([a_job(SourceFormat.KAFKA, **{"spark.jars": "k.jar"})], "")


def test_spark_logs_errors_alone_unless_it_has_a_configuration_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    name, _, place = settings([a_job()], "")["spark.driver.defaultJavaOptions"].partition("=file://")
    assert name == "-Dlog4j2.configurationFile"
    assert "rootLogger.level = error" in Path(place).read_text()
    monkeypatch.setenv("SPARK_CONF_DIR", "conf")
    assert "spark.driver.defaultJavaOptions" not in settings([a_job()], "")


def test_jobs_that_run_together_get_all_that_each_wants_of_spark() -> None:
    clicks = replace(a_job(SourceFormat.KAFKA, **{"spark.driver.memory": "2g"}), name="clicks")
    found = settings([a_job(**{"spark.driver.cores": "1"}), clicks], "")
    assert (found["spark.driver.cores"], found["spark.driver.memory"]) == ("1", "2g")
    assert "spark-sql-kafka" in found["spark.jars.packages"]


def test_jobs_that_want_different_things_of_one_spark_are_refused() -> None:
    clicks = replace(a_job(**{"spark.driver.memory": "2g"}), name="clicks")
    with pytest.raises(PipelineError, match=r"views wants spark\.driver\.memory to be 1g, and clicks wants 2g"):
        settings([a_job(**{"spark.driver.memory": "1g"}), clicks], "")
    there, here = (replace(clicks, name=at, spark=SparkSettings(master=at)) for at in ("spark://m:7077", "local[2]"))
    with pytest.raises(PipelineError, match=r"wants spark\.master to be spark://m:7077, and local\[2\] wants"):
        settings([there, here], "")
    assert settings([there, here], "local[4]")["spark.master"] == "local[4]"


@pytest.mark.parametrize(
    ("reported", "version"),
    [('openjdk version "17.0.15" 2025-04-15', 17), ('java version "1.8.0_311"', 8), ('openjdk version "25"', 25), ("", None)],
)  # fmt: skip
def test_javas_version_is_read_from_what_it_says(reported: str, version: int | None) -> None:
    assert java_version(reported) == version


def test_a_shut_gate_admits_no_batch_and_waits_for_who_is_inside() -> None:
    gate, entered, leave = BatchGate(), threading.Event(), threading.Event()

    def batch() -> None:
        with gate.passed():
            entered.set()
            leave.wait(10)

    thread = threading.Thread(target=batch)
    thread.start()
    assert entered.wait(10)
    gate.shut()
    assert not gate.wait_until_empty(0)
    with pytest.raises(Stopped), gate.passed():
        pass
    leave.set()
    assert gate.wait_until_empty(10)
    thread.join()


def test_a_job_of_sparks_own_source_is_reported_before_spark_starts_that_its_pyspark_has_no_connector() -> None:
    check_connector([a_job()], "9.9.9")
    check_connector([a_job(SourceFormat.KAFKA)], list(CONNECTORS)[-1])
    check_connector([a_job(SourceFormat.KAFKA, **{"spark.jars": "k.jar"})], "9.9.9")
    with pytest.raises(NoConnector, match=r"PySpark 9\.9\.9"):
        check_connector([a_job(), a_job(SourceFormat.KAFKA)], "9.9.9")


def test_what_spark_writes_to_standard_error_goes_into_a_file_that_has_a_bound(tmp_path: Path) -> None:
    log = tmp_path / "state" / "spark.log"
    for _ in range(2):
        with _standard_error_to(log):
            subprocess.run(["sh", "-c", "echo at org.apache.spark >&2"], check=True)
    assert log.read_text() == 2 * "at org.apache.spark\n"
    log.write_bytes(b"x" * 1_000_001)
    with _standard_error_to(log):
        os.write(2, b"new\n")
    assert log.read_text() == "new\n"
    assert [path.name for path in sorted(log.parent.iterdir())] == ["spark.log", "spark.log.1"]
    (tmp_path / "file").touch()
    with (
        pytest.raises(PipelineError, match=r"Spark's log cannot be written: .*file.*`state` says where"),
        _standard_error_to(tmp_path / "file" / "spark.log"),
    ):
        pass


def test_of_sparks_long_messages_the_reason_is_reported() -> None:
    long = (
        "[FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred\npy4j.Py4JException: Traceback\n"
        "sordini.pipeline.errors.UnknownTopic: there is no topic 'views' in the cluster\n\nJVM stacktrace:\n at x"
    )
    assert root_cause_of(long) == "there is no topic 'views' in the cluster"
    transform = (
        "[STREAM_FAILED] Query died\nException: Return Message: Traceback (most recent call last):\n"
        "  File \"queries.py\", line 65, in one\n    write(batch)\n      ^^^^\nKeyError: 'x'\n\n"
        "During handling of the above exception, another exception occurred:\n\n"
        'Traceback (most recent call last):\n  File "flags.py", line 3, in flagged\n'
        "my.errors.Refused: no such page\n\tat py4j.Protocol\n"
    )
    assert root_cause_of(transform) == "Refused: no such page"
    assert root_cause_of(" \n") == "no reason was given"
    assert root_cause_of("[TABLE_OR_VIEW_NOT_FOUND] no such table\nat y") == "[TABLE_OR_VIEW_NOT_FOUND] no such table"


def progress(**changed: object) -> dict[str, object]:
    return {
        "name": "views",
        "timestamp": "2026-11-22T08:00:00.000Z",
        "batchId": 1,
        "numInputRows": 50,
        "durationMs": {"triggerExecution": 1500},
        "eventTime": {"watermark": "2026-11-22T07:58:00.000Z"},
        "stateOperators": [{"numRowsTotal": 7, "numRowsDroppedByWatermark": 2}],
        "sources": [
            {
                "endOffset": {"views": {"0": 5, "1": 9}, "$topic_ids": {"views": "x"}},
                "latestOffset": {"views": {"0": 8, "1": 9}, "$topic_ids": {"views": "x"}},
            }
        ],
        **changed,
    }


def test_metrics_tell_of_progress_in_prometheus_format() -> None:
    from prometheus_client import generate_latest

    metrics = Metrics()
    metrics.progressed(progress())
    metrics.progressed(progress(numInputRows=25, stateOperators=[]))
    metrics.wrote("views", rows=60, dead=15)
    reported = set(generate_latest(metrics.registry).decode().splitlines())
    assert {
        'sordini_pipeline_batches_total{query="views"} 2.0',
        'sordini_pipeline_records_total{query="views"} 75.0',
        'sordini_pipeline_rows_total{query="views"} 60.0',
        'sordini_pipeline_dead_letters_total{query="views"} 15.0',
        'sordini_pipeline_late_rows_total{query="views"} 2.0',
        'sordini_pipeline_batch_seconds{query="views"} 1.5',
        'sordini_pipeline_watermark_timestamp_seconds{query="views"} 1.79533428e+09',
        'sordini_pipeline_lag_offsets{partition="0",query="views",topic="views"} 3.0',
        'sordini_pipeline_lag_offsets{partition="1",query="views",topic="views"} 0.0',
    } <= reported


def test_records_that_spark_reads_twice_are_counted_once_where_the_job_knows_better() -> None:
    metrics = Metrics()
    for _ in range(2):
        metrics.wrote("views", rows=20, dead=5, records=25)
        metrics.progressed(progress())
        metrics.progressed(progress(name="views/per_minute"))
    reported = {
        name: metrics.registry.get_sample_value("sordini_pipeline_records_total", {"query": name})
        for name in ("views", "views/per_minute")
    }
    assert reported == {"views": 50, "views/per_minute": 100}


def test_prometheus_is_answered_and_a_port_that_is_taken_is_reported() -> None:
    metrics = Metrics()
    metrics.wrote("views", rows=60, dead=15)
    port = metrics.serve("127.0.0.1", 0)
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        assert b'sordini_pipeline_rows_total{query="views"} 60.0' in answer.read()
    with pytest.raises(PipelineError, match=f"metrics cannot be served at 127.0.0.1:{port}: Address already in use"):
        Metrics().serve("127.0.0.1", port)


def test_a_source_that_does_not_tell_its_end_has_no_lag() -> None:
    assert lags({"endOffset": None, "latestOffset": None}) == []
    assert lags({"endOffset": "7", "latestOffset": {"views": {"0": 8}}}) == []


def test_a_backfill_ends_at_the_tables_position_and_leaves_out_what_begins_after_it() -> None:
    start: dict[str, dict[int, int]] = {"a": {0: 5, 1: 50, 2: 3}}
    end: dict[str, dict[int, int]] = {"a": {0: 90, 1: 90, 2: 90}}
    limited = _up_to(start, end, {"a": {0: 30, 1: 40}})
    assert limited == {"a": {0: 30, 1: 50, 2: 3}}
    assert distance(start, limited) == 25


def test_records_that_an_aggregate_has_read_are_not_lost_when_retention_deletes_them() -> None:
    started = {"a": {0: 5, 1: 5, 2: 5}, "gone": {0: 3}}
    begins: dict[str, dict[int, int]] = {"a": {0: 0, 1: 40, 2: 90}}
    assert still_there(started, begins, {"a": {0: 60, 1: 60, 2: 60}}) == {"a": {0: 5, 1: 40, 2: 60}, "gone": {0: 3}}
