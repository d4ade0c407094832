"""Producer ids in blocks, from the controller and from the store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from sordini.broker.coordination.embedded import EmbeddedStore
from sordini.broker.metadata_cache import MetadataCache
from sordini.broker.peers.controller import ControllerLink
from sordini.broker.peers.producer_ids import BlocksOfController
from sordini.protocol.api import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from sordini.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from sordini.replication.controller import paths
from sordini.replication.controller.producer_ids import BlocksInStore, ProducerIdBlocks
from tests.sim.loop import SimLoop, elapse
from tests.unit.broker.network.helpers import StillClock
from tests.unit.broker.parts import CLUSTER_ID, ME, OTHER, inline
from tests.unit.broker.peers.fakes import FakeLinks, Sent, in_virtual_time, refused
from tests.unit.broker.peers.test_isr_in_store import Fickle

BROKER_EPOCH = 77


class Bench:
    """Broker 1's supply; the controller is broker 2, which answers AllocateProducerIds as `answer` says."""

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
        controller = ControllerLink(ME, self.metadata, self.links, serve)
        self.ids = ProducerIdBlocks(BlocksOfController(ME, lambda: BROKER_EPOCH, controller).take)

    def asked(self) -> list[AllocateProducerIdsRequest]:
        return self.links.requests(AllocateProducerIdsRequest)


async def code_of(call: Awaitable[Any]) -> ErrorCode:
    with pytest.raises(BrokerError) as refusal:
        await call
    return refusal.value.code


def test_a_block_of_the_controller_s_is_handed_out_one_by_one_and_asked_for_when_it_is_used_up() -> None:
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
        fickle.fates = ["not made", "fine", "lost", "expired"]
        ids = ProducerIdBlocks(BlocksInStore(fickle, ME).take)
        for _ in range(3):
            assert await code_of(ids.next()) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        # The block whose answer was lost stays lost.
        assert await ids.next() == 1_000
        await store.close()

    in_virtual_time(main)
