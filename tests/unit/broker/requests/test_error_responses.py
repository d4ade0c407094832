"""Refusals of long requests: piece by piece, and the same as in one go."""

from __future__ import annotations

from typing import Any

import pytest

from sordini.broker.records.delete_records_handler import RecordsHandler
from sordini.broker.records.list_offsets_handler import ListOffsetsHandler
from sordini.broker.requests.error_responses import ROWS_PER_PIECE, error_response_in_steps, split
from sordini.broker.requests.slice_scheduler import SliceScheduler
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from sordini.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)


def of_topics(*counts: int) -> OffsetForLeaderEpochRequest:
    return OffsetForLeaderEpochRequest(
        replica_id=7,
        topics=[
            OffsetForLeaderTopic(
                topic=f"t{number}", partitions=[OffsetForLeaderPartition(partition=index) for index in range(count)]
            )
            for number, count in enumerate(counts)
        ],
    )


def rows_of(request: Any) -> list[tuple[str, int]]:
    return [(topic.topic, row.partition) for topic in request.topics for row in topic.partitions]


@pytest.mark.parametrize("counts", [(0,), (3, 0, 2), (9,), (4, 4, 4), (25, 1, 25), (1,) * 40])
def test_pieces_are_small_and_together_the_whole(counts: tuple[int, ...]) -> None:
    request = of_topics(*counts)
    found = list(split(request, 10))
    assert all(piece.replica_id == 7 for piece in found)
    assert [row for piece in found for row in rows_of(piece)] == rows_of(request)
    assert {topic.topic for piece in found for topic in piece.topics} == {topic.topic for topic in request.topics}
    assert all(1 + len(piece.topics) + len(rows_of(piece)) <= 13 for piece in found)


def test_numbers_are_cut_into_pieces_as_well() -> None:
    request = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=list(range(35)))])
    found = list(split(request, 10))
    assert [len(piece.topics[0].partition_indexes) for piece in found] == [10, 10, 10, 5]
    assert [index for piece in found for index in piece.topics[0].partition_indexes] == list(range(35))


async def test_a_refusal_in_steps_names_all_that_one_in_one_go_names() -> None:
    request = of_topics(*[3] * ROWS_PER_PIECE, 5 * ROWS_PER_PIECE)
    slices = SliceScheduler()
    code = ErrorCode.NOT_CONTROLLER
    refused = await slices.run(error_response_in_steps(ListOffsetsHandler.epochs_error_response, request, code))
    whole = ListOffsetsHandler.epochs_error_response(request, code)
    assert rows_of(refused) == rows_of(whole)
    assert slices.slices > 3


async def test_a_short_refusal_is_what_the_handler_makes_of_it() -> None:
    request = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[1, 2])])
    refused = await SliceScheduler().run(
        error_response_in_steps(RecordsHandler.describe_error_response, request, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    )
    assert refused == RecordsHandler.describe_error_response(request, ErrorCode.UNSTABLE_OFFSET_COMMIT)
