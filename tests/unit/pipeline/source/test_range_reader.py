from __future__ import annotations

import pickle
from collections.abc import Iterator

import pytest

from sordini.pipeline.errors import OffsetLost, PipelineError, TopicRecreated, UnknownTopic
from sordini.pipeline.source.batch_planning import DataLost, Range
from sordini.pipeline.source.client import Fetched
from sordini.pipeline.source.decode import BrokenRecords
from sordini.pipeline.source.options import SourceOptions, read_options
from sordini.pipeline.source.range_reader import RangePartition, read_logs
from sordini.protocol.types import TopicPartition
from tests.support.builders import a_batch

PARTITION = TopicPartition("t", 0)


def options(**given: str) -> SourceOptions:
    base = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t", "columns": "offset,value"}
    return read_options({**base, **given}, streaming=False)


class Logs:
    """A log of batches of three records; each answer is one batch, or an error that stands in its place."""

    def __init__(self, log_start: int, log_end: int, errors: dict[int, PipelineError] | None = None) -> None:
        self.log_start = log_start
        self.log_end = log_end
        self.errors = errors or {}
        self.asked: list[tuple[int, int, bool, str]] = []

    def read(
        self, partition: TopicPartition, start: int, end: int, *, read_committed: bool = False, topic_id: str = ""
    ) -> Iterator[Fetched]:
        self.asked.append((start, end, read_committed, topic_id))
        if start < self.log_start:
            raise OffsetLost(partition, start, self.log_start, self.log_end)
        for base in range(start - start % 3, min(end, self.log_end), 3):
            if base in self.errors:
                raise self.errors[base]
            records = memoryview(a_batch(3, base_offset=base))
            yield Fetched(records, [], self.log_end, self.log_end, self.log_start, base + 3)


def offsets(logs: Logs, start: int, end: int, **given: str) -> list[int]:
    batches = read_logs(logs, options(**given), RangePartition(Range("t", 0, start, end), "id"))
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


def test_a_range_is_read_from_its_first_offset_to_its_last_and_no_further() -> None:
    logs = Logs(0, 30)
    assert offsets(logs, 4, 11) == list(range(4, 11))
    assert logs.asked == [(4, 11, False, "id")]


def test_a_reader_of_committed_records_asks_for_those() -> None:
    logs = Logs(0, 30)
    offsets(logs, 4, 11, **{"kafka.isolation.level": "read_committed"})
    assert logs.asked == [(4, 11, True, "id")]


def test_a_piece_travels_to_a_worker() -> None:
    piece = pickle.loads(pickle.dumps(RangePartition(Range("t", 0, 4, 11), "id")))
    assert (piece.piece, piece.topic_id) == (Range("t", 0, 4, 11), "id")


@pytest.mark.parametrize(
    "loss", [OffsetLost(PARTITION, 6, 9, 30), TopicRecreated("t", "id", "other"), UnknownTopic(["t"])]
)
def test_a_loss_stops_a_task_with_its_reason(loss: PipelineError) -> None:
    with pytest.raises(DataLost) as caught:
        offsets(Logs(0, 30, {6: loss}), 0, 30)
    assert str(loss) in str(caught.value)


def test_a_task_that_may_lose_records_goes_on_where_the_log_begins() -> None:
    assert offsets(Logs(9, 30), 0, 15, failOnDataLoss="false") == list(range(9, 15))


def test_what_retention_takes_while_a_task_reads_is_passed_over_and_nothing_is_read_twice() -> None:
    logs = Logs(0, 30, {6: OffsetLost(PARTITION, 6, 12, 30)})
    assert offsets(logs, 1, 15, failOnDataLoss="false") == [1, 2, 3, 4, 5, 12, 13, 14]


@pytest.mark.parametrize(
    "loss",
    [
        OffsetLost(PARTITION, 6, 15, 30),
        OffsetLost(PARTITION, 6, 20, 30),
        OffsetLost(PARTITION, 6, 0, 6),
        TopicRecreated("t", "id", "other"),
        UnknownTopic(["t"]),
    ],
)
def test_a_task_that_may_lose_records_ends_where_nothing_of_its_range_is_left(loss: PipelineError) -> None:
    logs = Logs(0, 30, {6: loss})
    assert offsets(logs, 0, 15, failOnDataLoss="false") == [0, 1, 2, 3, 4, 5]
    assert len(logs.asked) == 1


def test_a_broken_record_stops_a_task_even_if_it_may_lose_records() -> None:
    class Torn(Logs):
        def read(self, *arguments: object, **named: object) -> Iterator[Fetched]:
            for fetched in super().read(*arguments, **named):
                torn = bytearray(fetched.records)
                torn[-1] ^= 1
                yield fetched._replace(records=memoryview(torn))

    with pytest.raises(BrokenRecords, match="topic 't', partition 0, offset 0"):
        offsets(Torn(0, 30), 0, 15, failOnDataLoss="false")
