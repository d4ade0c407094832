"""Requests in, answers out, in order."""

import asyncio
import socket

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


async def test_a_request_is_answered():
    async with Bench() as bench:
        client = await bench.connect()
        await send(client, request(tag=7))
        assert await receive(client, len(answer(7))) == answer(7)
        peer = bench.service.peers[0]
        assert (peer.listener, peer.security_protocol, peer.address) == ("PLAINTEXT", "PLAINTEXT", "127.0.0.1")
        assert peer.connection_id.endswith(f"-127.0.0.1:{client.getsockname()[1]}-1")


async def test_pipelined_requests_are_answered_in_order():
    async with Bench() as bench:
        client = await bench.connect()
        await send(client, b"".join(request(tag=tag) for tag in range(100)))
        assert await receive_tags(client, 100) == list(range(100))


async def test_a_request_that_arrives_byte_by_byte_is_answered():
    async with Bench() as bench:
        client = await bench.connect()
        for byte in request(tag=5):
            await send(client, bytes([byte]))
            await asyncio.sleep(0)
        assert await receive_tags(client, 1) == [5]


async def test_a_large_request_arrives_whole():
    async with Bench() as bench:
        client = await bench.connect()
        await send(client, request(tag=1, padding=3_000_000) + request(tag=2))
        assert await receive_tags(client, 2) == [1, 2]
        assert bench.server.memory.held_bytes == 0


async def test_a_large_answer_arrives_whole():
    async with Bench() as bench:
        bench.service.answers[1] = answer(1, padding=8_000_000)
        client = await bench.connect()
        await send(client, request(tag=1) + request(tag=2))
        assert await receive_tags(client, 2) == [1, 2]


async def test_a_request_without_an_answer_does_not_hold_up_the_next():
    async with Bench() as bench:
        bench.service.answers[1] = lambda: None
        client = await bench.connect()
        await send(client, request(PRODUCE, tag=1) + request(PRODUCE, tag=2))
        assert await receive_tags(client, 1) == [2]


async def test_a_parked_answer_is_sent_when_it_is_complete():
    async with Bench() as bench:
        bench.service.park_tags = {1}
        client = await bench.connect()
        await send(client, request(FETCH, tag=1))
        await until(lambda: 1 in bench.service.parked)
        bench.service.parked[1].resolve([answer(1)])
        assert await receive_tags(client, 1) == [1]


async def test_nothing_starts_behind_a_parked_fetch():
    async with Bench() as bench:
        bench.service.park_tags = {1}
        client, other = await bench.connect(), await bench.connect()
        await send(client, request(FETCH, tag=1) + request(FETCH, tag=2) + request(PRODUCE, tag=3))
        await until(lambda: 1 in bench.service.parked)
        await send(client, request(METADATA, tag=4))
        await send(other, request(tag=9))
        assert await receive_tags(other, 1) == [9]
        assert bench.service.served == [1, 9]
        bench.service.parked[1].resolve([answer(1)])
        assert await receive_tags(client, 4) == [1, 2, 3, 4]


async def test_produces_start_behind_parked_produces_and_their_answers_keep_the_order():
    async with Bench() as bench:
        bench.service.park_tags = {1, 3}
        client = await bench.connect()
        await send(client, b"".join(request(PRODUCE, tag=tag) for tag in (1, 2, 3)) + request(FETCH, tag=4))
        await until(lambda: bench.service.served == [1, 2, 3])
        bench.service.parked[3].resolve([answer(3)])
        await asyncio.sleep(0)
        assert bench.service.served == [1, 2, 3], "the Fetch waits for every Produce before it"
        bench.service.parked[1].resolve([answer(1)])
        assert await receive_tags(client, 4) == [1, 2, 3, 4]


async def test_the_number_of_parked_produces_on_a_connection_is_bounded():
    async with Bench(connection_limits=ConnectionLimits(pending_max=3)) as bench:
        bench.service.park_tags = set(range(10))
        client, other = await bench.connect(), await bench.connect()
        await send(client, b"".join(request(PRODUCE, tag=tag) for tag in range(10)))
        await until(lambda: len(bench.service.served) == 3)
        await send(other, request(tag=99))
        assert await receive_tags(other, 1) == [99]
        assert bench.service.served == [0, 1, 2, 99]
        for tag in range(10):
            await until(lambda: tag in bench.service.parked)  # noqa: B023 - awaited at once.
            bench.service.parked[tag].resolve([answer(tag)])
        assert await receive_tags(client, 10) == list(range(10))


async def test_an_answer_completed_before_serve_returns_is_sent():
    from sordini.broker.network.ports import DelayedResponse

    def resolved():
        pending = DelayedResponse()
        pending.resolve([answer(1)])
        return pending

    async with Bench() as bench:
        bench.service.answers[1] = resolved
        client = await bench.connect()
        await send(client, request(FETCH, tag=1) + request(tag=2))
        assert await receive_tags(client, 2) == [1, 2]


async def test_an_answer_completed_from_inside_another_request_is_sent():
    async with Bench() as bench:
        bench.service.park_tags = {1}
        waiting, appending = await bench.connect(), await bench.connect()
        await send(waiting, request(FETCH, tag=1) + request(FETCH, tag=3))
        await until(lambda: 1 in bench.service.parked)

        def append():
            bench.service.parked[1].resolve([answer(1)])
            assert bench.service.served == [1, 2], "the waiting connection's next request is not served in here"
            return answer(2)

        bench.service.answers[2] = append
        await send(appending, request(PRODUCE, tag=2))
        assert await receive_tags(appending, 1) == [2]
        assert await receive_tags(waiting, 2) == [1, 3]


async def test_a_flood_on_one_connection_leaves_the_others_their_slices():
    async with Bench(connection_limits=ConnectionLimits(slice_requests_max=4)) as bench:
        flood, other = await bench.connect(), await bench.connect()
        await until(lambda: bench.server.quotas.total == 2)
        # Both arrive before the loop looks again.
        flood.setblocking(True)
        flood.sendall(b"".join(request(tag=tag) for tag in range(1000)))
        other.send(request(tag=5000))
        flood.setblocking(False)
        assert await receive_tags(other, 1) == [5000]
        assert bench.service.served.index(5000) <= 24
        assert await receive_tags(flood, 1000) == list(range(1000))


async def test_a_peer_that_hangs_up_abandons_what_it_waited_for():
    async with Bench() as bench:
        bench.service.park_tags = {1, 2}
        client = await bench.connect()
        await send(client, request(PRODUCE, tag=1) + request(PRODUCE, tag=2))
        await until(lambda: 2 in bench.service.parked)
        client.close()
        await until(lambda: bench.server.quotas.total == 0)
        assert bench.service.abandoned == [1, 2]
        bench.service.parked[1].resolve([answer(1)])


async def test_a_half_closed_peer_gets_the_answers_to_what_it_sent():
    async with Bench(connection_limits=ConnectionLimits(slice_requests_max=2)) as bench:
        bench.service.answers[3] = answer(3, padding=3_000_000)
        client = await bench.connect()
        await send(client, b"".join(request(tag=tag) for tag in range(9)) + b"\0\0")
        client.shutdown(socket.SHUT_WR)
        assert await receive_tags(client, 9) == list(range(9))
        assert await receive(client, 1) == b""
        await until(lambda: bench.server.quotas.total == 0)


async def test_requests_without_answers_are_served_although_the_peer_left_at_once():
    async with Bench() as bench:
        for tag in range(50):
            bench.service.answers[tag] = lambda: None
        client = await bench.connect()
        await send(client, b"".join(request(PRODUCE, tag=tag) for tag in range(50)))
        client.close()
        await until(lambda: bench.server.quotas.total == 0)
        assert bench.service.served == list(range(50))


async def test_a_wire_error_closes_the_connection_with_one_line_naming_peer_api_and_reason():
    async with Bench() as bench:
        bench.service.answers[1] = wrong("evil\nname " + "x" * 1000)
        client, other = await bench.connect(), await bench.connect()
        await send(client, request(PRODUCE, tag=1) + request(tag=2))
        assert await is_closed(client)
        await send(other, request(tag=3))
        assert await receive_tags(other, 1) == [3]
        ((event, fields),) = bench.log.at("warning")
        assert event == "connection closed"
        assert fields["peer"] == f"127.0.0.1:{client.getsockname()[1]}"
        assert fields["api"] == "PRODUCE"
        assert fields["reason"].startswith("evil\\nname xxx")
        assert len(fields["reason"]) == 256
        assert bench.service.served == [1, 3]


async def test_a_bug_in_the_service_closes_that_connection_with_a_traceback():
    async with Bench() as bench:
        bench.service.answers[1] = ZeroDivisionError("a bug")
        client, other = await bench.connect(), await bench.connect()
        await send(client, request(api=999, tag=1))
        assert await is_closed(client)
        await send(other, request(tag=2))
        assert await receive_tags(other, 1) == [2]
        ((_, fields),) = bench.log.at("error")
        assert "ZeroDivisionError: a bug" in fields["traceback"]
        assert fields["api"] == 999


async def test_a_waiter_that_fails_when_it_is_abandoned_does_not_keep_the_others_waiting():
    async with Bench() as bench:
        bench.service.park_tags = {1, 2}
        client = await bench.connect()
        await send(client, request(PRODUCE, tag=1) + request(PRODUCE, tag=2))
        await until(lambda: 2 in bench.service.parked)
        bench.service.parked[1].on_abandon = lambda: 1 / 0
        client.close()
        await until(lambda: bench.server.quotas.total == 0)
        assert bench.service.abandoned == [2]
        assert "ZeroDivisionError" in bench.log.at("error")[0][1]["traceback"]


@pytest.mark.parametrize("when", ["before serve returns", "later", "forwarded"])
async def test_an_answer_that_fails_closes_its_connection_whenever_it_does(when):
    from sordini.broker.network.ports import DelayedResponse

    async with Bench() as bench:
        inner, pending = DelayedResponse(), DelayedResponse()

        def failing():
            if when == "before serve returns":
                pending.fail(ZeroDivisionError("of a response"))
            elif when == "forwarded":
                inner.forward_to(pending)
            return pending

        bench.service.answers[1] = failing
        client = await bench.connect()
        await send(client, request(FETCH, tag=1))
        if when != "before serve returns":
            await until(lambda: 1 in bench.service.served)
            (inner if when == "forwarded" else pending).fail(ZeroDivisionError("of a response"))
        await until(lambda: bench.server.quotas.total == 0)
        assert "of a response" in bench.log.at("error")[0][1]["traceback"]


async def test_a_pending_answer_is_resolved_once():
    from sordini.broker.network.ports import DelayedResponse

    pending = DelayedResponse()
    pending.resolve(None)
    with pytest.raises(AssertionError):
        pending.resolve(None)
