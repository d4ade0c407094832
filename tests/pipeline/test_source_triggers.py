"""Triggers other than micro-batches need interfaces that Spark has for sources of the JVM alone: it refuses them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.pipeline.topics import Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.long


@pytest.mark.parametrize(
    ("trigger", "complaint"),
    [
        ({"continuous": "1 second"}, "Data source sordini does not support continuous processing"),
        ({"realTime": "5 minutes"}, "is not supported in Real-time Mode"),
    ],
)
def test_a_trigger_without_micro_batches_is_refused_before_anything_is_read(
    spark: SparkSession, place: Place, tmp_path: Path, trigger: dict[str, Any], complaint: str
) -> None:
    options = {"kafka.bootstrap.servers": place.bootstrap, "subscribe": place.make_topic(1)}
    frame = spark.readStream.format("sordini").options(**options).load().select("key", "value")
    writer = frame.writeStream.format("console").option("checkpointLocation", str(tmp_path / "checkpoint"))
    if "realTime" in trigger:
        writer = writer.outputMode("update")
    with pytest.raises(Exception) as caught:  # noqa: PT011 - of Spark's classes; the text counts.
        writer.trigger(**trigger).start().awaitTermination(60)
    assert complaint in str(caught.value)
    assert not list((tmp_path / "checkpoint").glob("offsets/*")), "no micro-batch was planned"
