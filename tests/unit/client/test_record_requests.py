"""Produce, Fetch and ListOffsets: requests by topic, and rows of answers by partition."""

from __future__ import annotations

import pytest

from sordini.client.errors import ClientError
from sordini.client.record_requests import (
    EARLIEST,
    FETCH_BY_NAME,
    LATEST,
    PRODUCE_BY_NAME,
    READ_COMMITTED,
    fetch_request,
    fetched_partitions,
    listed_partitions,
    offsets_request,
    only_partition,
    produce_request,
    produced_partitions,
)
from sordini.protocol import codecs
from sordini.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from sordini.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from sordini.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from sordini.protocol.types import TopicPartition
from tests.support.builders import a_batch

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def test_batches_of_a_produce_request_are_grouped_by_topic_and_wait_for_all_replicas_in_sync() -> None:
    batch = a_batch(1)
    request = produce_request({A0: batch, B0: batch, A1: batch}, 30_000, transactional_id="t")
    assert (request.acks, request.timeout_ms, request.transactional_id) == (-1, 30_000, "t")
    assert [(topic.name, [row.index for row in topic.partition_data]) for topic in request.topic_data] == [
        ("a", [0, 1]),
        ("b", [0]),
    ]
    assert produce_request({A0: batch}, 1, acks=0).acks == 0
    assert bytes(request.topic_data[0].partition_data[0].records) == batch


@pytest.mark.parametrize("version", range(FETCH_BY_NAME["at_least"], FETCH_BY_NAME["at_most"] + 1))
def test_a_fetch_request_is_a_consumer_s_and_keeps_the_order_of_the_partitions(version: int) -> None:
    request = fetch_request({A1: 7, B0: 8, A0: 9}, 100, bytes_max=1_000, wait_ms=500, isolation_level=READ_COMMITTED)
    data = codecs.encode(request, version)
    found, _ = codecs.decode(FetchRequest, version, memoryview(data), 0)
    assert (found.replica_id, found.max_wait_ms, found.min_bytes, found.max_bytes) == (-1, 500, 1, 1_000)
    assert found.isolation_level == READ_COMMITTED
    rows = [
        (topic.topic, [(row.partition, row.fetch_offset, row.partition_max_bytes) for row in topic.partitions])
        for topic in found.topics
    ]
    assert rows == [("a", [(1, 7, 100), (0, 9, 100)]), ("b", [(0, 8, 100)])]


def test_a_fetch_request_without_a_wait_is_answered_at_once() -> None:
    request = fetch_request({A0: 0}, 100)
    assert (request.max_wait_ms, request.min_bytes, request.isolation_level) == (0, 0, 0)


def test_offsets_are_requested_with_the_epochs_that_are_known() -> None:
    request = offsets_request({A0: EARLIEST, A1: LATEST}, epochs={A1: 5}, isolation_level=READ_COMMITTED)
    found, _ = codecs.decode(ListOffsetsRequest, 7, memoryview(codecs.encode(request, 7)), 0)
    assert (found.replica_id, found.isolation_level) == (-1, READ_COMMITTED)
    (topic,) = found.topics
    assert [(row.partition_index, row.timestamp, row.current_leader_epoch) for row in topic.partitions] == [
        (0, -2, -1),
        (1, -1, 5),
    ]


def test_rows_of_answers_are_by_partition() -> None:
    produced = ProduceResponse(
        responses=[
            TopicProduceResponse(name="a", partition_responses=[PartitionProduceResponse(index=1, base_offset=7)])
        ]
    )
    assert [(partition, row.base_offset) for partition, row in produced_partitions(produced)] == [(A1, 7)]
    fetched = FetchResponse(
        responses=[FetchableTopicResponse(topic="b", partitions=[PartitionData(partition_index=0, high_watermark=8)])]
    )
    assert [(partition, row.high_watermark) for partition, row in fetched_partitions(fetched)] == [(B0, 8)]
    rows = [ListOffsetsPartitionResponse(partition_index=number, offset=number + 3) for number in range(2)]
    listed = ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="a", partitions=rows)])
    assert [(partition, row.offset) for partition, row in listed_partitions(listed)] == [(A0, 3), (A1, 4)]
    assert only_partition(fetched_partitions(fetched), "b").high_watermark == 8
    with pytest.raises(ClientError, match="has 2 rows for a instead of one"):
        only_partition(listed_partitions(listed), "a")


def test_a_transaction_s_partitions_are_added_beforehand_in_every_version_that_is_sent() -> None:
    assert PRODUCE_BY_NAME["at_most"] < 12, "from 12 on a broker adds them at the first batch (KIP-890)"
