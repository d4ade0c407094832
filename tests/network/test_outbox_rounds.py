"""Answers that are held back to the end of a busy round: sent like any other, and released when they cannot be."""

import asyncio
import contextlib
import os
import struct

import pytest

from sordini.broker.network.outbox import AT_ONCE_MAX
from tests.support.fake_ports import Bench, FakeFile, FakeSlice, receive, receive_tags, request, reset, send, until

SLICE_BYTES = 50_000


@pytest.fixture
def file(tmp_path):
    with contextlib.closing(FakeFile(tmp_path / "segment.log", os.urandom(SLICE_BYTES))) as file:
        yield file


async def until_answers_are_held_back(client):
    for _ in range(AT_ONCE_MAX):
        await send(client, request(tag=0))
        assert await receive_tags(client, 1) == [0]


async def test_pipelined_answers_leave_in_order_when_some_are_held_back():
    async with Bench() as bench:
        client = await bench.connect()
        count = AT_ONCE_MAX + 100
        await send(client, b"".join(request(tag=tag) for tag in range(count)))
        assert await receive_tags(client, count) == list(range(count))


async def test_many_connections_that_wait_for_each_answer_all_get_theirs():
    async with Bench() as bench:
        clients = [await bench.connect() for _ in range(12)]

        async def ask(client):
            for tag in range(60):
                await send(client, request(tag=tag))
                assert await receive_tags(client, 1) == [tag]

        await asyncio.gather(*(ask(client) for client in clients))


async def test_a_held_back_slice_is_sent_and_released(file):
    async with Bench() as bench:
        client = await bench.connect()
        await until_answers_are_held_back(client)
        held = FakeSlice(file, 0, SLICE_BYTES)
        bench.service.answers[9] = [struct.pack(">iI", 4 + SLICE_BYTES, 9), held]
        await send(client, request(tag=9))
        received = await receive(client, 8 + SLICE_BYTES)
        assert received[8:] == file.read_at(0, SLICE_BYTES)
        await until(lambda: held.released)


async def test_a_held_back_slice_is_released_when_its_connection_ends_first(file):
    async with Bench() as bench:
        client = await bench.connect()
        await until_answers_are_held_back(client)
        held = FakeSlice(file, 0, SLICE_BYTES)

        def answer_and_close():
            for channel in bench.channels():
                asyncio.get_running_loop().call_soon(channel.close)
            return [struct.pack(">iI", 4 + SLICE_BYTES, 9), held]

        bench.service.answers[9] = answer_and_close
        await send(client, request(tag=9))
        await until(lambda: held.released)
        reset(client)
