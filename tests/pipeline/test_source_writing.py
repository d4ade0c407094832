"""Batches and streams that are written by the format `sordini`, read back by an ordinary client or by Spark's source."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from tests.pipeline.batches import end
from tests.pipeline.sent import KEEP, fill, rows, values
from tests.pipeline.topics import Place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COUNT = 60

Write = Callable[..., None]
COLUMNS = (
    "cast(concat('key-', id) as binary) as key",
    "if(id % 5 = 0, null, concat('value-', id)) as value",
    "array(struct('n' as key, cast(cast(id as string) as binary) as value)) as headers",
)


@pytest.fixture
def write(place: Place) -> Write:
    """`write(frame, topic=...)` appends; `sink="kafka"` writes by Spark's own sink."""

    def save(frame: DataFrame, sink: str = "sordini", **options: str) -> None:
        writer = frame.write.format(sink).option("kafka.bootstrap.servers", place.bootstrap)
        writer.options(**options).mode("append").save()

    return save


def test_a_batch_is_written_with_keys_headers_and_partitions(spark: SparkSession, place: Place, write: Write) -> None:
    topic = place.make_topic(3, configs=KEEP)
    frame = spark.range(30).selectExpr(*COLUMNS, "cast(id % 3 as int) as partition")
    write(frame, topic=topic, **{"kafka.compression.type": "zstd"})
    reader = spark.read.format("sordini").option("kafka.bootstrap.servers", place.bootstrap)
    found = {row.key: row for row in rows(reader.options(subscribe=topic, includeHeaders="true").load())}
    assert len(found) == 30
    for number in range(30):
        row = found[f"key-{number}"]
        assert row.partition == number % 3
        assert row.value == (None if number % 5 == 0 else f"value-{number}")
        assert row.headers == (("n", b"%d" % number),)


@pytest.mark.long
def test_a_key_goes_to_the_partition_to_which_sparks_own_sink_sends_it(
    spark: SparkSession, place: Place, write: Write
) -> None:
    ours, theirs = place.make_topic(5), place.make_topic(5)
    frame = spark.range(200).selectExpr("concat('key-', id) as key", "'' as value")
    write(frame, topic=ours)
    write(frame, "kafka", topic=theirs)

    def partitions(topic: str) -> dict[str | None, int]:
        reader = spark.read.format("kafka").option("kafka.bootstrap.servers", place.bootstrap)
        return {row.key: row.partition for row in rows(reader.option("subscribe", topic).load())}

    assert partitions(ours) == partitions(theirs)


@pytest.mark.long
def test_each_row_can_name_its_topic_and_a_topic_that_is_not_there_is_made(
    spark: SparkSession, place: Place, write: Write
) -> None:
    names = [f"made-{uuid4().hex[:12]}" for _ in range(2)]
    found = [(names[number % 2], f"value-{number}") for number in range(20)]
    write(spark.createDataFrame(found, "topic string, value string"))
    for which, name in enumerate(names):
        assert values(place.bootstrap, name, 1) == sorted(f"value-{number}" for number in range(which, 20, 2))


@pytest.mark.long
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_more_than_a_batch_holds_is_written_in_every_codec(
    spark: SparkSession, place: Place, write: Write, codec: str
) -> None:
    topic = place.make_topic(2)
    write(
        spark.range(3000).selectExpr("concat('value-', id) as value"),
        topic=topic,
        **{"kafka.compression.type": codec, "kafka.batch.size": "4000"},
    )
    assert values(place.bootstrap, topic) == sorted(f"value-{number}" for number in range(3000))


@pytest.mark.slow
def test_a_stream_from_topic_to_topic_goes_on_after_a_restart(
    spark: SparkSession, place: Place, tmp_path: Path
) -> None:
    source, target = place.make_topic(2, configs=KEEP), place.make_topic(2)
    expected = []
    for first in (0, COUNT):
        expected += [row.value or "" for row in fill(place.bootstrap, source, COUNT, first=first)]
        reader = spark.readStream.format("sordini").option("kafka.bootstrap.servers", place.bootstrap)
        frame = reader.options(subscribe=source, startingOffsets="earliest", includeHeaders="true").load()
        writer = frame.select("key", "value", "headers").writeStream.format("sordini")
        options = {"topic": target, "checkpointLocation": str(tmp_path / "checkpoint")}
        writer = writer.option("kafka.bootstrap.servers", place.bootstrap).options(**options)
        end(writer.trigger(availableNow=True).start())
        assert values(place.bootstrap, target) == sorted(expected)


@pytest.mark.long
@pytest.mark.parametrize(
    ("columns", "options", "complaint"),
    [
        (["value"], {}, "neither an option nor a column named topic"),
        (["key"], {"topic": "t"}, "no column named value"),
        (["value", "id"], {"topic": "t"}, "a record has no column 'id'"),
        (["1 as value"], {"topic": "t"}, "the column value is int, it has to be string or binary"),
        (["value"], {"topic": "t", "kafka.transactional.id": "x"}, "Spark's tasks cannot share a transaction"),
        (["value"], {"topic": "t", "kafka.acks": "1", "kafka.enable.idempotence": "true"}, "needs kafka.acks=all"),
        (["value"], {"topic": "t", "kafka.compression.type": "brotli"}, "this sink supports none, gzip"),
    ],
)
def test_what_cannot_be_written_is_said_before_anything_is_written(
    spark: SparkSession, write: Write, columns: list[str], options: dict[str, str], complaint: str
) -> None:
    from pyspark.errors import AnalysisException

    frame = spark.range(1).selectExpr("'k' as key", "'v' as value", "id").selectExpr(*columns)
    with pytest.raises(AnalysisException) as caught:
        write(frame, **options)
    assert complaint in str(caught.value)


@pytest.mark.long
def test_rows_for_no_topic_and_for_partitions_that_are_not_there_stop_the_job(
    spark: SparkSession, place: Place, write: Write
) -> None:
    from pyspark.errors import PySparkException

    topic = place.make_topic(2)
    with pytest.raises(PySparkException, match="a row's topic is null"):
        write(spark.createDataFrame([(None, "v")], "topic string, value string"))
    with pytest.raises(PySparkException, match="no partition 2"):
        write(spark.createDataFrame([(2, "v")], "partition int, value string"), topic=topic)
