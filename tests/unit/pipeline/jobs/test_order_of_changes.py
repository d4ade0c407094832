"""By which columns a job compares the changes of a key."""

from __future__ import annotations

import pytest

from sordini.pipeline.errors import PipelineError
from sordini.pipeline.jobs.batch_writer import order_of
from sordini.pipeline.jobs.job import Job

ROWS = ["id", "ts_ms", "topic", "partition", "offset", "timestamp"]


def a_job(*, sequence: str = "", prefix: str = "", **source: object) -> Job:
    sink = {"location": "t", "mode": "upsert", "keys": "id"}
    return Job.of(
        name="people",
        source={"bootstrap": "127.0.0.1:1", **(source or {"topics": ["t"]})},
        decode={
            "mode": "json",
            "schema": {"fields": {"id": "long!", "ts_ms": "long!"}},
            **({"record_prefix": prefix} if prefix else {}),
        },
        sink={**sink, "sequence": sequence} if sequence else sink,
    )


def test_changes_of_one_sequence_are_ordered_by_their_position() -> None:
    order = order_of(a_job(sequence="ts_ms"), ROWS)
    assert order.columns == ("ts_ms", "topic", "partition", "offset")
    assert order.sequence == ("ts_ms", "partition", "offset")


@pytest.mark.parametrize("source", [{"topics": ["t", "u"]}, {"pattern": "t.*"}])
def test_the_topic_is_compared_where_there_may_be_several(source: dict[str, object]) -> None:
    assert order_of(a_job(sequence="ts_ms", **source), ROWS).sequence == ("ts_ms", "topic", "partition", "offset")


def test_the_position_is_in_the_columns_that_the_job_gives_to_records() -> None:
    """The schema may have fields of its own that are called partition and offset."""
    rows = [*ROWS, "kafka_topic", "kafka_partition", "kafka_offset"]
    assert order_of(a_job(prefix="kafka_"), rows) == (("kafka_topic", "kafka_partition", "kafka_offset"), ())


def test_a_transform_may_leave_the_position_out_only_if_there_is_a_sequence() -> None:
    assert order_of(a_job(sequence="ts_ms"), ["id", "ts_ms"]) == (("ts_ms",), ("ts_ms",))
    with pytest.raises(PipelineError, match="leaves offset out, which orders the changes of a key"):
        order_of(a_job(), ["id", "topic", "partition"])
