"""Jobs whose sink is a topic, and jobs that read with Spark's own source."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.pipeline.test_jobs import JOB, KEEP, a_job, good, numbers, produce, run_load, run_stream

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.long

INTO_TOPICS = JOB.replace(
    "sink: {kind: $kind, location: tables/events, partition_by: [event_date]}",
    "sink: {kind: kafka, location: $kind, options: {key: page}}",
)


def read_all(bootstrap: str, topic: str, count: int) -> list[tuple[str | None, dict[str, object], dict[str, bytes]]]:
    with closing(
        KafkaConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=10_000)
    ) as consumer:
        found = []
        for record in consumer:
            key = record.key.decode() if record.key else None
            found.append((key, json.loads(record.value), dict(record.headers)))
            if len(found) == count:
                break
        return found


def test_rows_go_into_a_topic_with_the_place_of_their_record(
    spark: SparkSession, bootstrap: str, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    into, letters = make_topic(1, configs=KEEP), make_topic(1, configs=KEEP)
    text = INTO_TOPICS + f"dead_letters: {{kind: kafka, location: {letters}}}\n"
    text = text[: text.index("aggregates:")] + text[text.index("dead_letters:") :]
    topic = make_topic(2, configs=KEEP)
    job = a_job(tmp_path, bootstrap, topic, into, text)
    produce(job, 0, 60)
    assert [(batch.rows, batch.dead) for batch in run_load(job, spark)] == [(36, 4), (18, 2)]
    assert run_load(job, spark) == []
    produce(job, 60, 20)
    batches, notices = run_stream(job, spark)
    assert [(batch.rows, batch.dead) for batch in batches] == [(18, 2)]
    assert notices == []
    rows = read_all(bootstrap, into, 72)
    assert sorted(row["n"] for _, row, _ in rows) == good(80)
    assert all(key == row["page"] for key, row, _ in rows)
    assert {headers["source"] for _, _, headers in rows} == {
        f"{topic}-{number % 2}@{number // 2}".encode() for number in good(80)
    }
    assert len(read_all(bootstrap, letters, 8)) == 8


def test_a_job_goes_on_where_it_was_when_it_reads_with_the_other_source(
    spark: SparkSession, bootstrap: str, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = make_topic(2, configs=KEEP)
    job = a_job(tmp_path, bootstrap, topic, "delta")
    produce(job, 0, 40)
    run_stream(job, spark)
    theirs = a_job(tmp_path, bootstrap, topic, "delta", JOB.replace("source:", "source:\n  format: kafka"))
    produce(job, 40, 40)
    _, [notice] = run_stream(theirs, spark)
    assert "the source is another one" in notice
    produce(job, 80, 20)
    run_load(theirs, spark)
    assert numbers(job.sink, spark) == good(100)
    assert len(numbers(job.dead_letters, spark, "offset")) == 10
