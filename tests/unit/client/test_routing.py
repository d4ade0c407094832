"""Addresses, routing and retries: what is read of responses, and what a caller waits."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.client.addresses import Address, parse_bootstrap
from sordini.client.retries import Backoff
from sordini.client.routing import (
    PartitionLeader,
    broker_addresses,
    coordinator_in,
    coordinator_request,
    metadata_request,
    partition_leaders,
)
from sordini.protocol import codecs
from sordini.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from sordini.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)


def test_metadata_names_where_brokers_are_and_which_of_them_lead() -> None:
    rows = [MetadataResponsePartition(partition_index=n, leader_id=n - 1, leader_epoch=5) for n in (0, 1)]
    topic = MetadataResponseTopic(name="orders", partitions=rows)
    response = MetadataResponse(brokers=[MetadataResponseBroker(node_id=3, host="h", port=9)], topics=[topic])
    assert broker_addresses(response) == {3: Address("h", 9)}
    assert partition_leaders(topic) == {0: PartitionLeader(-1, 5), 1: PartitionLeader(0, 5)}


@pytest.mark.parametrize(("topics", "names"), [(None, None), ([], []), (["a", "b"], ["a", "b"])])
def test_a_metadata_request_creates_no_topic(topics: list[str] | None, names: list[str] | None) -> None:
    request = metadata_request(topics)
    assert not request.allow_auto_topic_creation
    assert (None if request.topics is None else [topic.name for topic in request.topics]) == names


@pytest.mark.parametrize("version", [0, 3, 4, 6])
def test_a_coordinator_is_found_in_every_version(version: int) -> None:
    sent = codecs.decode(FindCoordinatorRequest, version, memoryview(codecs.encode(coordinator_request("g"), version)))
    assert sent[0].key == "g" if version < 4 else sent[0].coordinator_keys == ["g"]
    where = {"node_id": 2, "host": "h", "port": 9}
    if version < 4:
        response = FindCoordinatorResponse(**where)
    else:
        response = FindCoordinatorResponse(coordinators=[Coordinator(key="g", **where)])
    assert coordinator_in(response).address == Address("h", 9)


@given(st.integers(0, 1_000), st.integers(0, 10_000))
def test_pauses_double_up_to_their_maximum_and_begin_again_after_a_success(first_ms: int, max_ms: int) -> None:
    backoff = Backoff(first_ms, max_ms)
    pauses = [backoff.next_ms() for _ in range(20)]
    assert pauses[0] == first_ms
    assert all(after == min(max(2 * before, 1), max_ms) for before, after in pairwise(pauses))
    backoff.reset()
    assert backoff.next_ms() == first_ms


def test_a_listener_name_before_an_address_is_skipped() -> None:
    assert parse_bootstrap("SSL://one:1, [::1]:2") == [Address("one", 1), Address("::1", 2)]
    assert parse_bootstrap("one") == [Address("one", 9092)]
    with pytest.raises(ValueError, match="'one:x' is not HOST:PORT"):
        parse_bootstrap("one:x")
