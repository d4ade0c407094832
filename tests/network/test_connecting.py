"""Connections that this broker opens: names looked up beside the loop, bounded waiting, nothing left open."""

import asyncio
import contextlib
import socket
import threading
from pathlib import Path

import pytest

from sordini.broker.network.ports import SocketOptions
from sordini.broker.network.sockets import SystemNetwork

OPTIONS = SocketOptions()
LONG_MS = 60_000


async def readable(watched):
    ready = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(watched, ready.set)
    await ready.wait()
    loop.remove_reader(watched)


@pytest.fixture
def network():
    return SystemNetwork()


@pytest.fixture
def listener(network):
    [opened] = network.listen("127.0.0.1", 0, OPTIONS)
    yield opened
    opened.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_bytes_go_both_ways_over_a_connection(network, listener, host):
    port = listener.address[1]
    client = await network.connect((host, port), OPTIONS, LONG_MS)
    await readable(listener)
    server = listener.accept()
    assert client.peer_address == ("127.0.0.1", port)
    assert client.local_address == server.peer_address
    assert client.recv_into(bytearray(1)) is None
    assert client.send(b"there") == 5
    await readable(server)
    buffer = bytearray(10)
    assert server.recv_into(buffer) == 5
    server.close()
    await readable(client)
    assert client.recv_into(buffer) == 0
    client.close()


async def test_ipv6_addresses_may_stand_in_brackets(network):
    [listener] = network.listen("::1", 0, OPTIONS)
    client = await network.connect(("[::1]", listener.address[1]), OPTIONS, LONG_MS)
    assert client.peer_address == ("::1", listener.address[1])
    client.close()
    listener.close()


async def test_a_connection_gets_the_options_against_delayed_packets_and_half_open_peers(network, listener):
    client = await network.connect(listener.address, SocketOptions(user_timeout_ms=12_345), LONG_MS)
    option = client._socket.getsockopt
    assert option(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
    assert option(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    client.close()


async def test_a_port_without_a_listener_is_refused(network, listener):
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        with pytest.raises(ConnectionRefusedError):
            await network.connect(bound.getsockname(), OPTIONS, LONG_MS)


async def test_a_connection_to_itself_counts_as_a_port_without_a_listener(network, monkeypatch):
    # The system may choose the very port that is connected to for the near end, too.
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        address = bound.getsockname()
    opened = socket.socket

    def bound_there(*given):
        made = opened(*given)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        return made

    with monkeypatch.context() as patched:
        patched.setattr(socket, "socket", bound_there)
        with pytest.raises(ConnectionRefusedError):
            await network.connect(address, OPTIONS, LONG_MS)


async def test_a_name_that_does_not_exist_is_an_error_of_the_system(network):
    for host in ("no-such-host.invalid", "label..empty", "x" * 300, "zero\0byte"):
        with pytest.raises(socket.gaierror):
            await network.connect((host, 9092), OPTIONS, LONG_MS)


async def test_each_address_of_a_name_is_tried(network, listener, monkeypatch):
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        found = [
            (socket.AF_INET, None, None, "", bound.getsockname()),
            (socket.AF_INET, None, None, "", listener.address),
        ]
        monkeypatch.setattr(socket, "getaddrinfo", lambda host, port, **_: found)
        client = await network.connect(("a.name", 1), OPTIONS, LONG_MS)
    assert client.peer_address == listener.address
    client.close()


async def test_a_resolver_that_hangs_holds_up_neither_the_loop_nor_more_than_one_thread_a_name(network, monkeypatch):
    released, asked = threading.Event(), []

    def hang(host, port, *, flags, **_):
        if flags:
            raise socket.gaierror(socket.EAI_NONAME, "not an address")
        asked.append(host)
        released.wait(60)
        raise socket.gaierror(socket.EAI_AGAIN, "no answer")

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    with pytest.raises(TimeoutError):
        await network.connect(("slow.name", 9092), OPTIONS, 1)
    waiting = [asyncio.create_task(network.connect(("slow.name", 9092), OPTIONS, LONG_MS)) for _ in range(5)]
    await asyncio.sleep(0)
    released.set()
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(outcome, socket.gaierror) for outcome in outcomes)
    assert asked == ["slow.name"]


async def test_an_unanswered_connection_attempt_ends_in_time_and_leaves_nothing_open(network):
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        async with contextlib.AsyncExitStack() as filling:

            async def connect(timeout_ms):
                client = await network.connect(full.getsockname(), OPTIONS, timeout_ms)
                filling.callback(client.close)

            with pytest.raises(TimeoutError):
                await fill(connect)
            before = open_sockets()
            waiting = asyncio.create_task(connect(LONG_MS))
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            with pytest.raises(TimeoutError):
                await connect(1)
            assert open_sockets() <= before


async def fill(connect):
    """Connect until the backlog is full, whatever the system rounds it up to."""
    for _ in range(20):
        await connect(50)


def open_sockets():
    """By their numbers, which no other socket has had: one that an earlier test has left may be closed meanwhile."""
    links = (entry.readlink() for entry in Path("/proc/self/fd").iterdir() if entry.is_socket())
    return set(links)
