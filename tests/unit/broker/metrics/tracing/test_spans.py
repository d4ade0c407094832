"""A slow request as spans: what each has, and that its steps are the whole of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.broker.metrics.tracing.message_rows import FILE_BYTES_MAX, ROWS_MAX, TEXT_MAX, response_message, rows_of
from sordini.broker.metrics.tracing.slow_request import HEAD_BYTES_MAX, Origin, Pieces, SlowRequest, Times
from sordini.broker.metrics.tracing.spans import LISTED_MAX, Span, span_of
from sordini.protocol import codecs
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.headers import request_header
from sordini.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from sordini.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from sordini.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from sordini.protocol.served_apis import APIS
from sordini.protocol.types import TopicId, topic_id_text
from tests.support.message_samples import sample

ORIGIN = Origin("192.0.2.1", 4711, "1-2", "PLAINTEXT", "User:alice", "")
STEPS = st.integers(0, 10**12)
KNOWN, UNKNOWN = TopicId(bytes(15) + b"\x01"), TopicId(bytes(15) + b"\x02")


def name_of(topic_id: TopicId) -> str | None:
    return "orders" if topic_id == KNOWN else None


def request_bytes(key: ApiKey, version: int, request: Any, client_id: str = "me") -> bytes:
    return request_header(APIS[key], version, 7, client_id) + codecs.encode(request, version)


def response_bytes(key: ApiKey, version: int, response: Any) -> bytes:
    tags = b"\0" if version >= APIS[key].flexible_from and key is not ApiKey.API_VERSIONS else b""
    return bytes(8) + tags + codecs.encode(response, version)


def a_slow_one(
    head: bytes, answer: bytes | Pieces | None, handled: int = 3, waited: int = 0, *, blocking: bool = False
) -> SlowRequest:
    pieces = (answer,) if isinstance(answer, bytes) else answer
    return SlowRequest(Times(1_000, handled, waited), blocking, head[:HEAD_BYTES_MAX], len(head), pieces, 99, ORIGIN)


def span(slow: SlowRequest) -> Span:
    found = span_of(slow, name_of)
    assert found is not None
    return found


def a_produce(version: int = 13, acks: int = -1, records: bytes = b"", topic_id: TopicId = KNOWN) -> bytes:
    row = PartitionProduceData(index=3, records=memoryview(records))
    topic = TopicProduceData(name="orders", topic_id=topic_id, partition_data=[row])
    request = ProduceRequest(acks=acks, timeout_ms=5, transactional_id="payments", topic_data=[topic])
    return request_bytes(ApiKey.PRODUCE, version, request)


def produced(version: int = 13, code: int = 0, topic_id: TopicId = KNOWN, throttle_ms: int = 0) -> bytes:
    row = PartitionProduceResponse(index=3, error_code=code)
    topic = TopicProduceResponse(name="orders", topic_id=topic_id, partition_responses=[row])
    return response_bytes(ApiKey.PRODUCE, version, ProduceResponse(responses=[topic], throttle_time_ms=throttle_ms))


@given(STEPS, STEPS)
def test_the_steps_of_a_request_follow_each_other_and_are_the_whole_of_it(handled: int, waited: int) -> None:
    root = span(a_slow_one(a_produce(), produced(), handled, waited))
    assert (root.began_ns, root.ended_ns) == (1_000, 1_000 + handled + waited)
    ends = [root.began_ns, *(child.ended_ns for child in root.children)]
    assert [child.began_ns for child in root.children] == ends[:-1]
    assert ends[-1] == root.ended_ns
    assert len(root.children) == (2 if waited else 1)


@pytest.mark.parametrize(
    ("acks", "blocking", "name"),
    [
        (-1, False, "wait for followers"),
        (1, False, "wait for the disk"),
        (-1, True, "validate, append and wait for followers"),
        (1, True, "validate and append"),
    ],
)
@pytest.mark.parametrize("version", [0, 2, 3, 8, 9, 13])
def test_a_produce_says_what_it_has_waited_for(version: int, acks: int, blocking: bool, name: str) -> None:
    records = bytes(2 * HEAD_BYTES_MAX)  # Most of the request is not kept.
    root = span(a_slow_one(a_produce(version, acks, records), produced(version), 1, 2, blocking=blocking))
    assert [child.name for child in root.children] == ["handle", name]
    assert root.attributes["sordini.produce.acks"] == acks
    assert root.attributes["sordini.partitions"] == ["orders-3"]


def test_a_root_has_client_request_and_response() -> None:
    root = span(a_slow_one(a_produce(), produced(throttle_ms=40)))
    assert root.name == "PRODUCE v13"
    assert root.attributes == {
        "messaging.system": "kafka",
        "messaging.client.id": "me",
        "client.address": "192.0.2.1",
        "client.port": 4711,
        "sordini.connection": "1-2",
        "sordini.listener": "PLAINTEXT",
        "sordini.principal": "User:alice",
        "sordini.api": "PRODUCE",
        "sordini.api.version": 13,
        "sordini.correlation.id": 7,
        "sordini.request.bytes": len(a_produce()),
        "sordini.response.bytes": 99,
        "sordini.partitions": ["orders-3"],
        "sordini.partitions.count": 1,
        "sordini.produce.acks": -1,
        "sordini.throttle.ms": 40,
    }
    assert root.error == ""
    with_software = a_slow_one(a_produce(), None)._replace(origin=ORIGIN._replace(software="java 4.4.0"))
    assert span(with_software).attributes["sordini.client.software"] == "java 4.4.0"


def test_errors_are_named_with_their_partitions_and_make_the_span_one_that_failed() -> None:
    root = span(a_slow_one(a_produce(), produced(code=6)))
    assert (root.error, root.attributes["sordini.errors"]) == (
        "NOT_LEADER_OR_FOLLOWER orders-3",
        ["NOT_LEADER_OR_FOLLOWER orders-3"],
    )
    refused = JoinGroupResponse(error_code=25)
    head = request_bytes(ApiKey.JOIN_GROUP, 5, JoinGroupRequest(group_id="g", protocol_type="consumer"))
    root = span(a_slow_one(head, response_bytes(ApiKey.JOIN_GROUP, 5, refused), 1, 1))
    assert (root.error, root.attributes["messaging.consumer.group.name"]) == ("UNKNOWN_MEMBER_ID", "g")
    assert root.children[1].name == "wait for members"
    unheard_of = produced(code=999)
    assert span(a_slow_one(a_produce(), unheard_of)).error == "error 999 orders-3"


def test_a_topic_is_named_by_its_id_where_it_has_no_name() -> None:
    known, unknown = (span(a_slow_one(a_produce(), produced(topic_id=one))) for one in (KNOWN, UNKNOWN))
    assert known.attributes["sordini.partitions"] == ["orders-3"]
    assert unknown.attributes["sordini.partitions"] == [f"{topic_id_text(UNKNOWN)}-3"]


def test_partitions_are_those_of_the_request_where_no_response_was_kept() -> None:
    assert span(a_slow_one(a_produce(acks=0), None)).attributes["sordini.partitions"] == ["orders-3"]
    cut_off = span(a_slow_one(a_produce(acks=0, records=bytes(HEAD_BYTES_MAX)), None))
    assert "sordini.partitions" not in cut_off.attributes
    assert cut_off.attributes["sordini.produce.acks"] == 0


def test_records_in_files_take_their_place_in_a_response_up_to_a_bound() -> None:
    head = request_bytes(ApiKey.FETCH, 12, FetchRequest(max_wait_ms=1))
    for size, is_read in ((FILE_BYTES_MAX, True), (FILE_BYTES_MAX + 1, False)):
        row = PartitionData(partition_index=1, error_code=0, records=bytes(size))
        last = PartitionData(partition_index=2, error_code=6, records=b"")
        rows = FetchResponse(responses=[FetchableTopicResponse(topic="orders", partitions=[row, last])])
        whole = response_bytes(ApiKey.FETCH, 12, rows)
        at = whole.index(bytes(1_000), 100 if size < 100 else 0)
        records_at = len(whole) - len(whole[at:].lstrip(b"\0")) - size  # The records end where zeros end.
        pieces: Pieces = (whole[:records_at], size, whole[records_at + size :])
        root = span(a_slow_one(head, pieces, 1, 2))
        assert root.children[1].name == "wait in purgatory"
        assert root.attributes.get("sordini.errors") == (["NOT_LEADER_OR_FOLLOWER orders-2"] if is_read else None)


def test_lists_and_texts_are_bounded() -> None:
    rows = [PartitionProduceResponse(index=index, error_code=6) for index in range(500)]
    long = TopicProduceResponse(name="t" * 5_000, partition_responses=rows)
    answer = response_bytes(ApiKey.PRODUCE, 9, ProduceResponse(responses=[long]))
    root = span(a_slow_one(request_bytes(ApiKey.PRODUCE, 9, ProduceRequest(), "c" * 5_000), answer))
    listed, errors = root.attributes["sordini.partitions"], root.attributes["sordini.errors"]
    assert isinstance(listed, list)
    assert isinstance(errors, list)
    assert (len(listed), len(errors), root.attributes["sordini.partitions.count"]) == (LISTED_MAX, LISTED_MAX, 500)
    assert max(map(len, listed)) <= TEXT_MAX + len("-500")
    assert root.attributes["messaging.client.id"] == "c" * TEXT_MAX
    many = [PartitionProduceResponse(index=index) for index in range(ROWS_MAX + 1)]
    message = ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=many)])
    assert len(rows_of(message, name_of)) == ROWS_MAX
    assert response_message(APIS[ApiKey.PRODUCE], 9, (response_bytes(ApiKey.PRODUCE, 9, message),)) is not None
    costly = [PartitionProduceResponse(index=index) for index in range(20 * ROWS_MAX)]
    message = ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=costly)])
    assert response_message(APIS[ApiKey.PRODUCE], 9, (response_bytes(ApiKey.PRODUCE, 9, message),)) is None


@pytest.mark.parametrize("key", APIS)
def test_every_api_has_spans_in_every_version_also_of_bytes_that_are_cut_off(key: int) -> None:
    api = APIS[key]
    for version in range(api.min_version, api.max_version + 1):
        head = request_bytes(api.key, version, sample(api.request, version))
        answer = response_bytes(api.key, version, sample(api.response, version))
        cut_off = head[: max(len(head) - 1, len(request_header(api, version, 7, "me")))]
        for request, response in ((head, answer), (cut_off, answer[:-1]), (head, None), (head, answer + b"x")):
            root = span(a_slow_one(request, response, 5, 6))
            assert root.name == f"{api.key.name} v{version}"
            json.dumps(root.as_json())


@given(st.sampled_from(sorted(APIS)), st.integers(0, 20), st.binary(max_size=200), st.binary(max_size=200))
def test_no_bytes_make_it_fail(key: int, version: int, request: bytes, response: bytes) -> None:
    head = key.to_bytes(2, "big") + version.to_bytes(2, "big") + request
    found = span_of(a_slow_one(head, response, 5, 6), name_of)
    assert found is None or json.dumps(found.as_json())


def test_an_api_versions_request_of_a_newer_client_has_a_span() -> None:
    head = request_header(APIS[ApiKey.API_VERSIONS], 3, 7, "me")
    newer = head[:2] + (99).to_bytes(2, "big") + head[4:]
    assert span(a_slow_one(newer, None)).name == "API_VERSIONS v99"
