"""Streams of PySpark 4.0 and 4.1, whose source plans with less than that of later versions."""

from __future__ import annotations

from typing import cast

import pytest

from sordini.pipeline.source.batch_planning import DataLost
from sordini.pipeline.source.client import Client
from sordini.pipeline.source.older_spark import UnboundedStreamReader
from sordini.pipeline.source.options import read_options
from tests.unit.pipeline.source.test_stream import Cluster, ended


def reader(cluster: Cluster, **given: str) -> UnboundedStreamReader:
    options = {
        "kafka.bootstrap.servers": "localhost:9092",
        "startingOffsets": "earliest",
        "subscribePattern": "view-.*",
        "commit_group": "g",
        **given,
    }
    return UnboundedStreamReader(read_options(options, streaming=True), lambda _: cast("Client", cluster))


def test_the_position_in_a_topic_that_is_gone_is_kept_and_not_committed_to_the_group(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = Cluster({"view-a": 10, "view-b": 5})
    stream = reader(cluster, failOnDataLoss="false")
    stream.initialOffset()
    stream.commit(stream.latestOffset())
    del cluster.ends["view-b"]
    cluster.ends["view-a"] = 12
    for _ in range(2):
        end = stream.latestOffset()
        stream.commit(end)
        assert ended(end) == {"view-a": 12, "view-b": 5}
    assert cluster.groups == [
        ("g", {("view-a", 0): 10, ("view-b", 0): 5}),
        ("g", {("view-a", 0): 12}),
        ("g", {("view-a", 0): 12}),
    ]
    assert [record.message for record in caplog.records] == ["records lost: topic 'view-b' does not exist any more"]


def test_a_topic_that_is_gone_stops_a_stream_which_continues_over_no_loss() -> None:
    cluster = Cluster({"view-a": 10, "view-b": 5})
    stream = reader(cluster)
    stream.initialOffset()
    del cluster.ends["view-b"]
    with pytest.raises(DataLost, match="topic 'view-b' does not exist any more"):
        stream.latestOffset()
