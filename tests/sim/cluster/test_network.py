"""Links between hosts are cut in one direction or both, and heal with everything that was under way."""

from __future__ import annotations

import asyncio

import pytest

from sordini.broker.network.ports import SocketOptions
from sordini.testing.simulation.cluster_network import ClusterNetwork
from sordini.testing.simulation.simulated_network import SimSocket
from sordini.testing.simulation.trace import Trace
from sordini.testing.simulation.virtual_loop import SimLoop, run

ADDRESS = ("b", 9092)


async def _pair(network: ClusterNetwork) -> tuple[SimSocket, SimSocket]:
    """A connection from host a to host b: both ends."""
    b = network.loop.process("b.1")

    async def listen() -> object:
        return network.listen(*ADDRESS, SocketOptions(0, 0, 5, 0))[0]

    listener = await b.spawn(listen())
    client = await network.loop.process("a.1").spawn(network.connect(ADDRESS))
    return client, listener.accept()  # type: ignore[attr-defined]


def _arrived(socket: SimSocket) -> bytes:
    return bytes(socket.inward.arrived)


def test_a_cut_in_one_direction_holds_back_that_direction_until_it_heals():
    loop = SimLoop(1)
    network = ClusterNetwork(loop, Trace(loop), 1)

    async def story() -> None:
        client, server = await _pair(network)
        network.cut("a", "b", 2.0)
        client.send(b"to b")
        server.send(b"to a")
        await asyncio.sleep(1.5)
        assert (_arrived(server), _arrived(client)) == (b"", b"to a")
        await asyncio.sleep(1.0)
        assert _arrived(server) == b"to b"

    run(loop, story())


@pytest.mark.parametrize("link", [("a", "b"), ("b", "a")])
def test_a_connection_is_not_made_while_either_direction_is_cut(link: tuple[str, str]):
    loop = SimLoop(1)
    network = ClusterNetwork(loop, Trace(loop), 1)

    async def story() -> None:
        await _pair(network)
        network.cut(*link, 2.0)
        began, a = loop.time(), loop.process("a.2")
        with pytest.raises(TimeoutError):
            await a.spawn(network.connect(ADDRESS, None, 1_000))
        assert loop.time() - began == pytest.approx(1.0)
        await a.spawn(network.connect(ADDRESS, None, 5_000))
        assert 2.0 <= loop.time() - began < 3.0

    run(loop, story())


def test_a_cut_leaves_other_links_alone():
    loop = SimLoop(1)
    network = ClusterNetwork(loop, Trace(loop), 1)

    async def story() -> None:
        client, server = await _pair(network)
        network.cut("a", "c", 9.0)
        network.cut("c", "b", 9.0)
        client.send(b"to b")
        await asyncio.sleep(1.0)
        assert _arrived(server) == b"to b"
        assert network.sockets_between("a", "b") == [client]
        client.close()
        assert network.sockets_between("a", "b") == []

    run(loop, story())
