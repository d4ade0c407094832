"""Producer ids in blocks, from the controller and from the store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any

import pytest

from sordini.broker.cluster.peers.allocate_producer_ids import ControllerProducerIdBlocks
from sordini.broker.cluster.peers.controller_client import ControllerClient
from sordini.broker.cluster.peers.producer_ids_in_store import TRIES_MAX, StoreProducerIdBlocks
from sordini.broker.coordinators.producer_id_manager import (
    RETRY_PAUSE_S,
    WAIT_S_MAX,
    ProducerIdManager,
)
from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.coordination_store.embedded import EmbeddedStore
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from sordini.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from sordini.replication.metadata_store import paths
from sordini.testing.simulation.virtual_loop import SimLoop, elapse
from tests.support.fake_peers import FakeLinks, Sent, in_virtual_time, refused, silence
from tests.support.fake_ports import ListLog, StillClock
from tests.support.unit_broker import CLUSTER_ID, ME, OTHER, inline
from tests.unit.broker.cluster.peers.test_isr_in_store import Fickle

BROKER_EPOCH = 77


class Bench:
    """Broker 1's supply; the controller is broker 2, which answers AllocateProducerIds by `answer`."""

    def __init__(self, answer: Callable[[AllocateProducerIdsRequest], Any], served: int = 0) -> None:
        async def reply(sent: Sent) -> Any:
            await elapse(0.01)
            if isinstance(sent.request, ApiVersionsRequest):
                row = ApiVersion(api_key=ApiKey.ALLOCATE_PRODUCER_IDS, min_version=0, max_version=served)
                return ApiVersionsResponse(api_keys=[row])
            return answer(sent.request)

        async def serve(request: Any, version: int) -> Any:
            return answer(request)

        self.links = FakeLinks(asyncio.get_running_loop(), reply)
        self.metadata = MetadataCache(CLUSTER_ID)
        self.metadata.set_brokers(OTHER, [])
        controller = ControllerClient(ME, self.metadata, self.links, serve)
        self.log = ListLog()
        take = ControllerProducerIdBlocks(ME, lambda: BROKER_EPOCH, controller).take
        self.ids = ProducerIdManager(take, asyncio.create_task, self.log)

    def asked(self) -> list[AllocateProducerIdsRequest]:
        return self.links.requests(AllocateProducerIdsRequest)


async def code_of(call: Awaitable[Any]) -> ErrorCode:
    with pytest.raises(BrokerError) as refusal:
        await call
    return refusal.value.code


def test_producer_ids_of_a_block_are_handed_out_one_by_one_and_a_used_up_block_is_replaced() -> None:
    async def main(loop: SimLoop) -> None:
        starts = iter((5_000, 9_000))
        bench = Bench(lambda _: AllocateProducerIdsResponse(producer_id_start=next(starts), producer_id_len=3))
        assert bench.ids.at_once() is None
        assert await asyncio.gather(*(bench.ids.next() for _ in range(3))) == [5_000, 5_001, 5_002]
        assert len(bench.asked()) == 1
        assert await bench.ids.next() == 9_000
        assert bench.ids.at_once() == 9_001
        assert [(asked.broker_id, asked.broker_epoch) for asked in bench.asked()] == [(ME, BROKER_EPOCH)] * 2

    in_virtual_time(main)


@pytest.mark.parametrize(
    "answer",
    [
        AllocateProducerIdsResponse(error_code=77, producer_id_len=1000),
        AllocateProducerIdsResponse(error_code=41, producer_id_start=5, producer_id_len=5),
        AllocateProducerIdsResponse(producer_id_start=-1, producer_id_len=1000),
        AllocateProducerIdsResponse(producer_id_start=1000, producer_id_len=0),
        AllocateProducerIdsResponse(producer_id_start=2**63 - 5, producer_id_len=1000),
    ],
)
def test_a_controller_that_gives_none_makes_producers_ask_again(answer: AllocateProducerIdsResponse) -> None:
    async def main(loop: SimLoop) -> None:
        bench = Bench(lambda _: answer)
        assert await code_of(bench.ids.next()) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert bench.ids.at_once() is None

    in_virtual_time(main)


def test_a_controller_that_cannot_be_reached_or_does_not_serve_it_makes_producers_ask_again() -> None:
    async def main(loop: SimLoop) -> None:
        bench = Bench(lambda _: AllocateProducerIdsResponse(producer_id_len=10), served=-1)
        assert await code_of(bench.ids.next()) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        bench.links.answer = refused
        assert await code_of(bench.ids.next()) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        bench.metadata.set_brokers(ME, [])
        assert await bench.ids.next() == 0

    in_virtual_time(main)


def test_a_store_that_is_away_makes_producers_ask_again_and_no_id_is_given_twice() -> None:
    async def main(loop: SimLoop) -> None:
        store = await EmbeddedStore.open(":memory:", inline, StillClock())
        session = await store.open_session()
        await session.create(paths.PRODUCER_ID_BLOCK)
        fickle: Any = Fickle(session)
        # One fate for each call: two tries without an answer, a block whose answer is lost, an expired session.
        fickle.fates = ["not made", "not made", "fine", "lost", *["expired"] * 9]
        ids = ProducerIdManager(StoreProducerIdBlocks(fickle, ME).take, asyncio.create_task, ListLog())
        assert await code_of(ids.next()) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        fickle.fates.clear()
        # The block whose answer was lost stays lost.
        assert await ids.next() == 1_000
        await store.close()

    in_virtual_time(main)


def test_a_node_without_a_block_is_answered_at_once_and_not_read_again() -> None:
    async def main(loop: SimLoop) -> None:
        store = await EmbeddedStore.open(":memory:", inline, StillClock())
        session = await store.open_session()
        await session.create(paths.PRODUCER_ID_BLOCK, b"{")
        fickle: Any = Fickle(session)
        ids = ProducerIdManager(StoreProducerIdBlocks(fickle, ME).take, asyncio.create_task, ListLog())
        begun = loop.time()
        assert await code_of(ids.next()) == ErrorCode.UNKNOWN_SERVER_ERROR
        assert (fickle.calls, loop.time()) == (1, begun)
        await store.close()

    in_virtual_time(main)


def test_a_block_that_other_brokers_take_first_is_retried_a_bounded_number_of_times() -> None:
    async def main(loop: SimLoop) -> None:
        store = await EmbeddedStore.open(":memory:", inline, StillClock())
        session = await store.open_session()
        await session.create(paths.PRODUCER_ID_BLOCK)
        fickle: Any = Fickle(session)

        async def faster() -> None:
            await session.set(paths.PRODUCER_ID_BLOCK, b"")
            fickle.meanwhile = faster

        fickle.meanwhile = faster
        assert await code_of(StoreProducerIdBlocks(fickle, ME).take()) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert fickle.calls == 2 * TRIES_MAX
        await store.close()

    in_virtual_time(main)


def test_however_many_producers_wait_one_request_is_under_way_with_a_pause_after_each_failure() -> None:
    async def main(loop: SimLoop) -> None:
        answers = iter([AllocateProducerIdsResponse(error_code=7)] * 3)
        bench = Bench(lambda _: next(answers, AllocateProducerIdsResponse(producer_id_start=0, producer_id_len=1000)))
        given = await asyncio.gather(*(bench.ids.next() for _ in range(50)))
        assert sorted(given) == list(range(50))
        times = [sent.at for sent in bench.links.sent if isinstance(sent.request, AllocateProducerIdsRequest)]
        assert len(times) == 4
        assert all(later - sooner >= RETRY_PAUSE_S for sooner, later in pairwise(times))
        assert [event for _, event, _ in bench.log.lines] == [
            "no block of producer ids, retrying while producers wait",
            "block of producer ids received",
        ]

    in_virtual_time(main)


def test_a_controller_that_hangs_has_one_request_while_producers_come_and_give_up() -> None:
    async def main(loop: SimLoop) -> None:
        bench = Bench(lambda _: None)
        bench.links.answer = silence
        begun = loop.time()
        for count in (1, 20, 3):
            codes = await asyncio.gather(*(code_of(bench.ids.next()) for _ in range(count)))
            assert set(codes) == {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
        assert loop.time() - begun == pytest.approx(3 * WAIT_S_MAX)
        assert len(bench.links.sent) == 1
        assert bench.log.lines == []
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    in_virtual_time(main)


def test_a_block_that_comes_while_a_producer_waits_answers_it() -> None:
    async def main(loop: SimLoop) -> None:
        begun = loop.time()

        def answer(_: Any) -> AllocateProducerIdsResponse:
            if loop.time() < begun + WAIT_S_MAX / 2:
                return AllocateProducerIdsResponse(error_code=ErrorCode.REQUEST_TIMED_OUT)
            return AllocateProducerIdsResponse(producer_id_start=5, producer_id_len=10)

        bench = Bench(answer)
        assert await bench.ids.next() == 5

    in_virtual_time(main)
