"""The link of programs without an event loop: it connects when it is used, and again after a failure."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from sordini.broker.network.sockets import SystemNetwork
from sordini.client.addresses import Address
from sordini.client.blocking_link import BlockingLink
from sordini.client.errors import Disconnected, NotABroker, NotServed, Unreachable
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from sordini.protocol.messages.find_coordinator import FindCoordinatorRequest
from sordini.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from tests.outside.ports import free_port
from tests.support.scripted_peer import Asked, ScriptedPeer, response

NAMES = [f"{number:03}" + "x" * 30_000 for number in range(60)]
"""A response with these is longer than what is taken before a session is open."""


def answer(asked: Asked) -> bytes | None:
    if asked.key is ApiKey.API_VERSIONS:
        row = ApiVersion(api_key=ApiKey.METADATA, min_version=0, max_version=7)
        return response(asked, ApiVersionsResponse(api_keys=[row]))
    if asked.message.topics == []:
        return None
    return response(asked, MetadataResponse(topics=[MetadataResponseTopic(name=name) for name in NAMES]))


@pytest.fixture
async def peer() -> AsyncIterator[ScriptedPeer]:
    made = ScriptedPeer(SystemNetwork(), answer)
    yield made
    made.close()


def link_to(peer: ScriptedPeer, timeout_s: float = 30.0) -> BlockingLink:
    return BlockingLink(Address(*peer.address), "me", timeout_s)


async def test_requests_share_one_connection_that_the_first_one_opens(peer: ScriptedPeer) -> None:
    link = link_to(peer)
    assert not link.is_open
    for _ in range(2):
        found = await asyncio.to_thread(link.ask, MetadataRequest(topics=None), at_most=5)
        assert [topic.name for topic in found.topics] == NAMES
    assert link.is_open
    assert [asked.version for asked in peer.asked] == [3, 5, 5]
    assert peer.accepted == 1
    link.close()
    assert not link.is_open


async def test_a_response_that_does_not_come_in_time_closes_the_connection_and_the_next_request_opens_one(
    peer: ScriptedPeer,
) -> None:
    link = link_to(peer)
    with pytest.raises(Disconnected, match=f"{link.address} gave no answer within 0.1 s"):
        await asyncio.to_thread(link.ask, MetadataRequest(topics=[]), timeout_s=0.1)
    assert not link.is_open
    assert await asyncio.to_thread(link.ask, MetadataRequest(topics=None))
    assert peer.accepted == 2
    link.close()


async def test_what_the_broker_does_not_serve_is_not_sent(peer: ScriptedPeer) -> None:
    link = link_to(peer)
    with pytest.raises(NotServed, match=f"{link.address} does not serve FindCoordinator requests"):
        await asyncio.to_thread(link.ask, FindCoordinatorRequest())
    assert len(peer.asked) == 1


async def test_an_address_without_a_listener_is_unreachable() -> None:
    link = BlockingLink(Address("127.0.0.1", free_port()), "me", 5.0)
    with pytest.raises(Unreachable, match=f"cannot reach {link.address}: connection refused"):
        await asyncio.to_thread(link.ask, MetadataRequest())
    assert not link.is_open


async def test_a_connection_on_which_no_session_begins_is_closed() -> None:
    peer = ScriptedPeer(SystemNetwork(), lambda _asked: b"HTTP/1.1 400 Bad Request\r\n\r\n")
    link = link_to(peer)
    with pytest.raises(NotABroker, match="does not answer as a broker does") as caught:
        await asyncio.to_thread(link.ask, MetadataRequest())
    await peer.until(lambda: not peer._sockets)
    assert caught.value
    peer.close()
