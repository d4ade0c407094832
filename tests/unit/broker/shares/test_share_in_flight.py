"""DescribeShareInFlight: what a leader tells of records in flight, and how the client reads more than one response has."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.admin.shares.in_flight import InFlightPartition, all_pages, in_flight_request
from sordini.broker.requests.call import Call, VersionedApi
from sordini.broker.shares.in_flight_handler import ShareInFlightHandler
from sordini.broker.shares.machine.in_flight import InFlightBatch, InFlightBatches, Part
from sordini.broker.shares.machine.record_states import RecordState
from sordini.client.errors import Refused
from sordini.protocol.errors import BrokerError
from sordini.protocol.messages.describe_share_in_flight import DescribeShareInFlightRequest
from sordini.protocol.served_apis import ALL_APIS
from sordini.protocol.types import TopicPartition
from tests.support.share_world import GROUP, LOCK_MS, ShareWorld, a_world

ACCEPT, RELEASE = 1, 2
ORDERS, BILLS = TopicPartition("orders", 0), TopicPartition("bills", 0)
LIMIT = 1_000


class Leader:
    """The handler, asked as a client asks a leader; the requests are kept."""

    def __init__(self, world: ShareWorld, runs_max: int) -> None:
        self._handler = ShareInFlightHandler(world.partitions, world.broker.clock, runs_max)
        self._peer = world.broker.peer
        self.requests: list[DescribeShareInFlightRequest] = []

    async def ask(self, request: DescribeShareInFlightRequest) -> Any:
        self.requests.append(request)
        route = self._handler.route()
        call = Call(VersionedApi(ALL_APIS[route.key], 0, route), self._peer, 77, "test", request)
        work = self._handler.describe(call)
        try:
            while True:
                next(work)
        except StopIteration as end:
            return end.value
        except BrokerError as error:
            return route.error_response(request, error.code)


async def in_flight(
    world: ShareWorld, *partitions: TopicPartition, wanted: int = LIMIT, runs_max: int = LIMIT
) -> list[InFlightPartition]:
    return await all_pages(Leader(world, runs_max).ask, in_flight_request(GROUP, partitions, wanted))


async def test_a_run_has_its_member_its_deliveries_and_how_long_it_is_locked() -> None:
    async with a_world() as world:
        world.produce(5)
        world.fetch(max_records=5)
        world.acknowledge([(1, 2, [RELEASE])])
        world.pass_time(1_000)
        (found,) = await in_flight(world, ORDERS)
        assert (found.start_offset, found.end_offset, found.lock_duration_ms, found.deliveries_max) == (
            0,
            5,
            LOCK_MS,
            5,
        )
        assert found.runs == [
            (0, 0, "acquired", 1, "a", 1_000, LOCK_MS - 1_000),
            (1, 2, "available", 1, None, None, None),
            (3, 4, "acquired", 1, "a", 1_000, LOCK_MS - 1_000),
        ]
        assert not found.has_more


async def test_a_partition_that_no_one_has_read_has_no_offsets_and_one_of_another_leader_is_an_error() -> None:
    async with a_world() as world:
        world.produce(1)
        (found,) = await in_flight(world, ORDERS)
        assert (found.start_offset, found.end_offset, found.runs) == (None, None, [])
        with pytest.raises(Refused, match="UNKNOWN_TOPIC_OR_PARTITION"):
            await in_flight(world, TopicPartition("nowhere", 0))
        await world.broker.follow("orders", epoch=1)
        with pytest.raises(Refused, match="NOT_LEADER_OR_FOLLOWER"):
            await in_flight(world, ORDERS)


@pytest.mark.parametrize("runs_max", [1, 2, 3, 7])
async def test_more_runs_than_one_response_has_are_read_in_several_for_each_partition(runs_max: int) -> None:
    async with a_world() as world:
        await world.broker.lead("bills")
        for topic in ("orders", "bills"):
            world.produce(9, topic=topic)
        world.fetch(topics=("orders", "bills"))
        world.acknowledge([(offset, offset, [RELEASE]) for offset in (1, 3, 5, 7)])
        whole = await in_flight(world, ORDERS, BILLS)
        assert [len(one.runs) for one in whole] == [9, 1]
        assert await in_flight(world, ORDERS, BILLS, runs_max=runs_max) == whole


async def test_no_more_is_read_than_is_wanted_and_the_partition_has_more() -> None:
    async with a_world() as world:
        world.produce(9)
        world.fetch()
        world.acknowledge([(offset, offset, [RELEASE]) for offset in (1, 3, 5, 7)])
        leader = Leader(world, runs_max=2)
        (found,) = await all_pages(leader.ask, in_flight_request(GROUP, [ORDERS], 5))
        assert [run.first_offset for run in found.runs] == [0, 1, 2, 3, 4]
        assert found.has_more
        assert [(request.from_offset, request.runs_max) for request in leader.requests] == [(0, 5), (2, 3), (4, 1)]


async def test_a_leader_that_says_there_is_more_and_tells_nothing_is_not_asked_forever() -> None:
    async with a_world() as world:
        world.produce(1)
        world.fetch()
        leader = Leader(world, runs_max=0)
        (found,) = await all_pages(leader.ask, in_flight_request(GROUP, [ORDERS], 5))
        assert (found.runs, found.has_more, len(leader.requests)) == ([], True, 2)


async def test_a_request_that_names_a_partition_again_and_again_gets_no_more_runs_in_all_than_another() -> None:
    async with a_world() as world:
        world.produce(1)
        world.fetch()
        answer = await Leader(world, runs_max=3).ask(in_flight_request(GROUP, [ORDERS] * 1_000, 5))
        rows = answer.topics[0].partitions
        assert [len(row.runs) for row in rows] == [1] * 3 + [0] * 997
        assert [row.has_more for row in rows] == [False] * 3 + [True] * 997


async def test_numbers_without_sense_are_answered() -> None:
    async with a_world() as world:
        world.produce(2)
        world.fetch()
        leader = Leader(world, LIMIT)
        for runs_max, from_offset, expected in ((-1, 0, 0), (2**31 - 1, -(2**63), 1), (5, 2**63 - 1, 0), (5, 1, 1)):
            request = in_flight_request(GROUP, [ORDERS], runs_max, from_offset)
            (row,) = (await leader.ask(request)).topics[0].partitions
            assert len(row.runs) == expected


PARTS = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), min_size=1, max_size=12)
"""The gap before each part and its size; a gap begins a batch."""


@given(PARTS, st.integers(-1, 80))
def test_parts_from_an_offset_are_those_of_all_parts_that_are_not_before_it(
    sizes: list[tuple[int, int]], offset: int
) -> None:
    batches, at = InFlightBatches(), 0
    batch: list[Part] = []
    for index, (gap, size) in enumerate(sizes):
        if gap and batch:
            batches.add(InFlightBatch(batch))
            batch = []
        at += gap
        batch.append(Part(at, at + size, RecordState.AVAILABLE, index + 1))
        at += size
    batches.add(InFlightBatch(batch))
    whole = [part for one in batches for part in one.parts]
    expected = [part._replace(first=max(part.first, offset)) for part in whole if part.end > offset]
    assert list(batches.parts_from(offset)) == expected
