"""Which connections there may be, and how they end."""

import asyncio
import contextlib
import errno
import os
import resource
import socket

import pytest

from sordini.broker.network.limits import UNBOUNDED, ConnectionLimits, NetworkLimits
from sordini.broker.network.listener import Listener
from sordini.broker.network.ports import SocketOptions
from sordini.broker.network.sockets import SystemNetwork
from tests.support.linux_calls import needs_linux_calls
from tests.support.socket_bench import FETCH, Bench, answer, is_closed, receive, receive_tags, request, send, until


async def is_served(client, tag=1):
    await send(client, request(tag=tag))
    return await receive_tags(client, 1) == [tag]


async def test_connections_go_to_the_processors_round_robin():
    async with Bench(NetworkLimits(processors=3)) as bench:
        for _ in range(7):
            assert await is_served(await bench.connect())
        assert [processor.connections for processor in bench.server._processors] == [3, 2, 2]


async def test_at_max_connections_peers_wait_until_a_connection_closes():
    async with Bench(NetworkLimits(connections_max=2)) as bench:
        first, second = await bench.connect(), await bench.connect()
        assert await is_served(first)
        assert await is_served(second)
        waiting = await bench.connect()
        await send(waiting, request(tag=3))
        assert await is_served(first)
        assert bench.server.quotas.total == 2
        second.close()
        assert await receive_tags(waiting, 1) == [3]


async def test_a_listeners_own_bound_does_not_hold_up_another_listener():
    listeners = [
        Listener("NARROW", "127.0.0.1", 0),
        Listener("WIDE", "127.0.0.1", 0),
    ]
    async with Bench(NetworkLimits(connections_by_listener={"NARROW": 1}), listeners=listeners) as bench:
        narrow = await bench.connect("NARROW")
        assert await is_served(narrow)
        waiting = await bench.connect("NARROW")
        await send(waiting, request(tag=2))
        assert await is_served(await bench.connect("WIDE"))
        assert bench.server.quotas.total == 2
        narrow.close()
        assert await receive_tags(waiting, 1) == [2]
        other = await bench.connect("NARROW")
        await send(other, request(tag=3))
        assert await is_served(waiting)
        bench.server.limit_connections(NetworkLimits(connections_by_listener={"NARROW": 2}))
        assert await receive_tags(other, 1) == [3]


async def test_the_brokers_own_listener_is_not_held_up_by_max_connections():
    listeners = [Listener("CLIENTS", "127.0.0.1", 0), Listener("BROKERS", "127.0.0.1", 0, is_protected=True)]
    async with Bench(NetworkLimits(connections_max=1), listeners=listeners) as bench:
        assert await is_served(await bench.connect("CLIENTS"))
        assert await is_served(await bench.connect("BROKERS"))


async def test_the_brokers_own_listener_has_its_own_bound():
    listeners = [Listener("CLIENTS", "127.0.0.1", 0), Listener("BROKERS", "127.0.0.1", 0, is_protected=True)]
    async with Bench(NetworkLimits(connections_by_listener={"BROKERS": 1}), listeners=listeners) as bench:
        assert await is_served(await bench.connect("BROKERS"))
        waiting = await bench.connect("BROKERS")
        await send(waiting, request(tag=2))
        for _ in range(3):
            assert await is_served(await bench.connect("CLIENTS"))
        assert bench.server.quotas.of_listener("BROKERS") == 1


async def test_a_processor_owns_a_bounded_number_of_connections():
    async with Bench(NetworkLimits(processors=2, processor_connections_max=1)) as bench:
        first, second = await bench.connect(), await bench.connect()
        assert await is_served(first)
        assert await is_served(second)
        waiting = await bench.connect()
        await send(waiting, request(tag=3))
        assert await is_served(first)
        assert [processor.connections for processor in bench.server._processors] == [1, 1]
        first.close()
        assert await receive_tags(waiting, 1) == [3]


async def test_past_max_connections_per_ip_a_connection_is_closed_at_once():
    async with Bench(NetworkLimits(connections_per_address_max=2)) as bench:
        first, second = await bench.connect(), await bench.connect()
        assert await is_served(first)
        assert await is_served(second)
        assert await is_closed(await bench.connect())
        assert bench.log.at("info")[0][1] == {"address": "127.0.0.1", "reason": "max.connections.per.ip"}
        second.close()
        await until(lambda: bench.server.quotas.total == 1)
        assert await is_served(await bench.connect())


async def test_an_address_may_have_a_bound_of_its_own():
    limits = NetworkLimits(
        connections_per_address_max=UNBOUNDED, connections_per_address_overrides={"127.0.0.1": 0, "::1": 5}
    )
    async with Bench(limits) as bench:
        assert await is_closed(await bench.connect())


async def test_changed_limits_accept_waiting_peers_and_close_no_connection():
    async with Bench(NetworkLimits(connections_max=1)) as bench:
        first = await bench.connect()
        assert await is_served(first)
        waiting = await bench.connect()
        await send(waiting, request(tag=2))
        assert await is_served(first)
        bench.server.limit_connections(NetworkLimits(connections_max=3))
        assert await receive_tags(waiting, 1) == [2]
        bench.server.limit_connections(NetworkLimits(connections_max=3, connections_per_address_max=2))
        assert await is_closed(await bench.connect())
        bench.server.limit_connections(NetworkLimits(connections_max=1))
        assert await is_served(first)
        assert await is_served(waiting)
        third = await bench.connect()
        await send(third, request(tag=3))
        waiting.close()
        await until(lambda: bench.server.quotas.total == 1)
        assert await is_served(first)
        assert bench.server.quotas.total == 1
        first.close()
        assert await receive_tags(third, 1) == [3]


async def test_an_idle_connection_is_closed_and_a_busy_one_is_kept():
    async with Bench(connection_limits=ConnectionLimits(idle_ms_max=600_000)) as bench:
        idle, busy = await bench.connect(), await bench.connect()
        assert await is_served(idle)
        await bench.pass_time(500_000)
        assert await is_served(busy)
        await bench.pass_time(101_000)
        assert await is_closed(idle)
        assert await is_served(busy)
        assert "connections.max.idle.ms" in bench.log.at("info")[0][1]["reason"]


async def test_a_connection_that_waits_for_its_answer_is_not_idle():
    async with Bench(connection_limits=ConnectionLimits(idle_ms_max=60_000)) as bench:
        bench.service.park_tags = {1}
        client = await bench.connect()
        await send(client, request(FETCH, tag=1))
        await until(lambda: bench.service.parked)
        await bench.pass_time(300_000)
        bench.service.parked[1].resolve([answer(1)])
        await bench.pass_time(50_000)
        assert await receive_tags(client, 1) == [1]


async def test_after_a_stall_of_the_loop_what_has_arrived_is_read_before_anything_expires():
    async with Bench(connection_limits=ConnectionLimits(idle_ms_max=60_000)) as bench:
        client = await bench.connect()
        assert await is_served(client)
        await send(client, request(tag=2))
        bench.clock.ms += 100_000  # Nothing ran meanwhile.
        bench.server.tick()
        assert bench.server.quotas.total == 1
        assert await receive_tags(client, 1) == [2]
        await bench.pass_time(10_000)
        assert bench.server.quotas.total == 1


async def test_idle_connections_are_never_closed_where_the_limit_is_off():
    async with Bench(connection_limits=ConnectionLimits(idle_ms_max=-1)) as bench:
        client = await bench.connect()
        assert await is_served(client)
        await bench.pass_time(1_000_000)
        assert await is_served(client)


async def test_without_descriptors_accepting_pauses_and_continues_later(monkeypatch):
    monkeypatch.setattr("sordini.broker.network.acceptor.PAUSE_S", 0.01)
    async with Bench() as bench:
        early = await bench.connect()
        assert await is_served(early)
        late = socket.socket()  # Opened before the descriptors run out.
        late.setblocking(False)
        bench.clients.append(late)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        lowest_free = os.dup(0)
        os.close(lowest_free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
        try:
            await asyncio.get_running_loop().sock_connect(late, bench.server.address("PLAINTEXT"))
            await until(lambda: bench.log.at("warning"))
            assert await is_served(early)
            assert bench.log.at("warning")[0][0] == "accepting paused"
            assert str(errno.EMFILE) in bench.log.at("warning")[0][1]["reason"]
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert await is_served(late)


async def test_a_connection_that_gets_the_descriptor_of_a_broken_one_is_served():
    async with Bench() as bench:
        for _ in range(3):
            broken = await bench.connect()
            await until(lambda: bench.server.quotas.total == 1)
            (channel,) = bench.channels()
            descriptor = channel._socket.fileno()
            await send(broken, b"GET / HTTP/1.1")
            assert await is_closed(broken)
            await until(lambda: bench.server.quotas.total == 0)
            assert not asyncio.get_running_loop().remove_reader(descriptor), "it is still registered"
            successor = await bench.connect()
            assert await is_served(successor)
            successor.close()
            await until(lambda: bench.server.quotas.total == 0)


async def test_a_stop_answers_what_was_started_and_starts_nothing_more():
    async with Bench() as bench:
        bench.service.park_tags = {1}
        bench.service.answers[5] = answer(5, padding=4_000_000)
        parked, idle, reading = [await bench.connect() for _ in range(3)]
        await send(parked, request(FETCH, tag=1) + request(tag=2))
        await send(reading, request(tag=5))
        await until(lambda: bench.service.served.count(1) == bench.service.served.count(5) == 1)
        await until(lambda: bench.server.quotas.total == 3)
        stop = asyncio.create_task(bench.server.close(10_000))
        assert await is_closed(idle)
        bench.service.parked[1].resolve([answer(1)])
        assert await receive_tags(parked, 1) == [1]
        assert await receive(parked, 1) == b""
        assert await receive_tags(reading, 1) == [5]
        assert await receive(reading, 1) == b""
        await stop
        await bench.task
        assert 2 not in bench.service.served
        with pytest.raises(ConnectionRefusedError):
            await bench.connect()


async def test_a_stop_waits_no_longer_than_its_deadline():
    async with Bench() as bench:
        bench.service.park_tags = {1}
        client = await bench.connect()
        await send(client, request(FETCH, tag=1))
        await until(lambda: bench.service.parked)
        await bench.server.close(1)
        assert bench.service.abandoned == [1]
        assert bench.log.at("warning")[0] == ("connections closed with unanswered requests", {"connections": 1})
        assert await is_closed(client)


async def test_an_ipv6_listener_is_served():
    async with Bench(listeners=[Listener("SIX", "::1", 0)]) as bench:
        client = await bench.connect("SIX")
        assert await is_served(client)
        assert str(bench.service.peers[0]) == f"[::1]:{client.getsockname()[1]}"


async def test_a_listener_without_a_host_listens_on_every_address():
    async with Bench(listeners=[Listener("ANY", "", 0)]) as bench:
        port = bench.server.address("ANY")[1]
        for address in ("127.0.0.1", "::1"):
            client = socket.create_connection((address, port))
            client.setblocking(False)
            bench.clients.append(client)
            assert await is_served(client)
        assert [peer.address for peer in bench.service.peers] == ["127.0.0.1", "::1"]


async def test_a_taken_port_stops_the_start_with_its_address():
    async with Bench() as bench:
        port = bench.server.address("PLAINTEXT")[1]
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1 port {port}"):
            SystemNetwork().listen("127.0.0.1", port, SocketOptions())


@needs_linux_calls
async def test_connections_have_the_options_against_delayed_packets_and_half_open_peers():
    options = SocketOptions(send_buffer_bytes=100_000, receive_buffer_bytes=120_000)
    (listening,) = SystemNetwork().listen("127.0.0.1", 0, options)
    with contextlib.closing(socket.create_connection(listening.address)):
        accepted = None
        while accepted is None:
            accepted = listening.accept()
        raw = accepted._socket  # type: ignore[attr-defined]
        tcp = {
            socket.TCP_NODELAY: 1,
            socket.TCP_KEEPIDLE: 60,
            socket.TCP_KEEPINTVL: 10,
            socket.TCP_KEEPCNT: 6,
            socket.TCP_USER_TIMEOUT: 30_000,
        }
        assert {option: raw.getsockopt(socket.IPPROTO_TCP, option) for option in tcp} == tcp
        assert raw.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert raw.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == 2 * 100_000
        assert raw.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) == 2 * 120_000
        accepted.close()
    listening.close()
