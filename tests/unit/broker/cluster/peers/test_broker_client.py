"""Links to other brokers: on loopback sockets and, byte for byte, on the simulated network."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordini.broker.cluster.peers.broker_client import BrokerClient, BrokerClientLimits, BrokerClients
from sordini.broker.network.ports import SocketOptions
from sordini.broker.network.sockets import SystemNetwork
from sordini.client import connection
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from sordini.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from sordini.protocol.types import BrokerId
from sordini.replication.ports import Unreachable
from sordini.testing.simulation.simulated_network import SimNetwork
from sordini.testing.simulation.simulated_pipe import LinkRules
from sordini.testing.simulation.trace import Trace
from sordini.testing.simulation.virtual_loop import SimLoop, elapse, run
from tests.support.scripted_peer import Asked, ScriptedPeer, framed, response

OTHER = BrokerId(2)
REQUEST = HeartbeatRequest(group_id="g")
LONG_MS = 60_000
LIMITS = BrokerClientLimits()


def pong(asked: Asked) -> bytes:
    return response(asked, HeartbeatResponse(error_code=7))


def fetched(records: bytes) -> FetchResponse:
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[PartitionData(records=records)])])


class Bench:
    """Peers and links of one test on loopback."""

    def __init__(self) -> None:
        self.network = SystemNetwork()
        self.peers: list[ScriptedPeer] = []
        self.links: list[BrokerClient] = []

    def peer(self, script: Callable[[Asked], bytes | None] = pong, port: int = 0) -> ScriptedPeer:
        self.peers.append(ScriptedPeer(self.network, script, port))
        return self.peers[-1]

    def link(self, limits: BrokerClientLimits = LIMITS) -> BrokerClient:
        """To whichever peer is the newest by the time that it connects."""
        links = BrokerClients(self.network, lambda _: self.peers[-1].address if self.peers else None, limits)
        self.links.append(links.link(OTHER, "broker-1-fetcher-0"))
        return self.links[-1]

    def close(self) -> None:
        for link in self.links:
            link.close()
        for peer in self.peers:
            peer.close()


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    made = Bench()
    yield made
    made.close()


async def test_requests_are_sent_in_the_given_version_with_rising_correlation_ids(bench: Bench) -> None:
    peer, link = bench.peer(), bench.link()
    for version in (3, 4):
        answer = await link.ask(REQUEST, version, LONG_MS)
        assert answer == HeartbeatResponse(error_code=7)
    assert [(asked.key, asked.version, asked.correlation_id, asked.client_id) for asked in peer.asked] == [
        (ApiKey.HEARTBEAT, 3, 1, "broker-1-fetcher-0"),
        (ApiKey.HEARTBEAT, 4, 2, "broker-1-fetcher-0"),
    ]
    assert peer.accepted == 1


async def test_a_link_connects_when_it_is_first_used_and_not_before(bench: Bench) -> None:
    link = bench.link()
    with pytest.raises(Unreachable, match="broker 2: its address is not known"):
        await link.ask(REQUEST, 4, LONG_MS)
    bench.peer()
    assert await link.ask(REQUEST, 4, LONG_MS)


@pytest.mark.parametrize(
    "size",
    [connection.HEAD_BYTES - 60, connection.HEAD_BYTES, 100_000, connection.GROWTH_BYTES, 5_000_000],
)
async def test_records_of_any_size_arrive_whole(bench: Bench, size: int) -> None:
    records = bytes(range(256)) * (size // 256 + 1)
    bench.peer(lambda asked: response(asked, fetched(records[:size])))
    link = bench.link()
    for _ in range(2):
        answer = await link.ask(FetchRequest(), 12, LONG_MS)
        assert answer.responses[0].partitions[0].records == records[:size]


async def test_records_that_are_kept_are_not_changed_by_later_responses(bench: Bench) -> None:
    sizes = iter((100, 50_000, 100, 50_000))
    bench.peer(lambda asked: response(asked, fetched(bytes([asked.correlation_id]) * next(sizes))))
    link = bench.link()
    kept = [(await link.ask(FetchRequest(), 12, LONG_MS)).responses[0].partitions[0].records for _ in range(4)]
    assert [set(bytes(records)) for records in kept] == [{1}, {2}, {3}, {4}]


async def test_a_response_beyond_the_limit_is_refused_before_it_is_received(bench: Bench) -> None:
    peer = bench.peer(lambda asked: framed(bytes(2_000))[:100])
    link = bench.link(BrokerClientLimits(response_bytes_max=1_999))
    with pytest.raises(Unreachable, match="a response of 2000 bytes, the limit is 1999"):
        await link.ask(REQUEST, 4, LONG_MS)
    await peer.until(lambda: not peer._sockets)


async def test_a_peer_that_announces_much_and_sends_little_costs_little(bench: Bench) -> None:
    peer = bench.peer(lambda asked: framed(asked.correlation_id.to_bytes(4, "big") + bytes(90_000_000))[:20_000])
    link = bench.link()
    asking = asyncio.create_task(link.ask(REQUEST, 4, LONG_MS))
    await peer.until(lambda: bool(peer.asked))
    opened = link._connection
    assert opened is not None
    received = opened._protocol
    while received._filled < 20_000 - 4:  # noqa: ASYNC110 - what is under way comes by the loop.
        await asyncio.sleep(0)
    assert received._body is not None
    assert len(received._body) <= 2 * connection.GROWTH_BYTES
    link.close()
    with pytest.raises(Unreachable):
        await asking


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (framed(b"\0\0") + bytes(2), "a response of 2 bytes"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "a response of 1213486160 bytes"),
        (framed(b"\0\0\0\x09" + bytes(10)), "response 9 where 1 was due"),
        (framed(b"\0\0\0\x01" + b"\0"), "cannot be read"),
        (framed(b"\0\0\0\x01" + bytes(20)) + b"more", "more bytes than the response"),
    ],
)
async def test_what_is_no_answer_ends_the_connection(bench: Bench, answer: bytes, reason: str) -> None:
    peer = bench.peer(lambda asked: answer)
    with pytest.raises(Unreachable, match=reason):
        await bench.link().ask(REQUEST, 4, LONG_MS)
    await peer.until(lambda: not peer._sockets)


async def test_bytes_that_belong_to_no_request_end_the_connection(bench: Bench) -> None:
    peer, link = bench.peer(), bench.link()
    await link.ask(REQUEST, 4, LONG_MS)
    peer.say(framed(b"\0\0\0\x02" + bytes(8)))
    await peer.until(lambda: not peer._sockets)
    assert await link.ask(REQUEST, 4, LONG_MS)
    assert peer.accepted == 2


@pytest.mark.parametrize("reset", [False, True])
async def test_a_connection_that_breaks_under_a_request_is_unreachable_and_the_next_request_connects_again(
    bench: Bench, reset: bool
) -> None:
    peer = bench.peer(lambda asked: pong(asked) if peer.accepted > 1 else peer.hang_up(reset=reset))
    link = bench.link()
    with pytest.raises(Unreachable, match=r"broker 2 at 127\.0\.0\.1"):
        await link.ask(REQUEST, 4, LONG_MS)
    assert await link.ask(REQUEST, 4, LONG_MS)


async def test_a_connection_that_broke_half_way_through_a_response_gives_nothing_of_it(bench: Bench) -> None:
    peer = bench.peer(lambda asked: response(asked, fetched(bytes(100_000)))[:70_000])
    link = bench.link()
    asking = asyncio.create_task(link.ask(FetchRequest(), 12, LONG_MS))
    await peer.until(lambda: bool(peer.asked))
    peer.hang_up()
    with pytest.raises(Unreachable):
        await asking


async def test_a_connection_that_ended_while_it_was_idle_is_not_used(bench: Bench) -> None:
    peer, link = bench.peer(), bench.link()
    await link.ask(REQUEST, 4, LONG_MS)
    peer.hang_up()
    while link._connection is not None and link._connection.is_open:  # noqa: ASYNC110 - the end comes by the loop.
        await asyncio.sleep(0)
    assert await link.ask(REQUEST, 4, LONG_MS)


async def test_the_address_is_looked_up_for_each_connection(bench: Bench) -> None:
    first, link = bench.peer(), bench.link()
    await link.ask(REQUEST, 4, LONG_MS)
    second = bench.peer()
    first.close()
    bench.peers.remove(first)
    while link._connection is not None and link._connection.is_open:  # noqa: ASYNC110 - the end comes by the loop.
        await asyncio.sleep(0)
    await link.ask(REQUEST, 4, LONG_MS)
    assert len(second.asked) == 1


async def test_an_address_without_a_listener_is_unreachable(bench: Bench) -> None:
    bench.peer().close()
    bench.links.append(BrokerClients(bench.network, lambda _: bench.peers[0].address).link(OTHER, "1"))
    with pytest.raises(Unreachable, match=r"refused"):
        await bench.links[-1].ask(REQUEST, 4, LONG_MS)
    bench.peers.clear()


async def test_closing_a_link_ends_the_call_under_way_and_it_may_be_used_again(bench: Bench) -> None:
    peer = bench.peer(lambda asked: pong(asked) if len(peer.asked) > 1 else None)
    link = bench.link()
    asking = asyncio.create_task(link.ask(REQUEST, 4, LONG_MS))
    await peer.until(lambda: bool(peer.asked))
    link.close()
    with pytest.raises(Unreachable, match="closed here"):
        await asking
    assert await link.ask(REQUEST, 4, LONG_MS)


async def test_a_cancelled_call_closes_the_connection(bench: Bench) -> None:
    peer = bench.peer(lambda asked: None)
    asking = asyncio.create_task(bench.link().ask(REQUEST, 4, LONG_MS))
    await peer.until(lambda: bool(peer.asked))
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await peer.until(lambda: not peer._sockets)


async def test_a_large_request_leaves_whole(bench: Bench) -> None:
    peer = bench.peer()
    large = HeartbeatRequest(group_id="g", member_id="m" * 30_000)
    link = bench.link()
    await asyncio.gather(link.ask(large, 4, LONG_MS))
    assert peer.asked[0].message.member_id == "m" * 30_000


# The same on virtual time.


class SimBench:
    def __init__(self, seed: int, rules: LinkRules | None = None) -> None:
        self.loop = SimLoop(seed)
        self.network = SimNetwork(self.loop, Trace(self.loop), seed, rules)

    def run(self, main: Callable[[], object]) -> None:
        async def started() -> None:
            await main()  # type: ignore[misc]
            assert self.loop.stray == []

        run(self.loop, started())

    def link(self, peer: ScriptedPeer, limits: BrokerClientLimits = LIMITS) -> BrokerClient:
        return BrokerClients(self.network, lambda _: peer.address, limits).link(OTHER, "1")


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.lists(st.integers(0, 60_000), min_size=1, max_size=4))
def test_how_the_network_cuts_requests_and_responses_into_pieces_does_not_matter(seed: int, sizes: list[int]) -> None:
    bench = SimBench(seed, LinkRules(short_chance=0.5, capacity=20_000))

    async def main() -> None:
        left = iter(sizes)
        peer = ScriptedPeer(bench.network, lambda asked: response(asked, fetched(bytes([7]) * next(left))))
        link = bench.link(peer)
        for size in sizes:
            answer = await link.ask(FetchRequest(rack_id="r" * 1_000), 12, LONG_MS)
            assert answer.responses[0].partitions[0].records == bytes([7]) * size
        assert peer.accepted == 1
        link.close()

    bench.run(main)


def test_a_late_answer_is_unreachable_and_is_not_taken_for_the_next_one() -> None:
    bench = SimBench(3)

    async def main() -> None:
        def script(asked: Asked) -> bytes | None:
            if peer.accepted > 1:
                return response(asked, HeartbeatResponse(error_code=2))
            bench.loop.call_later(2, lambda: peer.say(response(asked, HeartbeatResponse(error_code=1))))
            return None

        peer = ScriptedPeer(bench.network, script)
        link = bench.link(peer)
        started = bench.loop.time()
        with pytest.raises(Unreachable, match="gave no answer within 1 s"):
            await link.ask(REQUEST, 4, 1_000)
        assert 1 <= bench.loop.time() - started < 2
        assert (await link.ask(REQUEST, 4, 1_000)).error_code == 2
        link.close()

    bench.run(main)


def test_an_answer_that_came_while_our_own_loop_stood_still_is_in_time() -> None:
    bench = SimBench(3)

    async def main() -> None:
        peer = ScriptedPeer(bench.network, pong)
        link = bench.link(peer)
        await link.ask(REQUEST, 4, 1_000)
        asking = asyncio.create_task(link.ask(REQUEST, 4, 1_000))
        await peer.until(lambda: len(peer.asked) == 2)
        await asyncio.sleep(0)
        connection_ = link._connection
        assert connection_ is not None
        bench.loop.remove_reader(connection_._socket)  # The loop does not get to the socket before the timer.
        await elapse(5)
        assert (await asking).error_code == 7
        bench.loop.add_reader(connection_._socket, connection_._on_readable)
        link.close()

    bench.run(main)


def test_a_connection_that_is_not_made_in_time_is_unreachable() -> None:
    bench = SimBench(3, LinkRules(delay_least=5.0))

    async def main() -> None:
        peer = ScriptedPeer(bench.network, pong)
        started = bench.loop.time()
        with pytest.raises(Unreachable, match="timed out"):
            await bench.link(peer, BrokerClientLimits(connect_timeout_ms=1_000)).ask(REQUEST, 4, LONG_MS)
        assert bench.loop.time() - started == pytest.approx(1)

    bench.run(main)


def test_closing_a_link_that_connects_ends_the_call_at_once() -> None:
    bench = SimBench(3, LinkRules(delay_least=5.0))

    async def main() -> None:
        link = bench.link(ScriptedPeer(bench.network, pong))
        asking = asyncio.create_task(link.ask(REQUEST, 4, LONG_MS))
        started = bench.loop.time()
        await elapse(0.5)
        link.close()
        with pytest.raises(Unreachable):
            await asking
        assert bench.loop.time() - started == pytest.approx(0.5)

    bench.run(main)


def test_the_death_of_the_asking_process_is_seen_by_the_peer() -> None:
    bench = SimBench(3)

    async def main() -> None:
        peer = ScriptedPeer(bench.network, lambda asked: None)
        process = bench.loop.process("broker 1")
        process.spawn(bench.link(peer).ask(REQUEST, 4, LONG_MS))
        await peer.until(lambda: bool(peer.asked))
        process.kill()
        await peer.until(lambda: not peer._sockets)

    bench.run(main)


def test_a_connection_that_waits_to_be_accepted_outlives_the_process_that_opened_it() -> None:
    bench = SimBench(3)

    async def main() -> None:
        [listener] = bench.network.listen("127.0.0.1", 9092, SocketOptions())
        client = bench.loop.process("broker 1")
        connecting = client.spawn(bench.network.connect(listener.address, SocketOptions(), LONG_MS))
        await connecting
        client.kill()
        accepted = listener.accept()
        assert accepted is not None
        while (count := accepted.recv_into(bytearray(1))) is None:
            await elapse(0.1)
        assert count == 0
        accepted.close()
        listener.close()

    bench.run(main)


class Counting:
    """Rounds that send the first request again so many times."""

    def __init__(self, count: int, *, takes_last: bool = False) -> None:
        self.count = count
        self.is_taken = False
        self.frames: list[bytes] = []
        self._takes_last = takes_last
        self._request = bytearray()

    def on_sent(self, frame: bytearray) -> None:
        self._request = frame

    def on_response(self, frame: memoryview) -> bytearray | None:
        self.frames.append(bytes(frame))
        self.is_taken = self._takes_last or len(self.frames) <= self.count
        return self._request if len(self.frames) <= self.count else None


@pytest.mark.parametrize("takes_last", [False, True])
async def test_rounds_send_again_until_they_end_and_give_back_what_they_do_not_take(
    bench: Bench, *, takes_last: bool
) -> None:
    peer, link = bench.peer(), bench.link()
    rounds = Counting(20, takes_last=takes_last)
    answer = await link.ask(REQUEST, 4, LONG_MS, rounds)
    assert answer == (None if takes_last else HeartbeatResponse(error_code=7))
    assert [asked.correlation_id for asked in peer.asked] == list(range(1, 22))
    assert len(rounds.frames) == 21
    assert await link.ask(REQUEST, 4, LONG_MS) == HeartbeatResponse(error_code=7), "and the connection is as before"


async def test_what_rounds_raise_is_the_callers_and_ends_the_connection(bench: Bench) -> None:
    class Failing(Counting):
        def on_response(self, frame: memoryview) -> bytearray | None:
            if len(self.frames) == 3:
                raise ZeroDivisionError
            return super().on_response(frame)

    peer, link = bench.peer(), bench.link()
    with pytest.raises(ZeroDivisionError):
        await link.ask(REQUEST, 4, LONG_MS, Failing(9))
    assert await link.ask(REQUEST, 4, LONG_MS) == HeartbeatResponse(error_code=7)
    assert peer.accepted == 2


async def test_each_response_of_rounds_has_the_whole_timeout(bench: Bench) -> None:
    peer = bench.peer(lambda asked: pong(asked) if asked.correlation_id < 5 else None)
    link = bench.link()
    began = asyncio.get_running_loop().time()
    with pytest.raises(Unreachable, match=r"gave no answer within 0\.2 s"):
        await link.ask(REQUEST, 4, 200, Counting(9))
    assert asyncio.get_running_loop().time() - began >= 0.199
    assert len(peer.asked) == 5


async def test_rounds_on_a_connection_that_breaks_are_unreachable(bench: Bench) -> None:
    link = bench.link()

    def script(asked: Asked) -> bytes | None:
        if asked.correlation_id == 4:
            link.close()
            return None
        return pong(asked)

    bench.peer(script)
    with pytest.raises(Unreachable):
        await link.ask(REQUEST, 4, LONG_MS, Counting(9))


async def test_a_response_of_rounds_begins_a_new_timeout(bench: Bench) -> None:
    class Slow(Counting):
        def on_response(self, frame: memoryview) -> bytearray | None:
            connection = link._connection
            assert connection is not None
            assert connection._silent_ticks == 0
            connection._silent_ticks = 3  # As if all but the last quarter had passed.
            return super().on_response(frame)

    bench.peer()
    link = bench.link()
    assert await link.ask(REQUEST, 4, LONG_MS, Slow(5)) == HeartbeatResponse(error_code=7)
