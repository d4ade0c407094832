"""Where `consume --from` starts, and what it says where that is not the requested offset."""

from __future__ import annotations

import pytest

from sordini.admin.failure import Failure
from sordini.admin.partition_offsets import OffsetRange
from sordini.cli.commands.records.record_consumer import outside_notices, start_in
from sordini.protocol.types import TopicPartition

ENDS = {TopicPartition("orders", 0): OffsetRange(2, 10), TopicPartition("orders", 1): OffsetRange(0, 5)}


@pytest.mark.parametrize("offset", [2, 5, 0])
def test_an_offset_of_every_partition_the_end_and_zero_need_no_word(offset: int) -> None:
    assert outside_notices(ENDS, offset) == []


def test_where_some_partitions_end_before_the_offset_each_is_named() -> None:
    assert outside_notices(ENDS, 7) == [
        "offset 7 is beyond the end of orders-1, which is 5: only its new records are printed"
    ]


def test_an_offset_beyond_every_end_is_a_failure_that_names_the_ends() -> None:
    with pytest.raises(Failure) as failure:
        outside_notices(ENDS, 11)
    assert str(failure.value) == (
        "offset 11 is beyond the end: orders-0 ends at 10, orders-1 ends at 5. --from end waits for new records"
    )


def test_the_end_of_the_longest_partition_is_no_failure() -> None:
    assert outside_notices(ENDS, 10) == [
        "offset 10 is beyond the end of orders-1, which is 5: only its new records are printed"
    ]


def test_a_deleted_offset_is_named_with_the_first_one_there() -> None:
    assert outside_notices(ENDS, 1) == ["offset 1 of orders-0 is deleted: its first record is 2"]


def test_a_topic_without_partitions_fails_for_no_offset() -> None:
    assert outside_notices({}, 1) == []


@pytest.mark.parametrize(("kind", "number", "start"), [("offset", 99, 10), ("offset", 1, 2), ("last", 3, 7)])
def test_the_start_is_within_the_log(kind: str, number: int, start: int) -> None:
    assert start_in(ENDS[TopicPartition("orders", 0)], kind, number) == start
