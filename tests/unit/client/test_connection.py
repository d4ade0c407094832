"""The protocol of a connection without I/O: pieces do not matter, order does, and what is no response is an error."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.client import connection
from sordini.client.connection import API_OF, ClientConnection, decode_response, encode_request
from sordini.client.errors import InvalidLength, InvalidResponse
from sordini.protocol import codecs
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.headers import read_request_header
from sordini.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from sordini.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from sordini.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from sordini.protocol.served_apis import APIS
from tests.support.response_headers import response_header

FETCH = 12
HEARTBEAT = 4
LIMIT = 4 * connection.GROWTH_BYTES


def responded(frame: bytes | bytearray, message: Any, *, correlation_id: int | None = None) -> bytes:
    """The whole response frame to a request frame."""
    header, _ = read_request_header(memoryview(frame)[4:])
    number = header.correlation_id if correlation_id is None else correlation_id
    body = response_header(APIS[header.api_key], header.api_version, number)
    body += codecs.encode(message, header.api_version)
    return struct.pack(">i", len(body)) + body


def fetched(records: bytes) -> FetchResponse:
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[PartitionData(records=records)])])


def records_of(response: FetchResponse) -> bytes:
    return bytes(response.responses[0].partitions[0].records or b"")


def feed(client: ClientConnection, data: bytes, sizes: list[int]) -> list[Any]:
    """Receive the bytes in pieces of these sizes, over and over; the responses that come of it."""
    found = []
    position = piece = 0
    while position < len(data):
        space = client.space()
        assert len(space)
        count = min(len(space), sizes[piece % len(sizes)], len(data) - position)
        space[:count] = data[position : position + count]
        del space
        position, piece = position + count, piece + 1
        response = client.received(count)
        while response is not None:
            found.append(response)
            response = client.received(0)
    return found


def test_a_request_frame_is_its_length_its_header_and_its_message() -> None:
    client = ClientConnection("me", LIMIT)
    for number in (1, 2):
        frame = client.send(HeartbeatRequest(group_id="g"), HEARTBEAT)
        assert struct.unpack_from(">i", frame)[0] == len(frame) - 4
        header, position = read_request_header(memoryview(frame)[4:])
        assert header == (ApiKey.HEARTBEAT, HEARTBEAT, number, "me")
        assert codecs.decode(HeartbeatRequest, HEARTBEAT, memoryview(frame)[4:], position)[0].group_id == "g"
    assert client.in_flight == 2


SIZES = st.one_of(
    st.integers(0, 200),
    st.integers(connection.HEAD_BYTES - 100, connection.HEAD_BYTES + 100),
    st.integers(0, 2 * connection.GROWTH_BYTES),
)


@given(
    st.lists(SIZES, min_size=1, max_size=4),
    st.lists(st.one_of(st.integers(1, 20), st.integers(1_000, 3_000_000)), min_size=1, max_size=5),
)
def test_how_the_bytes_of_pipelined_responses_are_received_does_not_matter(sizes: list[int], pieces: list[int]) -> None:
    client = ClientConnection("me", LIMIT)
    bodies = [bytes([number]) * size for number, size in enumerate(sizes)]
    frames = [client.send(FetchRequest(), FETCH) for _ in bodies]
    data = b"".join(responded(frame, fetched(body)) for frame, body in zip(frames, bodies, strict=True))
    if len(data) > 50_000 and max(pieces) < 1_000:
        pieces = [*pieces, 100_000]
    responses = feed(client, data, pieces)
    assert list(map(records_of, responses)) == bodies
    assert client.in_flight == 0


def test_records_of_a_response_are_not_changed_by_those_that_follow() -> None:
    client = ClientConnection("me", LIMIT)
    kept = []
    for number, size in enumerate((100, 50_000, 100, 50_000)):
        frame = client.send(FetchRequest(), FETCH)
        kept += feed(client, responded(frame, fetched(bytes([number]) * size)), [7_000])
    assert [set(records_of(response)) for response in kept] == [{0}, {1}, {2}, {3}]


@given(st.permutations([0, 1, 2]).filter(lambda order: order != [0, 1, 2]), st.integers(1, 100))
def test_responses_out_of_order_are_an_error(order: list[int], piece: int) -> None:
    client = ClientConnection("me", LIMIT)
    frames = [client.send(HeartbeatRequest(), HEARTBEAT) for _ in order]
    data = b"".join(responded(frames[number], HeartbeatResponse()) for number in order)
    with pytest.raises(InvalidResponse, match=r"where . was due"):
        feed(client, data, [piece])


@pytest.mark.parametrize("size", [-1, 0, 3, LIMIT + 1, 1213486160])
@pytest.mark.parametrize("piece", [1, 4, 100])
def test_a_length_that_no_response_has_is_refused_before_the_response_is_received(size: int, piece: int) -> None:
    client = ClientConnection("me", LIMIT)
    client.send(HeartbeatRequest(), HEARTBEAT)
    data = struct.pack(">i", size)
    with pytest.raises(InvalidLength, match=f"a response of {size} bytes, the limit is {LIMIT}") as raised:
        feed(client, data + bytes(100), [piece])
    assert raised.value.first_bytes == data


def test_the_limit_may_change_between_responses() -> None:
    client = ClientConnection("me", 10)
    client.response_bytes_max = 1_000
    frame = client.send(FetchRequest(), FETCH)
    assert feed(client, responded(frame, fetched(bytes(500))), [100])
    client.response_bytes_max = 100
    frame = client.send(FetchRequest(), FETCH)
    with pytest.raises(InvalidLength):
        feed(client, responded(frame, fetched(bytes(500))), [100])


def test_a_peer_that_announces_much_and_sends_little_costs_little() -> None:
    client = ClientConnection("me", 2**31 - 1)
    client.send(HeartbeatRequest(), HEARTBEAT)
    assert feed(client, struct.pack(">ii", 2**31 - 1, 1) + bytes(20_000), [5_000]) == []
    assert len(client.space()) <= 2 * connection.GROWTH_BYTES


def test_bytes_that_belong_to_no_request_are_an_error() -> None:
    with pytest.raises(InvalidResponse, match="bytes that belong to no request"):
        feed(ClientConnection("me", LIMIT), b"x", [1])
    client = ClientConnection("me", LIMIT)
    data = responded(client.send(HeartbeatRequest(), HEARTBEAT), HeartbeatResponse())
    with pytest.raises(InvalidResponse, match="more bytes than the response"):
        feed(client, data + b"x", [1_000])


@given(st.binary(min_size=0, max_size=60))
def test_any_bytes_behind_the_header_are_a_response_or_invalid(body: bytes) -> None:
    client = ClientConnection("me", LIMIT)
    client.send(FetchRequest(), FETCH)
    data = struct.pack(">ii", 4 + len(body), 1) + body
    try:
        assert len(feed(client, data, [1_000])) == 1
    except InvalidResponse as error:
        assert "cannot be read" in str(error)  # noqa: PT017 - either outcome is allowed.


def test_a_refused_version_of_api_versions_is_read_in_version_0() -> None:
    client = ClientConnection("me", LIMIT)
    frame = client.send(ApiVersionsRequest(), 3)
    body = response_header(APIS[ApiKey.API_VERSIONS], 0, 1)
    body += codecs.encode(ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION), 0)
    [response] = feed(client, struct.pack(">i", len(body)) + body, [3])
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert len(frame)


@given(st.text(max_size=50), st.integers(0, 2**31 - 1))
def test_frames_without_a_connection_are_the_same_as_on_one(group: str, correlation_id: int) -> None:
    api = API_OF[HeartbeatRequest]
    frame = encode_request(api, HEARTBEAT, correlation_id, "me", HeartbeatRequest(group_id=group))
    header, position = read_request_header(memoryview(frame)[4:])
    assert header.correlation_id == correlation_id
    assert codecs.decode(HeartbeatRequest, HEARTBEAT, memoryview(frame)[4:], position)[0].group_id == group
    response = responded(frame, HeartbeatResponse(error_code=7))
    assert decode_response(api, HEARTBEAT, memoryview(response)[4:]).error_code == 7
