"""Muted connections, and connections that come too fast."""

from __future__ import annotations

from typing import Any

import pytest

from sordini.broker.network.connection_rates import CLOSING_MAX, ConnectionRates
from sordini.broker.network.listener import Listener
from sordini.broker.requests.quotas.rates import RateWindows, WindowedRate
from tests.support.fake_ports import StillClock
from tests.support.socket_bench import PRODUCE, Bench, answer, is_closed, receive_tags, request, send, until


@pytest.mark.parametrize("pipelined", [True, False])
async def test_a_muted_connection_is_answered_and_read_again_when_its_time_is_over(pipelined: bool) -> None:
    async with Bench() as bench:
        muted: list[int] = []

        def mute() -> Any:
            muted.append(1)
            bench.service.peers[0].mute(50)
            return answer(1)

        bench.service.answers[1] = mute
        client, other = await bench.connect(), await bench.connect()
        if pipelined:
            await send(client, request(tag=1) + request(tag=2) + request(tag=3))
        else:
            await send(client, request(tag=1))
        assert await receive_tags(client, 1) == [1]
        if not pipelined:
            await send(client, request(tag=2) + request(tag=3))
        await send(other, request(tag=9))
        assert await receive_tags(other, 1) == [9]
        assert bench.service.served[:2] == [1, 9], "others are served meanwhile"
        assert await receive_tags(client, 2) == [2, 3]
        assert muted == [1]


async def test_a_connection_that_is_muted_twice_is_read_again_after_both() -> None:
    async with Bench() as bench:

        def mute() -> Any:
            for duration_ms in (40, 5):
                bench.service.peers[0].mute(duration_ms)
            return answer(1)

        bench.service.answers[1] = mute
        client = await bench.connect()
        await send(client, request(PRODUCE, tag=1) + request(PRODUCE, tag=2))
        assert await receive_tags(client, 2) == [1, 2]


async def test_a_connection_that_closes_while_it_is_muted_is_forgotten() -> None:
    async with Bench() as bench:

        def mute() -> Any:
            bench.service.peers[0].mute(20)
            return answer(1)

        bench.service.answers[1] = mute
        client = await bench.connect()
        await send(client, request(tag=1))
        assert await receive_tags(client, 1) == [1]
        peer = bench.service.peers[0]
        client.close()
        await until(lambda: bench.server.quotas.total == 0)
        peer.mute(1_000)
        assert bench.server.quotas.total == 0


def rates_of(clock: StillClock, **limits: int) -> ConnectionRates:
    return ConnectionRates(lambda: WindowedRate(RateWindows(11, 1000)), clock.monotonic_ms, **limits)


async def test_connections_above_the_brokers_rate_wait_and_are_accepted_later() -> None:
    async with Bench() as bench:
        clock = StillClock()
        bench.server.quotas.rates = rates_of(clock, per_second_max=1)
        clients = [await bench.connect() for _ in range(12)]
        for tag, client in enumerate(clients[:11]):
            await send(client, request(tag=tag))
            assert await receive_tags(client, 1) == [tag]
        assert bench.server.quotas.total == 11, "ten seconds' worth, and the one that goes beyond it"
        clock.ms += 60_000
        await send(clients[11], request(tag=11))
        assert await receive_tags(clients[11], 1) == [11]


TWO_LISTENERS = [Listener("CLIENTS", "127.0.0.1", 0), Listener("BROKERS", "127.0.0.1", 0, is_protected=True)]


async def test_connections_above_a_listeners_rate_wait_while_another_listener_accepts() -> None:
    async with Bench(listeners=[Listener(name, "127.0.0.1", 0) for name in ("SLOW", "FAST")]) as bench:
        clock = StillClock()
        rates = bench.server.quotas.rates = rates_of(clock)
        rates.per_second_by_listener = {"SLOW": 1, "FAST": 2}
        slow = [await bench.connect("SLOW") for _ in range(12)]
        for tag, client in enumerate(slow[:11]):
            await send(client, request(tag=tag))
            assert await receive_tags(client, 1) == [tag]
        fast = [await bench.connect("FAST") for _ in range(20)]
        for tag, client in enumerate(fast):
            await send(client, request(tag=tag))
            assert await receive_tags(client, 1) == [tag]
        assert bench.server.quotas.of_listener("SLOW") == 11, "ten seconds' worth, and the one beyond it"
        rates.per_second_by_listener = {}
        await send(slow[11], request(tag=11))
        assert await receive_tags(slow[11], 1) == [11]


async def test_the_brokers_rate_holds_up_and_counts_no_connection_between_brokers() -> None:
    async with Bench(listeners=TWO_LISTENERS) as bench:
        bench.server.quotas.rates = rates_of(StillClock(), per_second_max=1)
        brokers = [await bench.connect("BROKERS") for _ in range(15)]
        clients = [await bench.connect("CLIENTS") for _ in range(12)]
        for tag, client in enumerate([*brokers, *clients[:11]]):
            await send(client, request(tag=tag))
            assert await receive_tags(client, 1) == [tag]
        assert bench.server.quotas.of_listener("CLIENTS") == 11


async def test_the_brokers_own_listener_has_its_own_rate() -> None:
    async with Bench(listeners=TWO_LISTENERS) as bench:
        rates = bench.server.quotas.rates = rates_of(StillClock())
        rates.per_second_by_listener = {"BROKERS": 1}
        brokers = [await bench.connect("BROKERS") for _ in range(12)]
        clients = [await bench.connect("CLIENTS") for _ in range(12)]
        for tag, client in enumerate([*brokers[:11], *clients]):
            await send(client, request(tag=tag))
            assert await receive_tags(client, 1) == [tag]
        assert bench.server.quotas.of_listener("BROKERS") == 11


async def test_so_many_connections_wait_to_be_closed_and_no_more() -> None:
    async with Bench() as bench:
        rates = rates_of(StillClock())
        rates.quota_of = {"127.0.0.1": 0.0}.get
        rates.closing = CLOSING_MAX
        bench.server.quotas.rates = rates
        client = await bench.connect()
        assert await is_closed(client)
        assert (rates.throttled, rates.closing) == (1, CLOSING_MAX)


async def test_connections_of_an_address_above_its_quota_are_closed_after_a_pause() -> None:
    async with Bench() as bench:
        clock = StillClock()
        rates = rates_of(clock)
        rates.quota_of = {"127.0.0.1": 1.0}.get
        bench.server.quotas.rates = rates
        clients = [await bench.connect() for _ in range(11)]
        await send(clients[0], request(tag=1))
        assert await receive_tags(clients[0], 1) == [1]
        assert await is_closed(clients[10])
        assert (rates.throttled, rates.closing) == (1, 0)
        assert bench.server.quotas.total == 10
        rates.quota_of = lambda _: None
        client = await bench.connect()
        await send(client, request(tag=2))
        assert await receive_tags(client, 1) == [2]
