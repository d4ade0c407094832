"""The blocking shell: requests in flight, time limits, and what closes a connection."""

from __future__ import annotations

import pytest

from sordini.client.blocking import BlockingConnection
from sordini.client.connection import ClientConnection
from sordini.client.errors import Disconnected, InvalidResponse
from sordini.client.versions import negotiate
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from sordini.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from sordini.protocol.served_apis import APIS
from tests.unit.client.test_connection import HEARTBEAT, responded


class FakeTransport:
    """Answers as scripted; each receive takes a second of the clock."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.incoming = bytearray()
        self.seconds: list[float] = []
        self.now = 100.0
        self.is_closed = False
        self.failure: OSError | None = None
        self.piece = 1_000_000

    def connection(self) -> BlockingConnection:
        return BlockingConnection(self, ClientConnection("me", 1_000), lambda: self.now, 30)

    def send(self, data: bytearray, seconds: float) -> None:
        assert seconds == 30
        if self.failure is not None:
            raise self.failure
        self.sent.append(bytes(data))

    def receive_into(self, buffer: bytearray | memoryview, seconds: float) -> int:
        self.seconds.append(seconds)
        self.now += 1
        count = min(len(buffer), len(self.incoming), self.piece)
        buffer[:count] = self.incoming[:count]
        del self.incoming[:count]
        return count

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def transport() -> FakeTransport:
    return FakeTransport()


def test_responses_to_pipelined_requests_come_in_their_order(transport: FakeTransport) -> None:
    connection = transport.connection()
    for _ in range(3):
        connection.send(HeartbeatRequest(), HEARTBEAT)
    assert connection.in_flight == 3
    for code, frame in enumerate(transport.sent):
        transport.incoming += responded(frame, HeartbeatResponse(error_code=code))
    assert [connection.receive().error_code for _ in range(3)] == [0, 1, 2]
    assert len(transport.seconds) == 1
    assert connection.in_flight == 0


def test_all_of_a_response_has_to_come_within_the_time_limit(transport: FakeTransport) -> None:
    connection = transport.connection()
    connection.send(HeartbeatRequest(), HEARTBEAT)
    transport.now += 1_000  # What is sent ahead may be waited for later.
    transport.incoming += responded(transport.sent[0], HeartbeatResponse())
    transport.piece = 5
    connection.receive()
    assert transport.seconds[:3] == [30, 29, 28]


def test_the_end_of_the_stream_is_a_lost_connection(transport: FakeTransport) -> None:
    connection = transport.connection()
    with pytest.raises(Disconnected, match="closed the connection"):
        connection.request(HeartbeatRequest(), HEARTBEAT)
    assert transport.is_closed
    for use in (lambda: connection.send(HeartbeatRequest(), HEARTBEAT), connection.receive):
        with pytest.raises(Disconnected, match="is closed"):
            use()


def test_an_invalid_response_or_a_failed_socket_closes_the_connection(transport: FakeTransport) -> None:
    connection = transport.connection()
    transport.incoming += b"HTTP/1.1"
    with pytest.raises(InvalidResponse):
        connection.request(HeartbeatRequest(), HEARTBEAT)
    assert not connection.is_open
    other = FakeTransport()
    other.failure = TimeoutError("full")
    connection = other.connection()
    with pytest.raises(Disconnected, match="the broker gave no answer within 30 s"):
        connection.send(HeartbeatRequest(), HEARTBEAT)
    assert not connection.is_open
    assert other.is_closed


def test_steps_are_carried_out(transport: FakeTransport) -> None:
    connection = transport.connection()
    send = transport.send

    def send_and_answer(data: bytearray, seconds: float) -> None:
        send(data, seconds)
        row = ApiVersion(api_key=ApiKey.METADATA, min_version=0, max_version=5)
        transport.incoming += responded(data, ApiVersionsResponse(api_keys=[row]))

    transport.send = send_and_answer  # type: ignore[method-assign]
    assert connection.run(negotiate()).highest(APIS[ApiKey.METADATA]) == 5


def test_one_response_may_have_a_time_limit_of_its_own(transport: FakeTransport) -> None:
    connection = transport.connection()
    for seconds in (None, 7):
        connection.send(HeartbeatRequest(), HEARTBEAT)
        transport.incoming += responded(transport.sent[-1], HeartbeatResponse())
        connection.receive(seconds)
    assert transport.seconds == [30, 7]
