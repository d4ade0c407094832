"""One whole frame and an answer at once take the straight slice; whatever else arrives is served as well."""

import asyncio

import pytest

from sordini.broker.network.limits import ConnectionLimits
from tests.support.socket_bench import (
    FETCH,
    METADATA,
    PRODUCE,
    Bench,
    answer,
    is_closed,
    receive,
    receive_tags,
    request,
    send,
    until,
    wrong,
)


async def a_served_client(bench):
    """A connection that is between two frames."""
    client = await bench.connect()
    await send(client, request(tag=0))
    assert await receive_tags(client, 1) == [0]
    return client


async def arrived(bench, received):
    """The broker has received so many bytes on its only connection."""
    await until(lambda: bench.channels()[0].bytes_received == received)


@pytest.mark.parametrize("first", [1, 3, 4, 5, 9])
async def test_a_frame_in_two_pieces_is_served_once_with_the_frame_behind_it(first):
    async with Bench() as bench:
        client = await a_served_client(bench)
        whole = request(tag=1) + request(tag=2)
        await send(client, whole[:first])
        await arrived(bench, len(request()) + first)
        assert bench.server.memory.held_bytes == first
        await send(client, whole[first:])
        assert await receive_tags(client, 2) == [1, 2]
        assert bench.service.served == [0, 1, 2]
        assert bench.server.memory.held_bytes == 0


async def test_two_frames_and_the_beginning_of_a_third_are_served_as_they_are_whole():
    async with Bench() as bench:
        client = await a_served_client(bench)
        third = request(tag=3)
        await send(client, request(tag=1) + request(tag=2) + third[:7])
        assert await receive_tags(client, 2) == [1, 2]
        await send(client, third[7:])
        assert await receive_tags(client, 1) == [3]


async def test_a_frame_as_large_as_the_buffer_and_one_larger_are_served():
    async with Bench() as bench:
        client = await a_served_client(bench)
        for tag, padding in ((1, 64 * 1024 - len(request())), (2, 64 * 1024), (3, 64 * 1024 - len(request()) - 1)):
            await send(client, request(tag=tag, padding=padding))
            assert await receive_tags(client, 1) == [tag]


async def test_the_end_of_the_stream_between_two_frames_closes_the_connection():
    async with Bench() as bench:
        client = await a_served_client(bench)
        client.shutdown(1)
        assert await is_closed(client)
        await until(lambda: not bench.channels())


async def test_the_end_of_the_stream_behind_a_request_leaves_its_answer():
    async with Bench() as bench:
        client = await a_served_client(bench)
        await send(client, request(tag=1))
        client.shutdown(1)
        assert await receive_tags(client, 1) == [1]
        assert await is_closed(client)


async def test_an_answer_that_does_not_fit_the_socket_is_sent_before_the_next_one():
    async with Bench() as bench:
        client = await a_served_client(bench)
        bench.service.answers[1] = answer(1, padding=6_000_000)
        await send(client, request(tag=1))
        await until(lambda: bench.channels()[0]._transport.queued_bytes)
        await send(client, request(tag=2))
        assert await receive_tags(client, 2) == [1, 2]


async def test_a_connection_that_is_closed_while_its_request_is_served_gets_no_answer():
    async with Bench() as bench:
        client = await a_served_client(bench)

        def closing():
            bench.channels()[0].close()
            return [answer(1)]

        bench.service.answers[1] = closing
        await send(client, request(tag=1))
        assert await is_closed(client)
        other = await bench.connect()
        await send(other, request(tag=2))
        assert await receive_tags(other, 1) == [2]


@pytest.mark.parametrize(("api", "started"), [(PRODUCE, [0, 1, 2]), (FETCH, [0, 1])])
async def test_a_parked_request_is_answered_before_the_one_behind_it(api, started):
    async with Bench() as bench:
        client = await a_served_client(bench)
        bench.service.park_tags = {1}
        await send(client, request(api, tag=1))
        await until(lambda: 1 in bench.service.parked)
        await send(client, request(PRODUCE, tag=2))
        await arrived(bench, 3 * len(request()))
        assert bench.service.served == started
        bench.service.parked[1].resolve([answer(1)])
        assert await receive_tags(client, 2) == [1, 2]


async def test_a_request_of_another_connection_does_not_change_a_frame_that_is_kept():
    async with Bench() as bench:
        kept = []
        serve = bench.service.serve

        def keeping(peer, frame):
            kept.append(frame)
            return serve(peer, frame)

        bench.service.serve = keeping
        clients = [await bench.connect() for _ in range(3)]
        for _ in range(2):
            for tag, client in enumerate(clients):
                await send(client, request(tag=tag))
                assert await receive_tags(client, 1) == [tag]
        assert [bytes(frame) for frame in kept] == [request(tag=tag)[4:] for tag in (0, 1, 2) * 2]


async def test_one_buffer_serves_all_connections_when_no_frame_is_kept():
    async with Bench() as bench:
        clients = [await a_served_client(bench) for _ in range(6)]
        (before,) = {id(processor.buffer) for processor in bench.server._processors[:1]}
        for client in clients:
            await send(client, request(tag=5))
            assert await receive_tags(client, 1) == [5]
        assert id(bench.server._processors[0].buffer) == before
        assert all(processor.pool.abandoned == 0 for processor in bench.server._processors)


async def test_a_length_that_is_refused_closes_the_connection_behind_a_served_frame():
    async with Bench(connection_limits=ConnectionLimits(frame_bytes_max=100)) as bench:
        for refused in (request(padding=101), bytes(4), b"\xff\xff\xff\xff", b"GET / HTTP/1.1\r\n"):
            client = await a_served_client(bench)
            await send(client, refused)
            assert await is_closed(client)


async def test_a_wrong_request_closes_its_connection_and_the_line_names_its_api():
    async with Bench() as bench:
        client = await a_served_client(bench)
        bench.service.answers[1] = wrong("nonsense")
        await send(client, request(METADATA, tag=1))
        assert await is_closed(client)
        ((event, fields),) = bench.log.at("warning")
        assert (event, fields["api"]) == ("connection closed", "METADATA")


async def test_a_bug_in_a_handler_closes_its_connection_only():
    async with Bench() as bench:
        client, other = await a_served_client(bench), await a_served_client(bench)
        bench.service.answers[1] = RuntimeError("a bug")
        await send(client, request(tag=1))
        assert await is_closed(client)
        await send(other, request(tag=2))
        assert await receive_tags(other, 1) == [2]


async def test_a_request_without_an_answer_leaves_the_connection_as_it_was():
    async with Bench() as bench:
        client = await a_served_client(bench)
        bench.service.answers[1] = lambda: None
        await send(client, request(PRODUCE, tag=1))
        await until(lambda: bench.service.served == [0, 1])
        await send(client, request(tag=2))
        assert await receive(client, len(answer(2))) == answer(2)


async def test_a_busy_connection_is_not_idle_and_its_bytes_are_counted():
    async with Bench(connection_limits=ConnectionLimits(idle_ms_max=5_000)) as bench:
        client = await a_served_client(bench)
        for tag in (1, 2, 3):
            await bench.pass_time(3_000)
            await send(client, request(tag=tag))
            assert await receive_tags(client, 1) == [tag]
        assert sum(processor.traffic[0] for processor in bench.server._processors) == 4 * len(request())
        assert sum(processor.traffic[1] for processor in bench.server._processors) == 4 * len(answer(0))
        await bench.pass_time(6_000)
        assert await is_closed(client)


async def test_a_drained_connection_starts_nothing_more():
    async with Bench() as bench:
        client = await a_served_client(bench)
        bench.channels()[0].drain()
        await send(client, request(tag=1))
        await asyncio.sleep(0)
        assert await is_closed(client)
        assert bench.service.served == [0]
