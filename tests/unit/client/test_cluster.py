"""The asyncio client of a cluster on the simulated network: links that are shared, and attempts that are repeated."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from sordini.broker.network.ports import SocketOptions
from sordini.client.addresses import Address
from sordini.client.cluster import Cluster
from sordini.client.cluster_core import Access
from sordini.client.errors import ClientError, Disconnected, InvalidResponse, Refused, Unreachable
from sordini.client.ports import Socket
from sordini.client.retries import RetryRules
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from sordini.protocol.messages.find_coordinator import FindCoordinatorResponse
from sordini.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from sordini.testing.simulation.simulated_network import SimNetwork
from sordini.testing.simulation.trace import Trace
from sordini.testing.simulation.virtual_loop import SimLoop, run
from tests.support.scripted_peer import Asked, ScriptedPeer, response

BROKER_ID = 7
DOWN = Address("down", 1)
SERVED = {ApiKey.METADATA: 5, ApiKey.FIND_COORDINATOR: 2}


class Bench:
    """One broker, and a cluster that is reached through it."""

    def __init__(self, loop: SimLoop) -> None:
        self._network = SimNetwork(loop, Trace(loop), 1)
        self.peer = ScriptedPeer(self._network, self._answer)
        self.address = Address(*self.peer.address)
        self.is_silent = False
        self.topics = 0
        self.coordinator_errors: list[int] = []

    def cluster(self, rules: RetryRules = RetryRules(), **access: object) -> Cluster:  # noqa: B008
        return Cluster(Access((DOWN, self.address), "me", **access), self._connect, rules)  # type: ignore[arg-type]

    async def _connect(self, address: Address) -> Socket:
        if address == DOWN:
            raise ConnectionRefusedError
        return await self._network.connect(tuple(address), SocketOptions(), 1_000)

    def _answer(self, asked: Asked) -> bytes | None:
        if asked.key == ApiKey.API_VERSIONS:
            rows = [ApiVersion(api_key=key, min_version=0, max_version=newest) for key, newest in SERVED.items()]
            return response(asked, ApiVersionsResponse(api_keys=rows))
        if self.is_silent:
            return None
        if self.topics:
            rows = [MetadataResponseTopic(name=f"{number:03}" + "x" * 30_000) for number in range(self.topics)]
            return response(asked, MetadataResponse(topics=rows))
        host, port = self.address
        if asked.key == ApiKey.FIND_COORDINATOR:
            code = self.coordinator_errors.pop(0) if self.coordinator_errors else 0
            return response(asked, FindCoordinatorResponse(error_code=code, node_id=BROKER_ID, host=host, port=port))
        return response(
            asked, MetadataResponse(brokers=[MetadataResponseBroker(node_id=BROKER_ID, host=host, port=port)])
        )


def on_a_bench(test: Callable[[Bench], Awaitable[None]]) -> None:
    loop = SimLoop(1)

    async def main() -> None:
        bench = Bench(loop)
        await test(bench)
        bench.peer.close()

    run(loop, main())


def test_a_link_is_opened_once_for_each_address_and_purpose() -> None:
    async def test(bench: Bench) -> None:
        async with bench.cluster() as cluster:
            both = await asyncio.gather(cluster.link(bench.address), cluster.link(bench.address))
            assert both[0] is both[1]
            assert await cluster.link(bench.address, "fetch") is not both[0]
            assert bench.peer.accepted == 2
            assert await cluster.any_broker() is both[0]
            both[0].close()
            assert (await cluster.any_broker()).is_open
            assert (await cluster.link(bench.address)) is not both[0]
        assert not both[0].is_open

    on_a_bench(test)


def test_any_broker_is_the_first_address_that_has_one_and_all_reasons_are_given_when_none_has() -> None:
    async def test(bench: Bench) -> None:
        async with bench.cluster() as cluster:
            assert (await cluster.any_broker()).address == bench.address
            await cluster.metadata(None)
            assert cluster.cluster_map.addresses == {BROKER_ID: bench.address}
        nowhere = Cluster(Access((DOWN, DOWN._replace(port=2)), "me", name="west"), bench._connect)
        with pytest.raises(Unreachable) as caught:
            await nowhere.any_broker()
        reason = "connection refused"
        assert str(caught.value) == (
            f"no broker of cluster 'west' answers: cannot reach down:1: {reason}; cannot reach down:2: {reason}"
        )

    on_a_bench(test)


def test_an_attempt_is_repeated_while_the_coordinator_loads_and_the_last_problem_is_kept() -> None:
    async def test(bench: Bench) -> None:
        bench.coordinator_errors = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 2
        async with bench.cluster() as cluster:
            link = await cluster.retry(lambda: cluster.coordinator("g"))
            assert link.address == bench.address
            assert cluster.problem == (
                "the coordinator of group 'g': coordinator load in progress (COORDINATOR_LOAD_IN_PROGRESS)"
            )
            assert bench.peer.accepted == 1, "a refusal leaves the connection open"
            bench.coordinator_errors = [ErrorCode.INVALID_GROUP_ID]
            with pytest.raises(Refused, match="INVALID_GROUP_ID"):
                await cluster.retry(lambda: cluster.coordinator("g"))

    on_a_bench(test)


def test_the_budget_ends_an_attempt_that_stays_refused() -> None:
    async def test(bench: Bench) -> None:
        bench.coordinator_errors = [ErrorCode.NOT_COORDINATOR] * 1_000
        rules = RetryRules(pause_ms=5, pause_ms_max=500, budget_s=3.0)
        async with bench.cluster(rules, name="west") as cluster:
            began = asyncio.get_running_loop().time()
            with pytest.raises(Refused, match="the coordinator of group 'g' in cluster 'west'"):
                await cluster.retry(lambda: cluster.coordinator("g"))
            assert 3 <= asyncio.get_running_loop().time() - began < 4

    on_a_bench(test)


def test_a_broken_connection_closes_all_links_before_the_next_attempt() -> None:
    async def test(bench: Bench) -> None:
        async with bench.cluster() as cluster:
            links = [await cluster.link(bench.address)]
            await cluster.metadata(None)

            async def attempt() -> str:
                link = await cluster.any_broker()
                if len(links) == 1:
                    bench.peer.hang_up()
                    links.append(await cluster.link(bench.address, "other"))
                await link.ask(MetadataRequest(topics=[]))
                return "done"

            assert await cluster.retry(attempt) == "done"
            assert [link.is_open for link in links] == [False, False]
            assert cluster.cluster_map.addresses == {}
            assert cluster.problem is not None
            assert "is closed" in cluster.problem

    on_a_bench(test)


def test_a_known_broker_that_is_down_is_a_reason_for_another_attempt() -> None:
    async def test(bench: Bench) -> None:
        async with bench.cluster() as cluster:
            with pytest.raises(Disconnected, match="cannot reach down:1: connection refused"):
                await cluster.known(DOWN)

    on_a_bench(test)


def test_a_response_that_takes_too_long_closes_the_link() -> None:
    async def test(bench: Bench) -> None:
        async with bench.cluster(answer_s=2.0) as cluster:
            link = await cluster.any_broker()
            bench.is_silent = True
            with pytest.raises(ClientError, match=f"{bench.address} gave no answer within 2 s"):
                await link.ask(MetadataRequest(topics=[]))
            assert not link.is_open

    on_a_bench(test)


def test_requests_of_several_tasks_are_on_the_way_at_the_same_time() -> None:
    async def test(bench: Bench) -> None:
        async with bench.cluster() as cluster:
            link = await cluster.any_broker()
            bench.is_silent = True
            first = asyncio.ensure_future(link.ask(MetadataRequest(topics=[])))
            await bench.peer.until(lambda: len(bench.peer.asked) == 2)
            bench.is_silent = False
            second = asyncio.ensure_future(link.ask(MetadataRequest(topics=[])))
            await bench.peer.until(lambda: len(bench.peer.asked) == 3)
            assert not first.done()
            for task in (first, second):
                task.cancel()
            await asyncio.gather(first, second, return_exceptions=True)

    on_a_bench(test)


def test_a_response_may_be_as_long_as_the_access_says_once_the_session_is_open() -> None:
    async def test(bench: Bench) -> None:
        bench.topics = 60
        async with bench.cluster() as cluster:
            assert len((await cluster.metadata(None)).topics) == 60
        async with bench.cluster(response_bytes_max=1_000_000) as cluster:
            with pytest.raises(InvalidResponse, match="the limit is 1000000"):
                await cluster.metadata(None)

    on_a_bench(test)


def test_a_caller_that_is_cancelled_closes_its_link() -> None:
    async def test(bench: Bench) -> None:
        async with bench.cluster() as cluster:
            link = await cluster.any_broker()
            bench.is_silent = True
            asking = asyncio.ensure_future(link.ask(MetadataRequest(topics=[])))
            await bench.peer.until(lambda: len(bench.peer.asked) == 2)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            assert not link.is_open

    on_a_bench(test)
