"""What the simulated loop gives an application: connections, names, threads, blocking calls, time and randomness."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import socket
import threading
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator
from typing import cast

import pytest

from sordini.broker.network.ports import SocketOptions
from sordini.testing.simulation.app_loop import AppLoop
from sordini.testing.simulation.app_transport import AppTransport
from sordini.testing.simulation.cluster_network import ClusterNetwork
from sordini.testing.simulation.not_simulated import NotSimulated
from sordini.testing.simulation.replaced_modules import machine_replaced
from sordini.testing.simulation.trace import Trace

HOST = "broker-1"


class Site:
    """A host that returns what it gets, in capitals, and a process of an application."""

    def __init__(self, seed: int = 1) -> None:
        self.loop = AppLoop(seed, steps_max=1_000_000)
        self.network = self.loop.network = ClusterNetwork(self.loop, Trace(self.loop), seed)
        self.network.hosts.add(HOST)
        self.app = self.loop.process("app-1.1")
        self.accepted: list[AppTransport] = []

    def run(self, work: Callable[[], Awaitable[object]]) -> object:
        async def both() -> object:
            await self.loop.process(f"{HOST}.1").spawn(self._listen())
            return await self.app.spawn(work())

        with machine_replaced(self.loop, 1):
            try:
                return self.loop.run_until_complete(both())
            finally:
                self.loop.finish()

    async def _listen(self) -> None:
        listening = self.network.listen(HOST, 9092, SocketOptions())[0]

        def accept() -> None:
            reader = asyncio.StreamReader()
            protocol = asyncio.StreamReaderProtocol(reader)
            transport = AppTransport(self.loop, listening.accept(), protocol)
            self.accepted.append(transport)
            task = self.loop.create_task(self._echo(transport, protocol, reader))
            task.add_done_callback(lambda _: None)

        self.loop.add_reader(listening, accept)

    async def _echo(self, transport, protocol, reader) -> None:
        await transport.open()
        writer = asyncio.StreamWriter(transport, protocol, reader, self.loop)
        with contextlib.suppress(OSError):
            while data := await reader.read(1_000):
                writer.write(data.upper())
                await writer.drain()
            writer.close()


@pytest.fixture
def site() -> Iterator[Site]:
    return Site()


def test_streams_carry_bytes_in_both_directions_and_end(site: Site) -> None:
    async def work() -> None:
        reader, writer = await asyncio.open_connection(HOST, 9092)
        writer.write(b"hello ")
        writer.write(b"world")
        writer.write_eof()
        assert await reader.read() == b"HELLO WORLD"
        assert writer.get_extra_info("peername") == (HOST, 9092)
        writer.close()
        await writer.wait_closed()

    site.run(work)


def test_a_megabyte_passes_through_bounded_buffers(site: Site) -> None:
    async def work() -> None:
        reader, writer = await asyncio.open_connection(HOST, 9092)

        async def send() -> None:
            for _ in range(64):
                writer.write(b"x" * 16_384)
                await writer.drain()
            writer.write_eof()

        _, received = await asyncio.gather(send(), reader.read())
        assert received == b"X" * (1 << 20)
        writer.close()

    site.run(work)


def test_a_host_that_does_not_exist_cannot_be_resolved(site: Site) -> None:
    async def work() -> None:
        with pytest.raises(socket.gaierror, match="broker-1"):
            await asyncio.open_connection("kafka.example.com", 9092)
        loop = asyncio.get_running_loop()
        assert (await loop.getaddrinfo(HOST, 9092))[0][4] == (HOST, 9092)

    site.run(work)


def test_a_port_where_nothing_listens_refuses(site: Site) -> None:
    async def work() -> None:
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(HOST, 1)

    site.run(work)


@pytest.mark.parametrize("what", ["tls", "server", "datagrams"])
def test_what_is_not_simulated_is_refused_by_name(site: Site, what: str) -> None:
    async def work() -> None:
        loop = asyncio.get_running_loop()
        attempts: dict[str, Callable[[], Awaitable[object]]] = {
            "tls": lambda: asyncio.open_connection(HOST, 9092, ssl=True),
            "server": lambda: asyncio.start_server(lambda *_: None, "0.0.0.0", 80),
            "datagrams": lambda: loop.create_datagram_endpoint(asyncio.DatagramProtocol),
        }
        with pytest.raises(NotSimulated):
            await attempts[what]()

    site.run(work)


def test_a_connection_that_is_reset_ends_with_the_error_of_a_socket(site: Site) -> None:
    async def work() -> None:
        reader, _ = await asyncio.open_connection(HOST, 9092)
        for opened in site.network.connections(site.app):
            opened.reset()
        with pytest.raises(ConnectionResetError):
            await reader.read()

    site.run(work)


def test_the_streams_of_a_killed_process_are_closed(site: Site) -> None:
    # From Python 3.13 on an open one would complain when it is collected.
    other = site.loop.process("app-2.1")
    held: list[asyncio.StreamWriter] = []

    async def hold() -> None:
        _, writer = await asyncio.open_connection(HOST, 9092)
        held.append(writer)
        await asyncio.Event().wait()

    async def work() -> None:
        other.spawn(hold())
        await asyncio.sleep(1)
        assert not held[0].is_closing()
        other.kill()
        assert held[0].is_closing()

    site.run(work)


def test_over_a_cut_link_bytes_arrive_when_it_heals(site: Site) -> None:
    async def work() -> float:
        reader, writer = await asyncio.open_connection(HOST, 9092)
        site.network.cut("app-1", HOST, 7.0)
        began = time.monotonic()
        writer.write(b"late")
        assert await reader.readexactly(4) == b"LATE"
        writer.close()
        return time.monotonic() - began

    assert 7.0 <= site.run(work) < 8.5


def test_a_reader_that_pauses_receives_later(site: Site) -> None:
    async def work() -> None:
        reader, writer = await asyncio.open_connection(HOST, 9092)
        transport = cast("AppTransport", writer.transport)
        transport.pause_reading()
        writer.write(b"abc")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.readexactly(3), 5)
        transport.resume_reading()
        assert await reader.readexactly(3) == b"ABC"
        writer.close()

    site.run(work)


def test_sleeping_costs_virtual_time_only(site: Site) -> None:
    async def work() -> tuple[float, float]:
        began, wall = time.monotonic(), time.time()
        await asyncio.sleep(3_600)
        return time.monotonic() - began, time.time() - wall

    real = time.monotonic()
    monotonic, wall = site.run(work)
    assert monotonic == pytest.approx(3_600, abs=0.1)
    assert wall == pytest.approx(3_600, abs=0.1)
    assert time.monotonic() - real < 5


def test_a_thread_takes_time_while_the_loop_runs_on(site: Site) -> None:
    async def work() -> list[str]:
        order = []

        def slow() -> str:
            time.sleep(2)
            return "slow"

        async def tick() -> None:
            await asyncio.sleep(1)
            order.append("tick")

        ticking = asyncio.create_task(tick())
        began = time.monotonic()
        order.append(await asyncio.to_thread(slow))
        assert 2 <= time.monotonic() - began < 3
        await ticking
        return order

    assert site.run(work) == ["tick", "slow"]
    assert site.loop.longest_block == (0.0, "")


def test_an_exception_in_a_thread_is_raised_where_it_is_awaited(site: Site) -> None:
    async def work() -> None:
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(lambda: 1 / 0)

    site.run(work)


def test_a_blocking_call_stops_its_process_and_no_other(site: Site) -> None:
    other = site.loop.process("app-2.1")

    async def work() -> tuple[list[float], float, float]:
        ticks: list[float] = []

        async def tick() -> None:
            while True:
                await asyncio.sleep(1)
                ticks.append(time.monotonic())

        own_ticks: list[float] = []

        async def own() -> None:
            while True:
                await asyncio.sleep(1)
                own_ticks.append(time.monotonic())

        other.spawn(tick())
        mine = asyncio.create_task(own())
        await asyncio.sleep(0.5)
        began = time.monotonic()
        time.sleep(10)  # noqa: ASYNC251 - what is tested.
        after = time.monotonic()
        assert after - began == pytest.approx(10, abs=0.01)
        assert not [at for at in own_ticks if at > began]
        await asyncio.sleep(0)
        mine.cancel()
        assert not [at for at in own_ticks if began < at < after]
        return ticks, began, after

    ticks, began, after = site.run(work)
    assert len([at for at in ticks if began < at < after]) == 10
    assert site.loop.longest_block[1] == "app-1.1"


def test_what_a_blocked_process_sends_leaves_when_the_call_returns(site: Site) -> None:
    async def work() -> float:
        reader, writer = await asyncio.open_connection(HOST, 9092)
        began = time.monotonic()
        time.sleep(4)  # noqa: ASYNC251 - what is tested.
        writer.write(b"x")
        await reader.readexactly(1)
        writer.close()
        return time.monotonic() - began

    assert site.run(work) >= 4


def test_time_and_randomness_are_the_seeds_and_are_given_back(site: Site) -> None:
    before = time.time, time.monotonic, time.sleep, os.urandom, random.getstate()

    async def work() -> tuple[object, ...]:
        return random.random(), uuid.uuid4(), os.urandom(4), time.time()

    first = site.run(work)
    assert (time.time, time.monotonic, time.sleep, os.urandom, random.getstate()) == before
    assert Site().run(work) == first


def test_other_threads_keep_the_machines_clock(site: Site) -> None:
    async def work() -> tuple[float, float]:
        asked.set()
        other.join()
        return seen[0], time.time()

    seen: list[float] = []
    asked = threading.Event()
    other = threading.Thread(target=lambda: (asked.wait(60), seen.append(time.time())))
    other.start()
    theirs, ours = site.run(work)
    assert abs(theirs - time.time()) < 60
    assert ours != pytest.approx(theirs, abs=60)


def test_code_that_polls_without_a_pause_comes_to_the_next_timer(site: Site) -> None:
    async def work() -> None:
        over = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(0.5, over.set_result, None)
        while not over.done():  # noqa: ASYNC110 - what is tested.
            await asyncio.sleep(0)

    site.run(work)
