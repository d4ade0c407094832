"""Peers that mean harm, or speak something else."""

import asyncio
import struct

import pytest

from sordini.broker.network.limits import ConnectionLimits, NetworkLimits
from tests.support.alone import resident_peak_bytes
from tests.support.socket_bench import METADATA, Bench, answer, is_closed, receive_tags, request, send, until

MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("hello", "reason"),
    [
        (struct.pack(">i", -1), "declares -1 bytes"),
        (struct.pack(">i", 0), "declares 0 bytes"),
        (struct.pack(">i", 2**31 - 1), "socket.request.max.bytes is 104857600"),
        (struct.pack(">i", 100 * MIB + 1), "declares 104857601 bytes"),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "look like HTTP"),
        (bytes.fromhex("16030100c8010000c4"), "look like TLS"),
    ],
)
async def test_a_wrong_first_frame_is_refused_with_one_line(hello, reason):
    async with Bench() as bench:
        client, other = await bench.connect(), await bench.connect()
        await send(client, hello)
        assert await is_closed(client)
        ((event, fields),) = bench.log.at("warning")
        assert event == "connection closed"
        assert fields["peer"] == f"127.0.0.1:{client.getsockname()[1]}"
        assert reason in fields["reason"]
        await send(other, request(tag=1))
        assert await receive_tags(other, 1) == [1]


async def test_a_wrong_length_behind_good_requests_closes_after_they_were_served():
    async with Bench() as bench:
        client = await bench.connect()
        await send(client, request(tag=1) + struct.pack(">i", -5))
        assert await receive_tags(client, 1) == [1]
        assert await is_closed(client)


async def cost_of_announcements():
    async with Bench() as bench:
        before = resident_peak_bytes()
        clients = [await bench.connect() for _ in range(100)]
        for client in clients:
            await send(client, struct.pack(">i", 100 * MIB) + bytes(10))
        await until(lambda: bench.server.memory.held_bytes == 100 * 14)
        cost = resident_peak_bytes() - before
        other = await bench.connect()
        await send(other, request(tag=1))
        assert await receive_tags(other, 1) == [1]
        return cost


def run_announcements():
    return asyncio.run(cost_of_announcements())


def test_a_hundred_peers_that_announce_100_mib_and_send_10_bytes_cost_what_they_sent(alone):
    assert alone(run_announcements) < 16 * MIB


async def test_20_000_pipelined_requests_of_a_sleeping_reader_wait_in_its_own_buffers():
    limits = ConnectionLimits(queued_bytes_max=MIB)
    async with Bench(connection_limits=limits) as bench:
        client = await bench.connect(receive_buffer=4096)
        for tag in range(20_000):
            bench.service.answers[tag] = answer(tag, padding=10_000)
        stream = memoryview(b"".join(request(tag=tag) for tag in range(20_000)))
        await until(lambda: bench.server.quotas.total)
        (channel,) = bench.channels()
        while stream:
            try:
                stream = stream[client.send(stream) :]
            except BlockingIOError:
                break
            await bench.pass_time(0)
            held = channel._transport.queued_bytes + channel._reader.held_bytes
            assert held <= MIB + 10_100 + 64 * 1024
        await until(lambda: channel._transport.queued_bytes >= MIB)
        served = len(bench.service.served)
        assert served < 20_000
        other = await bench.connect()
        await send(other, request(tag=30_000))
        assert await receive_tags(other, 1) == [30_000]
        assert len(bench.service.served) == served + 1, "nothing was started for the sleeper meanwhile"
        first = await receive_tags(client, 500)
        assert first == list(range(500)), "it receives the rest when it reads again"


async def test_a_slow_first_request_is_closed_where_a_deadline_is_configured():
    async with Bench(connection_limits=ConnectionLimits(first_request_ms_max=10_000)) as bench:
        slow, quick = await bench.connect(), await bench.connect()
        await send(slow, request(tag=1)[:-1])
        await send(quick, request(tag=2))
        assert await receive_tags(quick, 1) == [2]
        await until(lambda: bench.server.memory.held_bytes)
        await bench.pass_time(9_000)
        assert bench.server.quotas.total == 2
        await bench.pass_time(2_000)
        assert bench.server.quotas.total == 1
        assert "no request within 10000 ms" in bench.log.at("info")[0][1]["reason"]


async def test_a_frame_that_trickles_in_is_closed_where_a_rate_is_configured():
    async with Bench(connection_limits=ConnectionLimits(frame_bytes_per_s_min=1024)) as bench:
        slow, quick, idle = await bench.connect(), await bench.connect(), await bench.connect()
        await until(lambda: bench.server.quotas.total == 3)
        large = request(tag=1, padding=20_000)
        for start in range(0, 8_000, 2_000):
            await send(quick, large[start : start + 2_000])
            await until(lambda: bench.server.memory.held_bytes == start + 2_000)  # noqa: B023 - awaited at once.
            await bench.pass_time(1_000)
        assert bench.server.quotas.total == 3, "2 kB/s is enough, and so is nothing at all at a frame's border"
        await send(slow, large[:100])
        await until(lambda: bench.server.memory.held_bytes == 8_100)
        await send(quick, large[8_000:])
        assert await receive_tags(quick, 1) == [1]
        await bench.pass_time(3_000)
        assert await is_closed(slow)
        assert bench.server.quotas.total == 2
        await send(idle, request(tag=3))
        assert await receive_tags(idle, 1) == [3]


async def test_at_the_memory_cap_unfinished_requests_stop_and_all_of_them_finish_in_the_end():
    limits = NetworkLimits(request_memory_bytes_max=MIB)
    async with Bench(limits) as bench:
        clients = [await bench.connect() for _ in range(8)]
        frames = [request(METADATA, tag=tag, padding=MIB) for tag in range(8)]
        for client, frame in zip(clients, frames, strict=True):
            await send(client, frame[:300_000])
        await until(lambda: bench.server.memory.waiting_count >= 3)
        other = await bench.connect()
        await send(other, request(tag=99))
        assert await receive_tags(other, 1) == [99], "a small request is served all the same"
        assert bench.server.memory.held_bytes < 3 * MIB
        for tag, client in enumerate(clients):
            remainder = memoryview(frames[tag])[300_000:]
            client.setblocking(False)
            while remainder:
                try:
                    remainder = remainder[client.send(remainder) :]
                except BlockingIOError:
                    await bench.pass_time(1)
            assert bench.server.memory.held_bytes < 4 * MIB
        for tag, client in enumerate(clients):
            assert await receive_tags(client, 1) == [tag]
        assert bench.server.memory.held_bytes == 0
        assert bench.server.memory.waiting_count == 0


async def test_a_peer_that_closes_inside_a_frame_frees_its_memory():
    async with Bench() as bench:
        client = await bench.connect()
        await send(client, request(tag=1, padding=MIB)[:500_000])
        await until(lambda: bench.server.memory.held_bytes >= 500_000)
        client.close()
        await until(lambda: bench.server.quotas.total == 0)
        assert bench.server.memory.held_bytes == 0


async def test_at_the_memory_cap_silent_connections_are_closed_with_a_line_and_a_small_request_never_waits():
    limits = NetworkLimits(request_memory_bytes_max=4 * MIB)
    async with Bench(limits) as bench:
        hoarders = [await bench.connect() for _ in range(4)]
        for hoarder in hoarders:
            await send(hoarder, request(METADATA, tag=1, padding=8 * MIB)[: MIB + 64 * 1024])
        await until(lambda: bench.server.memory.held_bytes >= 4 * MIB)
        small = await bench.connect()
        await send(small, request(tag=2, padding=MIB - 100))
        assert await receive_tags(small, 1) == [2]
        await bench.pass_time(10_000)
        assert bench.server.memory.held_bytes < 4 * MIB
        assert bench.server.memory.waiting_count == 0
        lines = [fields for event, fields in bench.log.at("warning") if event == "connection closed"]
        assert lines
        assert all("queued.max.request.bytes" in fields["reason"] for fields in lines)
        large = await bench.connect()
        await send(large, request(tag=3, padding=2 * MIB))
        assert await receive_tags(large, 1) == [3]
