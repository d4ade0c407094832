"""A client connection with several requests in flight, over a pair of sockets."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from typing import Any

import pytest

from sordini.client.connection import ClientConnection
from sordini.client.errors import Disconnected, InvalidResponse
from sordini.client.pipelined_connection import PipelinedConnection
from sordini.client.sockets import StreamSocket
from sordini.protocol import codecs
from sordini.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

LENGTH = struct.Struct(">i")
VERSION = 1


class Peer:
    """The other end: it reads whole requests, and answers when the test says so."""

    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected

    async def requests(self, count: int) -> list[int]:
        """The correlation ids of the next requests."""
        found = []
        for _ in range(count):
            (size,) = LENGTH.unpack(await self._read(LENGTH.size))
            frame = await self._read(size)
            found.append(int.from_bytes(frame[4:8], "big"))
        return found

    async def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            data += await asyncio.get_running_loop().sock_recv(self.socket, size - len(data))
        return data

    async def answer(self, *pairs: tuple[int, int]) -> None:
        """Responses by correlation id and node id, in one write."""
        frames = []
        for correlation_id, node_id in pairs:
            message = FindCoordinatorResponse(node_id=node_id, host="h", port=1)
            body = LENGTH.pack(correlation_id) + codecs.encode(message, VERSION)
            frames.append(LENGTH.pack(len(body)) + body)
        await asyncio.get_running_loop().sock_sendall(self.socket, b"".join(frames))


@pytest.fixture
async def ends() -> AsyncIterator[tuple[PipelinedConnection, Peer]]:
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.setblocking(False)
    connection = PipelinedConnection(StreamSocket(ours), ClientConnection("test", 1_000_000))
    yield connection, Peer(theirs)
    connection.close()
    theirs.close()


def ask(connection: PipelinedConnection, key: str = "g") -> asyncio.Future[Any]:
    return connection.send(FindCoordinatorRequest(key=key), VERSION)


async def test_requests_are_sent_before_earlier_ones_are_answered(ends: tuple[PipelinedConnection, Peer]) -> None:
    connection, peer = ends
    futures = [ask(connection) for _ in range(3)]
    numbers = await peer.requests(3)
    await peer.answer(*((number, index) for index, number in enumerate(numbers)))
    assert [found.node_id for found in await asyncio.gather(*futures)] == [0, 1, 2]


async def test_more_than_the_socket_takes_is_sent_when_there_is_room(ends: tuple[PipelinedConnection, Peer]) -> None:
    connection, peer = ends
    futures = [ask(connection, "k" * 30_000) for _ in range(40)]
    numbers = await peer.requests(40)
    await peer.answer(*((number, number) for number in numbers))
    assert [found.node_id for found in await asyncio.gather(*futures)] == numbers


async def test_a_cancelled_request_gives_its_response_up_and_the_next_one_gets_its_own(
    ends: tuple[PipelinedConnection, Peer],
) -> None:
    connection, peer = ends
    first, second = ask(connection), ask(connection)
    first.cancel()
    numbers = await peer.requests(2)
    await peer.answer((numbers[0], 7), (numbers[1], 8))
    assert (await second).node_id == 8


async def test_all_that_is_in_flight_fails_when_the_peer_closes(ends: tuple[PipelinedConnection, Peer]) -> None:
    connection, peer = ends
    futures = [ask(connection) for _ in range(2)]
    await peer.requests(2)
    peer.socket.close()
    for future in futures:
        with pytest.raises(Disconnected):
            await future
    assert not connection.is_open
    with pytest.raises(Disconnected):
        ask(connection)


async def test_a_response_out_of_order_closes_the_connection(ends: tuple[PipelinedConnection, Peer]) -> None:
    connection, peer = ends
    futures = [ask(connection) for _ in range(2)]
    numbers = await peer.requests(2)
    await peer.answer((numbers[1], 8))
    for future in futures:
        with pytest.raises(InvalidResponse):
            await future
    assert not connection.is_open
