"""Committed offsets as messages: requests in every version that is used, and what is read from responses."""

from __future__ import annotations

import pytest

from sordini.client.group_offsets import COMMITS, FETCHES, commit_request, fetch_request, group_in, partitions_in
from sordini.protocol import codecs
from sordini.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from sordini.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from sordini.protocol.types import TopicPartition

OFFSETS = {TopicPartition("orders", 0): 3, TopicPartition("sales", 1): 7, TopicPartition("orders", 2): 5}


@pytest.mark.parametrize("version", range(COMMITS["at_least"], COMMITS["at_most"] + 1))
def test_a_commit_has_each_offset_below_its_topic_and_names_no_member(version: int) -> None:
    data = memoryview(codecs.encode(commit_request("reports", OFFSETS), version))
    request: OffsetCommitRequest = codecs.decode(OffsetCommitRequest, version, data, 0)[0]
    assert (request.group_id, request.member_id, request.generation_id_or_member_epoch) == ("reports", "", -1)
    assert [topic.name for topic in request.topics] == ["orders", "sales"]
    assert {one: row.committed_offset for one, row in partitions_in(request)} == OFFSETS


@pytest.mark.parametrize("version", range(FETCHES["at_least"], FETCHES["at_most"] + 1))
def test_a_fetch_is_for_all_partitions_of_the_group(version: int) -> None:
    data = memoryview(codecs.encode(fetch_request("reports"), version))
    request: OffsetFetchRequest = codecs.decode(OffsetFetchRequest, version, data, 0)[0]
    found = request.groups[0] if request.groups else request
    assert (found.group_id, found.topics) == ("reports", None)


def test_the_group_is_read_from_either_form_of_a_response() -> None:
    row = OffsetFetchResponsePartition(partition_index=2, committed_offset=5)
    old = OffsetFetchResponse(topics=[OffsetFetchResponseTopic(name="orders", partitions=[row])], error_code=16)
    newer_row = OffsetFetchResponsePartitions(partition_index=2, committed_offset=5)
    topics = [OffsetFetchResponseTopics(name="orders", partitions=[newer_row])]
    new = OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="reports", topics=topics, error_code=16)])
    for response in (old, new):
        found = group_in(response)
        assert found.error_code == 16
        assert [(one, each.committed_offset) for one, each in partitions_in(found)] == [(("orders", 2), 5)]


def test_a_response_to_a_commit_is_read_as_it_is() -> None:
    row = OffsetCommitResponsePartition(partition_index=1, error_code=25)
    response = OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="orders", partitions=[row])])
    assert [(one, each.error_code) for one, each in partitions_in(group_in(response))] == [(("orders", 1), 25)]
