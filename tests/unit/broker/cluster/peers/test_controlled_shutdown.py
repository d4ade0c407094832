"""A broker that is about to stop requests that the controller moves its leaderships."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from sordini.broker.cluster.peers.broker_client import Addresses
from sordini.broker.cluster.peers.controlled_shutdown import (
    ELECTION_PAUSE_S,
    ControlledShutdown,
    ControlledShutdownLimits,
)
from sordini.coordination_store.embedded import EmbeddedStore
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)
from sordini.protocol.types import BrokerId
from sordini.replication.cluster_model import Broker, BrokerEndpoint
from sordini.replication.metadata_store import paths, znodes
from sordini.testing.simulation.virtual_loop import SimClock, SimLoop, elapse
from tests.support.fake_peers import FakeLinks, Sent, in_virtual_time, silence
from tests.support.fake_ports import ListLog
from tests.support.unit_broker import ME, OTHER, inline

RULES = ControlledShutdownLimits("BROKERS", tries_max=3, pause_ms=5_000, answer_timeout_ms=30_000)
LONG_MS = 600_000
DONE = ControlledShutdownResponse()
REFUSED = ControlledShutdownResponse(error_code=77)
NOT_CONTROLLER = ControlledShutdownResponse(error_code=ErrorCode.NOT_CONTROLLER)
REMAINING = ControlledShutdownResponse(remaining_partitions=[RemainingPartition(topic_name="t")])


class Bench:
    """Broker 1 leaves; broker 2 is registered, and is the controller by default."""

    def __init__(self, session: Any, loop: SimLoop) -> None:
        self.session = session
        self.answers: list[Any] = []
        self.local: list[ControlledShutdownRequest] = []
        self.addresses: list[tuple[str, int] | None] = []
        self.log = ListLog()
        self.links = FakeLinks(loop, self.answer)
        self.leaving = ControlledShutdown(ME, lambda: 55, session, self.dial, self.serve, RULES, self.log)

    def dial(self, addresses: Addresses) -> FakeLinks:
        self.addresses.append(addresses(OTHER))
        return self.links

    async def answer(self, sent: Sent) -> Any:
        answer = self.answers.pop(0)
        return await silence(sent) if answer is None else answer

    async def serve(self, request: ControlledShutdownRequest, version: int) -> Any:
        self.local.append(request)
        return self.answers.pop(0)

    async def controller_is(self, broker_id: BrokerId) -> None:
        await self.session.set(paths.CONTROLLER, znodes.encode_controller(broker_id, 0))

    @property
    def times(self) -> list[float]:
        return [round(sent.at - self.links.sent[0].at) for sent in self.links.sent]


def on_a_store(main: Callable[[Bench], Awaitable[None]]) -> None:
    async def started(loop: SimLoop) -> None:
        store = await EmbeddedStore.open(":memory:", inline, SimClock(loop))
        session = await store.open_session()
        ends = (BrokerEndpoint("CLIENTS", "public", 9092), BrokerEndpoint("BROKERS", "private", 9093))
        broker = znodes.encode_broker(Broker(OTHER, 0, ends), 0)
        await session.create(paths.broker(OTHER), broker, make_parents=True)
        await session.create(paths.CONTROLLER, znodes.encode_controller(OTHER, 0))
        await main(Bench(session, loop))
        await store.close()

    in_virtual_time(started)


def test_the_controller_named_in_the_store_gets_the_request_on_the_inter_broker_listener() -> None:
    async def main(bench: Bench) -> None:
        bench.answers = [DONE]
        assert await bench.leaving.leave(LONG_MS)
        [sent] = bench.links.sent
        assert (sent.broker_id, sent.version) == (OTHER, 3)
        assert sent.request == ControlledShutdownRequest(broker_id=ME, broker_epoch=55)
        assert bench.addresses == [("private", 9093)]
        assert bench.links.client_ids == [str(ME)]
        assert all(link.is_closed for link in bench.links.made)

    on_a_store(main)


@pytest.mark.parametrize("failure", [REFUSED, REMAINING])
def test_the_request_is_retried_after_a_backoff_until_no_leadership_remains(
    failure: ControlledShutdownResponse,
) -> None:
    async def main(bench: Bench) -> None:
        bench.answers = [failure, failure, DONE]
        assert await bench.leaving.leave(LONG_MS)
        assert bench.times == [0, 5, 10]

    on_a_store(main)


@pytest.mark.parametrize("failure", [REFUSED, REMAINING])
def test_the_request_is_retried_as_often_as_configured_and_not_more(failure: ControlledShutdownResponse) -> None:
    async def main(bench: Bench) -> None:
        bench.answers = [failure] * 9
        assert not await bench.leaving.leave(LONG_MS)
        assert bench.times == [0, 5, 10]

    on_a_store(main)


def test_a_controller_that_hangs_does_not_keep_a_broker_from_stopping() -> None:
    async def main(bench: Bench) -> None:
        bench.answers = [None] * 9
        loop = asyncio.get_running_loop()
        started = loop.time()
        assert not await bench.leaving.leave(8_000)
        assert loop.time() - started == pytest.approx(8)
        assert all(link.is_closed for link in bench.links.made)

    on_a_store(main)


def test_a_controller_elected_meanwhile_is_found() -> None:
    async def main(bench: Bench) -> None:
        await bench.session.delete(paths.CONTROLLER)
        bench.answers = [DONE]
        leaving = asyncio.create_task(bench.leaving.leave(LONG_MS))
        await elapse(1)
        assert bench.links.sent == []
        await bench.session.create(paths.CONTROLLER, znodes.encode_controller(OTHER, 0))
        assert await leaving
        assert len(bench.links.sent) == 1

    on_a_store(main)


def test_a_broker_that_is_the_controller_itself_handles_the_request_without_the_network() -> None:
    async def main(bench: Bench) -> None:
        await bench.controller_is(ME)
        bench.answers = [DONE]
        assert await bench.leaving.leave(LONG_MS)
        assert (len(bench.local), bench.links.sent) == (1, [])

    on_a_store(main)


@pytest.mark.parametrize("path", [paths.CONTROLLER, paths.broker(OTHER)])
def test_a_damaged_node_is_a_failed_attempt(path: str) -> None:
    async def main(bench: Bench) -> None:
        await bench.session.set(path, b"{")
        assert not await bench.leaving.leave(LONG_MS)
        assert [event for event, _ in bench.log.at("warning")] == [
            "controlled shutdown not done yet",
            "controlled shutdown given up",
        ]
        assert bench.links.sent == []

    on_a_store(main)


def test_a_broker_without_others_stops_without_a_request() -> None:
    async def main(bench: Bench) -> None:
        await bench.session.delete(paths.broker(OTHER))
        await bench.session.create(paths.broker(ME), b"{}")
        assert await bench.leaving.leave(LONG_MS)
        assert (bench.links.sent, bench.local) == ([], [])
        assert bench.log.lines == [("info", "controlled shutdown complete, no other broker is left", {"requests": 0})]

    on_a_store(main)


def test_the_last_other_broker_s_end_ends_the_wait_for_the_next_retry() -> None:
    async def main(bench: Bench) -> None:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        bench.answers = [REMAINING]
        leaving = asyncio.create_task(bench.leaving.leave(LONG_MS))
        await elapse(1)
        assert not leaving.done()
        await bench.session.delete(paths.broker(OTHER))
        assert await leaving
        assert loop.time() - begun < RULES.pause_ms / 1000
        assert len(bench.links.sent) == 1

    on_a_store(main)


def test_a_change_of_controller_is_followed_by_a_request_and_spends_no_retry() -> None:
    async def main(bench: Bench) -> None:
        bench.answers = [REMAINING] * 6 + [DONE]
        leaving = asyncio.create_task(bench.leaving.leave(LONG_MS))
        for _ in range(4):
            await elapse(1)
            await bench.controller_is(OTHER)
        assert await leaving
        # Four for the changes, and the pauses in between were whole.
        assert bench.times == [0, 1, 2, 3, 4, 9, 14]

    on_a_store(main)


def test_a_resigned_controller_is_retried_soon_and_its_successor_at_once() -> None:
    async def main(bench: Bench) -> None:
        bench.answers = [NOT_CONTROLLER, NOT_CONTROLLER, DONE]
        await bench.controller_is(OTHER)
        leaving = asyncio.create_task(bench.leaving.leave(LONG_MS))
        await elapse(ELECTION_PAUSE_S * 1.5)
        assert len(bench.links.sent) == 2
        await bench.session.delete(paths.CONTROLLER)
        await elapse(ELECTION_PAUSE_S * 3)
        assert len(bench.links.sent) == 2
        await bench.session.create(paths.CONTROLLER, znodes.encode_controller(OTHER, 0))
        assert await leaving
        assert [event for event, _ in bench.log.at("warning")] == []
        assert [fields["reason"] for event, fields in bench.log.at("info") if "reason" in fields] == [
            "the controller has resigned or is not yet elected",
            "no controller is elected",
        ]

    on_a_store(main)


def test_an_election_that_does_not_end_keeps_a_broker_for_no_longer_than_its_time() -> None:
    async def main(bench: Bench) -> None:
        bench.answers = [NOT_CONTROLLER] * 1_000
        loop = asyncio.get_running_loop()
        begun = loop.time()
        assert not await bench.leaving.leave(10_000)
        assert loop.time() - begun == pytest.approx(10)
        assert len(bench.links.sent) <= 10 / ELECTION_PAUSE_S + 1
        assert len(bench.log.lines) == 2

    on_a_store(main)
