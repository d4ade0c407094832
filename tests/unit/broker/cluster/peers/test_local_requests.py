"""A broker that sends requests to itself as another broker would."""

from __future__ import annotations

import asyncio

import pytest

from sordini.broker.cluster.peers.local_requests import LocalRequests
from sordini.broker.network.ports import DelayedResponse, Parts, Peer
from sordini.protocol import codecs
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import WireError
from sordini.protocol.headers import read_request_header
from sordini.protocol.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from sordini.protocol.served_apis import APIS
from sordini.replication.ports import Unreachable
from tests.support.response_headers import response_header
from tests.support.unit_broker import a_peer

REQUEST = ControlledShutdownRequest(broker_id=1, broker_epoch=9)
ANSWER = ControlledShutdownResponse(error_code=7)


class Service:
    """Answers at once, or when a test resolves it."""

    def __init__(self) -> None:
        self.pending: DelayedResponse | None = None
        self.abandoned = False
        self.asked: list[object] = []

    def parts(self) -> Parts:
        body = response_header(APIS[ApiKey.CONTROLLED_SHUTDOWN], 3, 0) + codecs.encode(ANSWER, 3)
        return [bytearray(len(body).to_bytes(4, "big")), body]

    def serve(self, peer: Peer, frame: memoryview) -> Parts | DelayedResponse:
        header, position = read_request_header(frame)
        request, _ = codecs.decode(ControlledShutdownRequest, header.api_version, frame, position)
        self.asked.append((peer.listener, header.client_id, request))
        return self.parts() if self.pending is None else self.pending


async def test_an_answer_at_once_comes_back_as_a_message() -> None:
    service = Service()
    assert await LocalRequests(service, a_peer("BROKERS"), "1").ask(REQUEST, 3) == ANSWER
    assert service.asked == [("BROKERS", "1", REQUEST)]


@pytest.mark.parametrize("is_early", [True, False])
async def test_an_answer_that_comes_later_is_waited_for(is_early: bool) -> None:
    service = Service()
    service.pending = DelayedResponse()
    if is_early:
        service.pending.resolve(service.parts())
    asking = asyncio.create_task(LocalRequests(service, a_peer(), "1").ask(REQUEST, 3))
    await asyncio.sleep(0)
    if not is_early:
        assert not asking.done()
        service.pending.resolve(service.parts())
    assert await asking == ANSWER


async def test_a_cancelled_request_abandons_its_pending_answer() -> None:
    service = Service()
    given_up = asyncio.Event()
    service.pending = DelayedResponse(given_up.set)
    asking = asyncio.create_task(LocalRequests(service, a_peer(), "1").ask(REQUEST, 3))
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert given_up.is_set()


async def test_what_would_close_a_connection_is_unreachable() -> None:
    class Refusing(Service):
        def serve(self, peer: Peer, frame: memoryview) -> Parts | DelayedResponse:
            raise WireError("not on this listener")

    with pytest.raises(Unreachable, match="not on this listener"):
        await LocalRequests(Refusing(), a_peer(), "1").ask(REQUEST, 3)
