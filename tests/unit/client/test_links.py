"""A link: versions are negotiated, responses belong to their requests, and every end of it is a ClientError."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from sordini.broker.network.ports import SocketOptions
from sordini.client.addresses import Address
from sordini.client.cluster import Link, open_link
from sordini.client.cluster_core import Access
from sordini.client.errors import (
    ClientError,
    Disconnected,
    InvalidLength,
    InvalidResponse,
    NotServed,
    Unreachable,
    reason_of,
)
from sordini.client.ports import Socket
from sordini.protocol import codecs
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from sordini.protocol.messages.metadata import MetadataRequest, MetadataResponse
from sordini.protocol.served_apis import APIS
from sordini.testing.simulation.simulated_network import SimNetwork
from sordini.testing.simulation.trace import Trace
from sordini.testing.simulation.virtual_loop import SimLoop, run
from tests.support.response_headers import response_header
from tests.support.scripted_peer import Asked, ScriptedPeer, framed

Answer = Callable[[Asked], bytes | None]
"""The response without its length, or None: the broker closes the connection."""
ADDRESS = Address("h", 1)
ACCESS = Access((ADDRESS,), "me")


Open = Callable[[], Awaitable[Link]]


def with_broker(
    answer: Answer, test: Callable[[ScriptedPeer, Open], Awaitable[None]], *, with_length: bool = True
) -> None:
    """Run a test at a scripted broker on the simulated network."""
    loop = SimLoop(1)
    network = SimNetwork(loop, Trace(loop), 1)

    async def main() -> None:
        def script(asked: Asked) -> bytes | None:
            body = answer(asked)
            if body is None:
                peer.hang_up()
                return None
            return framed(body) if with_length else body

        peer = ScriptedPeer(network, script)

        async def connect(_address: Address) -> Socket:
            return await network.connect(peer.address, SocketOptions(), 1_000)

        async def opened() -> Link:
            return await open_link(ADDRESS, ACCESS, connect)

        await test(peer, opened)
        peer.close()

    run(loop, main())


def answered(asked: Asked, message: Any, version: int | None = None) -> bytes:
    written = asked.version if version is None else version
    return response_header(APIS[asked.key], written, asked.correlation_id) + codecs.encode(message, written)


def serving(newest_metadata: int, *, oldest: bool = False) -> Answer:
    """A broker whose ApiVersions is of version 0 when it is an old one."""

    def answer(asked: Asked) -> bytes:
        if asked.key == ApiKey.METADATA:
            return answered(asked, MetadataResponse(controller_id=7))
        if oldest and asked.version > 0:
            return answered(asked, ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION), 0)
        row = ApiVersion(api_key=ApiKey.METADATA, min_version=0, max_version=newest_metadata)
        return answered(asked, ApiVersionsResponse(api_keys=[row]))

    return answer


@pytest.mark.parametrize("oldest", [False, True])
@pytest.mark.parametrize(
    ("newest", "at_most", "expected"),
    [(5, None, 5), (99, None, APIS[ApiKey.METADATA].max_version), (99, 4, 4)],
)
def test_a_request_goes_out_in_the_newest_version_that_both_know(
    newest: int, at_most: int | None, expected: int, oldest: bool
) -> None:
    async def test(peer: ScriptedPeer, opened: Open) -> None:
        link = await opened()
        answer: MetadataResponse = await link.ask(MetadataRequest(topics=None), at_most=at_most)
        link.close()
        assert answer.controller_id == 7
        assert peer.asked[-1].version == expected
        assert [asked.version for asked in peer.asked[:-1]] == ([3, 0] if oldest else [3])

    with_broker(serving(newest, oldest=oldest), test)


def test_a_request_that_the_broker_does_not_know_is_not_sent() -> None:
    async def test(peer: ScriptedPeer, opened: Open) -> None:
        link = await opened()
        with pytest.raises(NotServed, match="h:1 does not serve Metadata requests"):
            await link.ask(MetadataRequest(topics=None))
        link.close()
        assert len(peer.asked) == 1

    with_broker(serving(-1), test)


@pytest.mark.parametrize(
    ("body", "kind", "text"),
    [
        (None, Disconnected, "closed the connection before it answered"),
        (b"\x00\x00\x00\x09" + bytes(20), InvalidResponse, "h:1 sent response 9 where 2 was due"),
        (b"\x00\x00\x00\x02\x00\xff\xff\xff\xff", InvalidResponse, "h:1 sent a response that cannot be read"),
        (b"", InvalidLength, "h:1 sent a response of 0 bytes"),
    ],
)
def test_a_response_that_is_missing_or_of_another_request_ends_the_connection(
    body: bytes | None, kind: type[ClientError], text: str
) -> None:
    serve = serving(12)

    async def test(peer: ScriptedPeer, opened: Open) -> None:
        link = await opened()
        with pytest.raises(kind, match=text) as raised:
            await link.ask(MetadataRequest(topics=None))
        assert type(raised.value) is kind
        await peer.until(lambda: not peer._sockets)
        with pytest.raises(Disconnected):
            await link.ask(MetadataRequest(topics=None))

    with_broker(lambda asked: serve(asked) if asked.key == ApiKey.API_VERSIONS else body, test)


def test_the_first_bytes_of_another_protocol_are_no_length() -> None:
    async def test(peer: ScriptedPeer, opened: Open) -> None:
        with pytest.raises(Unreachable, match="does not answer as a broker does: is this a plaintext Kafka listener"):
            await opened()
        await peer.until(lambda: not peer._sockets)

    with_broker(lambda _asked: b"HTTP/1.1 400 Bad Request\r\n\r\n", test, with_length=False)


def test_a_request_that_is_cancelled_ends_the_connection() -> None:
    serve = serving(12)

    async def test(peer: ScriptedPeer, opened: Open) -> None:
        link = await opened()
        peer._script = lambda _asked: None
        asking = asyncio.ensure_future(link.ask(MetadataRequest(topics=None)))
        await peer.until(lambda: len(peer.asked) == 2)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await peer.until(lambda: not peer._sockets)

    with_broker(serve, test)


def test_the_reasons_of_the_system_begin_with_a_small_letter() -> None:
    assert reason_of(ConnectionRefusedError(111, "Connect call failed ('127.0.0.1', 1)")) == "connection refused"
    assert reason_of(OSError(-2, "Name or service not known")) == "name or service not known"
