"""Many share groups on one partition: what they wait for and what ends with its leader is done in slices, memory is bounded."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

from sordini.broker.network.ports import DelayedResponse
from sordini.broker.requests.slice_scheduler import STEPS_PER_SLICE
from sordini.broker.shares.machine.sessions import Target
from sordini.broker.shares.share_partitions import ENDED_AT_ONCE
from sordini.broker.shares.woken_fetches import AT_ONCE, STEPS, WokenFetches
from sordini.protocol.errors import ErrorCode
from tests.support.share_world import ShareWorld, a_world, acquired, rows_of
from tests.support.unit_broker import topic_id_of

GROUPS = AT_ONCE + 3 * STEPS_PER_SLICE // STEPS
"""Their fetches take more than three slices."""
BYTES_MAX = 4_096
"""Of a share partition and its session, with nothing in flight."""
HERE = Target(topic_id_of("orders"), 0)


@asynccontextmanager
async def a_large_world() -> AsyncIterator[ShareWorld]:
    async with a_world(sessions_max=10_000, partitions_max=10_000) as world:
        yield world


def send(world: ShareWorld, number: int) -> DelayedResponse:
    """The first fetch of a group of its own, which waits."""
    return world.send_fetch(f"m{number}", group_id=f"g{number}", max_wait_ms=60_000)


async def until(world: ShareWorld, is_done: Callable[[], bool]) -> None:
    for _ in range(1_000):
        if is_done():
            return
        await world.broker.run_round()
    raise AssertionError("not done after a thousand rounds of the loop")


def answered(pending: list[DelayedResponse]) -> int:
    return sum(one.is_answered for one in pending)


async def test_a_record_for_many_groups_wakes_the_first_at_once_and_the_others_in_slices_in_their_order() -> None:
    async with a_large_world() as world:
        pending = [send(world, number) for number in range(GROUPS)]
        slices = world.broker.parts.dispatcher.slices
        world.produce(1)
        assert answered(pending) == AT_ONCE
        begun, rounds = slices.slices, 0
        while answered(pending) < GROUPS:
            await world.broker.run_round()
            rounds += 1
            done = answered(pending)
            assert done <= AT_ONCE + rounds * (STEPS_PER_SLICE // STEPS + 1)
            assert all(one.is_answered for one in pending[:done]), "in their order"
        assert slices.slices - begun >= 3
        assert slices.steps_max < STEPS_PER_SLICE + STEPS
        assert all(acquired(world.answer(one)) == [(0, 0, 1)] for one in pending)


async def test_another_request_is_served_while_many_fetches_are_woken() -> None:
    async with a_large_world() as world:
        pending = [send(world, number) for number in range(GROUPS)]
        world.produce(1)
        assert acquired(world.fetch("other", group_id="other")) == [(0, 0, 1)]
        assert answered(pending) < GROUPS


async def test_few_fetches_are_woken_at_once_again_in_the_next_round() -> None:
    async with a_large_world() as world:
        for _ in range(AT_ONCE + 3):
            pending = send(world, 0)
            world.produce(1)
            assert pending.is_answered
            await world.broker.run_round()


async def test_the_time_of_a_fetch_may_end_while_it_waits_for_its_turn() -> None:
    async with a_large_world() as world:
        pending = [send(world, number) for number in range(GROUPS)]
        world.produce(1)
        world.pass_time(60_000)
        await until(world, lambda: answered(pending) == GROUPS)
        assert all(acquired(world.answer(one)) == [(0, 0, 1)] for one in pending)


async def test_a_member_that_is_gone_before_its_turn_acquires_nothing() -> None:
    async with a_large_world() as world:
        pending = [send(world, number) for number in range(GROUPS)]
        world.produce(1)
        last, group = GROUPS - 1, f"g{GROUPS - 1}"
        pending[last].abandon()
        await until(world, lambda: answered(pending) >= GROUPS - 1)
        await world.broker.run_round()
        assert not pending[last].is_answered
        assert not list(world.machine(group_id=group).batches)


async def test_what_a_fetch_raises_ends_no_others_turn() -> None:
    async with a_large_world() as world:
        woken, done, raised = WokenFetches(world.broker.parts.dispatcher.slices), list[int](), list[object]()
        asyncio.get_running_loop().set_exception_handler(lambda _, context: raised.append(context["exception"]))

        def resume(number: int) -> None:
            done.append(number)
            if number == AT_ONCE:
                raise ValueError(number)

        for number in range(AT_ONCE + 3):
            woken.resume(partial(resume, number))
        assert len(done) == AT_ONCE
        await until(world, lambda: len(done) == AT_ONCE + 3)
        assert [str(error) for error in raised] == [str(AT_ONCE)]


async def test_all_share_partitions_end_with_the_leader_at_once_and_are_cleared_away_in_slices() -> None:
    async with a_large_world() as world:
        pending = [send(world, number) for number in range(GROUPS)]
        world.broker.parts.replicas.resign_all()
        assert all(world.partitions.find(f"g{number}", HERE) is None for number in range(GROUPS))
        assert answered(pending) <= AT_ONCE
        assert len(world.partitions) == GROUPS, "not cleared away yet"
        await until(world, lambda: answered(pending) == GROUPS and len(world.partitions) == 0)
        codes = {row.error_code for one in pending for row in rows_of(world.answer(one)).values()}
        assert codes == {ErrorCode.NOT_LEADER_OR_FOLLOWER}


async def test_a_new_leadership_begins_with_what_is_stored_while_the_former_is_cleared_away() -> None:
    async with a_large_world() as world:
        world.produce(1)
        for number in range(ENDED_AT_ONCE + 50):
            world.fetch(f"m{number}", group_id=f"g{number}")
        partition = world.broker.parts.replicas.partition("orders", 0)
        world.partitions.became_leader(partition)  # In the next leader epoch.
        last = ENDED_AT_ONCE + 49
        answer = world.fetch("new", group_id=f"g{last}")
        assert acquired(answer) == [(0, 0, 1)], "what was locked is not stored"
        found = world.partitions.find(f"g{last}", HERE)
        await until(world, lambda: len(world.partitions) == 1)
        assert world.partitions.find(f"g{last}", HERE) is found
        assert world.partitions.of_group(f"g{last}") == [found]
        world.partitions.resigned(partition)
        assert len(world.partitions) == 0


async def test_a_share_partition_with_nothing_in_flight_takes_little_memory() -> None:
    async with a_large_world() as world:
        world.fetch("first", group_id="first")
        gc.collect()
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            for number in range(500):
                world.fetch("m", group_id=f"g{number}", share_session_epoch=0)
            gc.collect()
            taken = tracemalloc.get_traced_memory()[0] - before
        finally:
            tracemalloc.stop()
        assert taken / 500 < BYTES_MAX
        assert len(world.partitions) == 501
