"""Answers that hold slices of files: sent by reference, released on every path."""

import asyncio
import contextlib
import os
import struct
from pathlib import Path

import pytest

from sordini.broker.network.limits import ConnectionLimits
from sordini.broker.network.transport import SLICE_COPIED_BYTES_MAX
from tests.support.fake_ports import FakeFile, FakeSlice
from tests.support.linux_calls import needs_linux_calls
from tests.support.socket_bench import (
    FETCH,
    Bench,
    answer,
    is_closed,
    receive,
    receive_tags,
    request,
    reset,
    send,
    until,
)

SIZE = 3_000_000


@pytest.fixture
def file(tmp_path):
    with contextlib.closing(FakeFile(tmp_path / "segment.log", os.urandom(SIZE))) as file:
        yield file


@pytest.fixture
def other_file(tmp_path):
    with contextlib.closing(FakeFile(tmp_path / "other.log", os.urandom(SIZE))) as file:
        yield file


def fetched(tag, *slices, trailer=b"end"):
    """An answer as a fetch makes it: header, records, what follows them."""
    size = 4 + sum(part.size for part in slices) + len(trailer)
    return [struct.pack(">iI", size, tag), *slices, trailer]


def content(file):
    return Path(file.path).read_bytes()


async def expect(client, file, tag, *ranges):
    expected = b"".join(content(file)[position : position + size] for position, size in ranges) + b"end"
    received = await receive(client, 8 + len(expected))
    assert received == struct.pack(">iI", 4 + len(expected), tag) + expected


async def test_the_newest_records_are_sent_without_reading_the_file(file):
    file.newest = lambda position, size: b"newest"[:size]
    async with Bench() as bench:
        bench.cache.is_warm = None
        slice_ = FakeSlice(file, 100, 6)
        bench.service.answers[1] = fetched(1, slice_)
        client = await bench.connect()
        await send(client, request(FETCH, tag=1))
        assert (await receive(client, 17))[8:] == b"newestend"
        await until(lambda: slice_.released == 1)


@pytest.mark.parametrize("use_sendfile", [True, False])
@pytest.mark.parametrize("ranges", [[(0, SIZE)], [(5, 100)], [(10, SLICE_COPIED_BYTES_MAX + 1), (70_000, 5), (0, 0)]])
async def test_records_leave_between_the_bytes_around_them(file, use_sendfile, ranges):
    async with Bench(use_sendfile=use_sendfile) as bench:
        slices = [FakeSlice(file, *found) for found in ranges]
        bench.service.answers[1] = fetched(1, *slices)
        client = await bench.connect()
        await send(client, request(FETCH, tag=1) + request(tag=2))
        await expect(client, file, 1, *ranges)
        assert await receive_tags(client, 1) == [2]
        assert [part.released for part in slices] == [1] * len(slices)


@needs_linux_calls
async def test_records_of_a_slice_leave_by_sendfile_and_are_not_read_into_the_process(file, monkeypatch):
    """Document 001-02: sendfile moves records from the page cache to the socket."""
    read = []
    monkeypatch.setattr(
        file, "read_at", lambda position, size: read.append(size) or os.pread(file.fileno(), size, position)
    )
    async with Bench(use_sendfile=True) as bench:
        bench.service.answers[1] = fetched(1, FakeSlice(file, 0, SIZE))
        client = await bench.connect()
        await send(client, request(FETCH, tag=1))
        await expect(client, file, 1, (0, SIZE))
    assert read == []


async def test_many_small_slices_and_headers_arrive_in_order(file):
    async with Bench() as bench:
        ranges = [(index * 1000, 20_000 if index % 5 == 0 else 500) for index in range(150)]
        bench.service.answers[1] = fetched(1, *(FakeSlice(file, *found) for found in ranges))
        client = await bench.connect()
        await send(client, request(FETCH, tag=1))
        await expect(client, file, 1, *ranges)


async def test_a_reset_in_the_middle_of_a_slice_releases_it(file):
    async with Bench() as bench:
        slices = [FakeSlice(file, 0, SIZE), FakeSlice(file, 0, 100_000)]
        bench.service.answers[1] = fetched(1, *slices)
        client = await bench.connect(receive_buffer=4096)
        await send(client, request(FETCH, tag=1))
        assert len(await receive(client, 20_000)) == 20_000
        client.close()  # With unread bytes in its buffer, which makes it a reset.
        await until(lambda: bench.server.quotas.total == 0)
        assert [part.released for part in slices] == [1, 1]
        assert not bench.log.at("error")


async def test_a_file_that_was_cut_closes_the_connection_instead_of_spinning(file):
    async with Bench() as bench:
        cut = FakeSlice(file, SIZE - 50_000, 100_000)
        bench.service.answers[1] = fetched(1, cut)
        client = await bench.connect()
        await send(client, request(FETCH, tag=1))
        assert await is_closed(client)
        assert cut.released == 1
        ((event, fields),) = bench.log.at("error")
        assert event == "response truncated"
        assert "segment.log ends before position" in fields["reason"]


@pytest.mark.parametrize("use_sendfile", [True, False])
async def test_an_error_of_the_file_closes_the_connection_and_is_distinguished_from_the_sockets(file, use_sendfile):
    async with Bench(use_sendfile=use_sendfile) as bench:
        broken, behind = FakeSlice(file, 0, 100_000), FakeSlice(file, 0, 10)
        bench.service.answers[1] = fetched(1, broken, behind)
        file.close()
        client, other = await bench.connect(), await bench.connect()
        await send(client, request(FETCH, tag=1))
        assert await is_closed(client)
        assert (broken.released, behind.released) == (1, 1)
        assert [event for event, _ in bench.log.at("error")] == ["response truncated"]
        await send(other, request(tag=2))
        assert await receive_tags(other, 1) == [2]


async def test_a_file_that_cannot_be_read_closes_the_connection_and_names_the_file_not_the_peer(file):
    async with Bench() as bench:
        write_only = os.open(file.path, os.O_WRONLY)
        os.dup2(write_only, file.descriptor)
        os.close(write_only)
        broken = FakeSlice(file, 0, 100_000)
        bench.service.answers[1] = fetched(1, broken)
        client = await bench.connect()
        await send(client, request(FETCH, tag=1))
        assert await is_closed(client)
        assert broken.released == 1
        assert [event for event, _ in bench.log.at("error")] == ["response truncated"]


async def test_a_response_completed_after_the_connection_closed_releases_its_slices(file):
    async with Bench() as bench:
        bench.service.park_tags = {1}
        client = await bench.connect()
        await send(client, request(FETCH, tag=1))
        await until(lambda: 1 in bench.service.parked)
        client.close()
        await until(lambda: bench.service.abandoned == [1])
        late = FakeSlice(file, 0, 10)
        bench.service.parked[1].resolve([b"late", late])
        assert late.released == 1


async def test_a_complete_response_behind_a_pending_one_is_released_when_the_connection_closes(file):
    async with Bench() as bench:
        bench.service.park_tags = {1, 2}
        early, parked = FakeSlice(file, 0, 10), FakeSlice(file, 0, 10)
        bench.service.answers[3] = [b"header", early]
        client = await bench.connect()
        await send(client, b"".join(request(0, tag=tag) for tag in (1, 2, 3)))
        await until(lambda: 3 in bench.service.served)
        bench.service.parked[2].resolve([b"header", parked])
        client.close()
        await until(lambda: bench.server.quotas.total == 0)
        assert (early.released, parked.released) == (1, 1)
        assert bench.service.abandoned == [1]


async def test_cold_records_are_read_ahead_before_they_are_sent(file):
    async with Bench() as bench:
        bench.cache.is_cold = True
        bench.cache.gate = asyncio.Event()
        cold = FakeSlice(file, 0, 600_000)
        bench.service.answers[1] = fetched(1, cold)
        client, other = await bench.connect(), await bench.connect()
        await send(client, request(FETCH, tag=1))
        await until(lambda: bench.cache.warmed)
        await send(other, request(tag=2))
        assert await receive_tags(other, 1) == [2], "others are served while a thread reads"
        bench.cache.gate.set()
        await expect(client, file, 1, (0, 600_000))
        assert bench.cache.warmed == [(0, 262_144), (262_144, 262_144), (524_288, 75_712)]
        assert cold.released == 1


async def test_a_slice_stays_pinned_while_a_thread_reads_it_although_the_connection_closed(file):
    async with Bench() as bench:
        bench.cache.is_cold = True
        bench.cache.gate = asyncio.Event()
        read, behind = FakeSlice(file, 0, 600_000), FakeSlice(file, 0, 600_000)
        bench.service.answers[1] = fetched(1, read, behind)
        client = await bench.connect()
        await send(client, request(FETCH, tag=1))
        await until(lambda: bench.cache.warmed)
        reset(client)
        await until(lambda: bench.server.quotas.total == 0)
        assert (read.released, behind.released) == (0, 1)
        bench.cache.gate.set()
        await until(lambda: read.released == 1)


async def test_before_a_file_is_truncated_connections_that_may_still_send_the_removed_bytes_are_reset(file, other_file):
    async with Bench() as bench:
        below, above = FakeSlice(file, 0, 1_000_000), FakeSlice(file, 0, SIZE)
        elsewhere = FakeSlice(other_file, 0, SIZE)
        for tag, found in ((1, below), (2, above), (3, elsewhere)):
            bench.service.answers[tag] = fetched(tag, found)
        clients = [await bench.connect(receive_buffer=4096) for _ in range(3)]
        for tag, client in enumerate(clients, start=1):
            await send(client, request(FETCH, tag=tag))
        await until(lambda: len(bench.service.served) == 3)
        assert bench.server.reset_holders(file, 1_000_000) == 1
        assert (above.released, elsewhere.released) == (1, 0)
        with contextlib.suppress(ConnectionResetError):
            assert len(await receive(clients[1], SIZE)) < SIZE
        await expect(clients[0], file, 1, (0, 1_000_000))
        await expect(clients[2], other_file, 3, (0, SIZE))


@needs_linux_calls
async def test_bytes_that_were_taken_by_reference_count_until_the_peer_has_them(file):
    async with Bench() as bench:
        taken = FakeSlice(file, 0, 50_000)
        bench.service.answers[1] = fetched(1, taken)
        client = await bench.connect(receive_buffer=4096)
        await send(client, request(FETCH, tag=1))
        await until(lambda: taken.released == 1)
        (channel,) = bench.channels()
        assert channel.may_hold(file, 49_999), "the kernel still sends from the file's pages"
        assert not channel.may_hold(file, 50_000)
        await expect(client, file, 1, (0, 50_000))
        await until(lambda: not channel.may_hold(file, 0))
        assert bench.server.reset_holders(file, 0) == 0


async def test_a_peer_that_does_not_read_its_slice_is_closed_after_a_bounded_wait(file):
    async with Bench(connection_limits=ConnectionLimits(stall_ms_max=30_000)) as bench:
        stuck = FakeSlice(file, 0, SIZE)
        bench.service.answers[1] = fetched(1, stuck)
        client = await bench.connect(receive_buffer=4096)
        await send(client, request(FETCH, tag=1))
        await until(lambda: bench.service.served)
        for _ in range(1_000):  # Copies of a slice are small, and the kernel's buffers take many of them.
            await asyncio.sleep(0)
        await bench.pass_time(29_000)
        assert stuck.released == 0
        await bench.pass_time(4_000)
        assert stuck.released == 1
        assert "nothing could be sent" in bench.log.at("info")[0][1]["reason"]


async def test_a_disk_that_does_not_answer_does_not_hold_a_connection_forever(file):
    async with Bench(connection_limits=ConnectionLimits(stall_ms_max=30_000)) as bench:
        bench.cache.is_cold = True
        bench.cache.gate = asyncio.Event()
        bench.service.answers[1] = fetched(1, FakeSlice(file, 0, 600_000))
        client = await bench.connect()
        await send(client, request(FETCH, tag=1))
        await until(lambda: bench.cache.warmed)
        await bench.pass_time(33_000)
        assert bench.server.quotas.total == 0
        bench.cache.gate.set()


async def test_a_slow_reader_that_does_read_is_kept(file):
    async with Bench(connection_limits=ConnectionLimits(stall_ms_max=3_000)) as bench:
        slow = FakeSlice(file, 0, SIZE)
        bench.service.answers[1] = fetched(1, slow)
        client = await bench.connect(receive_buffer=65536)
        await send(client, request(FETCH, tag=1))
        await until(lambda: bench.service.served)
        (channel,) = bench.channels()
        received = await receive(client, 8)
        while channel._transport.queued_bytes:
            sent = channel._transport.bytes_sent
            while channel._transport.queued_bytes and channel._transport.bytes_sent == sent:
                received += await receive(client, 50_000)
            await bench.pass_time(2_000)
        assert bench.server.quotas.total == 1
        await receive(client, 8 + SIZE + 3 - len(received))


async def test_answers_behind_a_slice_wait_for_it(file):
    async with Bench() as bench:
        bench.service.park_tags = {1}
        client = await bench.connect()
        await send(client, request(0, tag=1) + request(0, tag=2))
        await until(lambda: bench.service.served == [1, 2])
        bench.service.parked[1].resolve(fetched(1, FakeSlice(file, 0, SIZE)))
        await expect(client, file, 1, (0, SIZE))
        assert await receive(client, len(answer(2))) == answer(2)
