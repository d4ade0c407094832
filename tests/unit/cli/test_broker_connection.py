"""One connection: versions are agreed on, answers belong to their requests, and every end of it is a Failure."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import Any, cast

import pytest

from sordini.cli.broker_connection import Address, BrokerConnection, Disconnected, NotServed, _reason
from sordini.cli.common.options import Failure
from sordini.protocol import schema
from sordini.protocol.api import APIS, ApiKey
from sordini.protocol.errors import ErrorCode, WireError
from sordini.protocol.headers import RequestHeader, read_rest_of_header, request_header_version, response_header
from sordini.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from sordini.protocol.messages.metadata import MetadataRequest, MetadataResponse

Answer = Callable[[RequestHeader], bytes | None]


class Peer:
    """The other end of a connection without a socket: answers each request as it is written."""

    def __init__(self, answer: Answer) -> None:
        self.reader = asyncio.StreamReader()
        self.asked: list[RequestHeader] = []
        self.is_closed = False
        self._answer = answer

    def write(self, data: bytes) -> None:
        frame = memoryview(data)[4:]
        assert len(frame) == struct.unpack_from(">i", data)[0]
        key, version = struct.unpack_from(">hh", frame)
        correlation_id, client_id, _ = read_rest_of_header(frame, request_header_version(APIS[key], version))
        header = RequestHeader(key, version, correlation_id, client_id)
        self.asked.append(header)
        body = self._answer(header)
        if body is None:
            self.reader.feed_eof()
        else:
            self.reader.feed_data(struct.pack(">i", len(body)) + body)

    async def drain(self) -> None:
        pass

    def close(self) -> None:
        self.is_closed = True

    def link(self) -> BrokerConnection:
        return BrokerConnection(Address("h", 1), self.reader, cast("asyncio.StreamWriter", self))


def answered(header: RequestHeader, message: Any, version: int | None = None) -> bytes:
    api = APIS[header.api_key]
    written = header.api_version if version is None else version
    return response_header(api, written, header.correlation_id) + schema.encode(message, written)


def serving(newest_metadata: int, *, oldest: bool = False) -> Answer:
    """A broker whose ApiVersions is of version 0 when it is an old one."""

    def answer(header: RequestHeader) -> bytes:
        if header.api_key == ApiKey.METADATA:
            return answered(header, MetadataResponse(controller_id=7))
        if oldest and header.api_version > 0:
            return answered(header, ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION), 0)
        row = ApiVersion(api_key=ApiKey.METADATA, min_version=0, max_version=newest_metadata)
        return answered(header, ApiVersionsResponse(api_keys=[row]))

    return answer


@pytest.mark.parametrize("oldest", [False, True])
async def test_a_request_goes_out_in_the_newest_version_that_both_know(oldest: bool) -> None:
    for newest, at_most, expected in [(5, None, 5), (99, None, APIS[ApiKey.METADATA].max_version), (99, 4, 4)]:
        peer = Peer(serving(newest, oldest=oldest))
        link = peer.link()
        await link._negotiate()
        answer: MetadataResponse = await link.ask(MetadataRequest(topics=None), at_most=at_most)
        assert answer.controller_id == 7
        assert peer.asked[-1].api_version == expected
        assert [header.api_version for header in peer.asked[:-1]] == ([3, 0] if oldest else [3])


async def test_what_a_broker_does_not_know_is_not_sent() -> None:
    peer = Peer(serving(-1))
    link = peer.link()
    await link._negotiate()
    with pytest.raises(NotServed, match="h:1 does not serve Metadata requests"):
        await link.ask(MetadataRequest(topics=None))
    assert len(peer.asked) == 1


@pytest.mark.parametrize(
    ("body", "kind", "said"),
    [
        (None, Disconnected, "closed the connection before it answered"),
        (b"\x00\x00\x00\x09" + bytes(20), Failure, "cannot be read: answer 9 to request 2"),
        (b"\x00\x00\x00\x02\x00\xff\xff\xff\xff", Failure, "cannot be read"),
        (b"", Failure, "cannot be read: an answer of 0 bytes"),
    ],
)
async def test_an_answer_that_does_not_come_or_is_not_ours_ends_the_connection(
    body: bytes | None, kind: type[Failure], said: str
) -> None:
    serve = serving(12)
    peer = Peer(lambda header: serve(header) if header.api_key == ApiKey.API_VERSIONS else body)
    link = peer.link()
    await link._negotiate()
    with pytest.raises(kind, match=said) as raised:
        await link.ask(MetadataRequest(topics=None))
    assert type(raised.value) is kind
    assert peer.is_closed or body is None


async def test_another_protocol_s_first_bytes_are_no_length() -> None:
    peer = Peer(lambda _: b"")
    peer.reader.feed_data(b"HTTP/1.1 400 Bad Request")
    with pytest.raises(WireError, match="an answer of 1213486160 bytes"):
        await peer.link()._negotiate()
    assert peer.is_closed


async def test_a_request_that_is_given_up_half_way_ends_the_connection() -> None:
    peer = Peer(lambda _: b"")
    peer.write = lambda _: None  # type: ignore[method-assign]
    link = peer.link()
    asking = asyncio.ensure_future(link._negotiate())
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert peer.is_closed


def test_the_system_s_reasons_are_said_in_small_letters() -> None:
    assert _reason(ConnectionRefusedError(111, "Connect call failed ('127.0.0.1', 1)")) == "connection refused"
    assert _reason(OSError(-2, "Name or service not known")) == "name or service not known"
