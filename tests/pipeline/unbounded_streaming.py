"""What streams do with a PySpark of before 4.2; `test_older_pyspark.py` runs this with one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sordini.pipeline.errors import PipelineError
from tests.pipeline.batches import Batches, drain, end
from tests.pipeline.sent import KEEP, committed_values, fill, values, without_headers
from tests.pipeline.test_jobs import a_job, good, numbers, produce, run_load, run_stream
from tests.pipeline.topics import Place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COUNT = 20


def read(spark: SparkSession, place: Place, topic: str, **options: str) -> DataFrame:
    reader = spark.readStream.format("sordini").option("kafka.bootstrap.servers", place.bootstrap)
    return reader.options(subscribe=topic, startingOffsets="earliest", **options).load()


def test_a_stream_takes_all_there_is_and_goes_on_after_a_restart(
    spark: SparkSession, place: Place, tmp_path: Path
) -> None:
    topic = place.make_topic(2, configs=KEEP)
    sent, batches = [], Batches(tmp_path / "checkpoint")
    for first in (0, COUNT, 2 * COUNT):
        sent += fill(place.bootstrap, topic, COUNT, first=first)
        batches.drain(read(spark, place, topic))
        assert batches.everything == sorted(without_headers(sent))
    assert len(batches.rows) == 3


def test_a_limit_is_refused_with_the_version_that_has_it(spark: SparkSession, place: Place, tmp_path: Path) -> None:
    topic = place.make_topic(1, configs=KEEP)
    with pytest.raises(Exception, match=r"maxOffsetsPerTrigger needs PySpark 4\.2, and this is 4"):
        drain(Batches(tmp_path / "checkpoint").writer(read(spark, place, topic, maxOffsetsPerTrigger="5")))


def test_a_topic_that_was_made_again_stops_a_stream(spark: SparkSession, place: Place, tmp_path: Path) -> None:
    topic = place.make_topic(2, configs=KEEP)
    fill(place.bootstrap, topic, COUNT)
    batches = Batches(tmp_path / "checkpoint")
    batches.drain(read(spark, place, topic))
    place.recreate(topic, 2, configs=KEEP)
    fill(place.bootstrap, topic, 2 * COUNT)
    with pytest.raises(Exception, match="has been deleted and created again"):
        batches.drain(read(spark, place, topic))


@pytest.mark.parametrize("is_transactional", [False, True])
def test_a_stream_writes_keys_and_headers(
    spark: SparkSession, place: Place, tmp_path: Path, *, is_transactional: bool
) -> None:
    source, target = place.make_topic(2, configs=KEEP), place.make_topic(2)
    sent = fill(place.bootstrap, source, COUNT)
    frame = read(spark, place, source, includeHeaders="true").selectExpr("cast(key as string) key", "value", "headers")
    writer = frame.writeStream.format("sordini").option("kafka.bootstrap.servers", place.bootstrap)
    options = {"topic": target, "checkpointLocation": str(tmp_path / "checkpoint")}
    if is_transactional:
        options["kafka.transactional.id"] = target
    end(writer.options(**options).trigger(availableNow=True).start())
    found = (committed_values if is_transactional else values)(place.bootstrap, target)
    assert found == sorted(row.value or "" for row in sent)


def test_a_job_loads_and_its_stream_is_refused(
    spark: SparkSession, bootstrap: str, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    job = a_job(tmp_path, bootstrap, make_topic(2, configs=KEEP), "delta")
    produce(job, 0, 60)
    run_load(job, spark)
    assert numbers(job.sink, spark) == good(60)
    with pytest.raises(
        PipelineError, match=r"needs PySpark 4\.2, and this is 4\..*: use `load`, or source.format: kafka"
    ):
        run_stream(job, spark)
