"""Long work in slices: how much of it is done in a round of the loop, and in which order."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sordini.broker.requests.slice_scheduler import STEPS_PER_SLICE, Slices, Unfinished, Work, first_slice


def steps(name: str, count: int, done: list[str], *, each: int = 1) -> Work[str]:
    for _ in range(count):
        done.append(name)
        yield each
    return name


async def a_round() -> None:
    await asyncio.sleep(0)


async def test_a_round_of_the_loop_has_one_slice_of_one_piece_of_work_in_rotation() -> None:
    slices, done, results = Slices(), list[str](), list[Any]()
    for name in "abc":
        slices.add(steps(name, 2 * STEPS_PER_SLICE, done), results.append, results.append)
    order = []
    while slices.waiting:
        before = len(done)
        await a_round()
        assert len(done) - before <= STEPS_PER_SLICE
        order += sorted(set(done[before:]))
    assert order == ["a", "b", "c", "a", "b", "c"]
    assert results == ["a", "b", "c"]
    assert slices.steps_max == STEPS_PER_SLICE


async def test_a_step_may_count_for_several() -> None:
    slices, done = Slices(), list[str]()
    slices.add(steps("a", 30, done, each=STEPS_PER_SLICE // 10), done.append, done.append)
    await a_round()
    assert len(done) == 10


async def test_work_that_is_cancelled_is_closed_and_keeps_no_other_waiting() -> None:
    slices, done, closed = Slices(), list[str](), list[str]()

    def closing() -> Work[None]:
        try:
            yield STEPS_PER_SLICE
        finally:
            closed.append("closed")

    long = slices.add(closing(), done.append, done.append)
    slices.add(steps("b", 1, done), done.append, done.append)
    await a_round()
    long.cancel()
    long.cancel()
    assert closed == ["closed"]
    await a_round()
    assert (done, slices.waiting) == (["b", "b"], 1)
    await a_round()
    assert (done, slices.waiting) == (["b", "b"], 0)


async def test_work_that_raises_is_told_of_and_the_others_go_on() -> None:
    slices, done, failures = Slices(), list[str](), list[Exception]()

    def failing() -> Work[None]:
        yield 1
        raise ValueError("a bug")

    slices.add(failing(), done.append, failures.append)
    slices.add(steps("b", 1, done), done.append, failures.append)
    for _ in range(3):
        await a_round()
    assert [str(failure) for failure in failures] == ["a bug"]
    assert done == ["b", "b"]


async def test_a_task_waits_for_long_work_and_a_cancelled_one_ends_it() -> None:
    slices, done = Slices(), list[str]()
    assert await slices.through(steps("short", 3, done)) == "short"
    assert slices.slices == 0
    assert await slices.through(steps("long", 2 * STEPS_PER_SLICE, done)) == "long"
    assert slices.slices == 2
    task = asyncio.create_task(slices.through(steps("never", 100 * STEPS_PER_SLICE, done)))
    await a_round()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await a_round()
    assert slices.waiting == 0


async def test_what_is_begun_for_many_items_is_begun_in_slices_and_answered_in_their_order() -> None:
    slices, begun = Slices(), list[int]()

    async def work(item: int) -> int:
        begun.append(item)
        return -item

    task = asyncio.create_task(slices.gather(range(100), work, steps_each=STEPS_PER_SLICE // 10))
    most = 0
    while not task.done():
        before = len(begun)
        await a_round()
        most = max(most, len(begun) - before)
    assert await task == [-item for item in range(100)]
    assert most == 10


def test_the_first_slice_may_be_made_at_once_and_the_rest_stays() -> None:
    done: list[str] = []
    work = steps("a", STEPS_PER_SLICE + 1, done)
    with pytest.raises(Unfinished):
        first_slice(work)
    assert len(done) == STEPS_PER_SLICE
    assert first_slice(work) == "a"


@pytest.mark.parametrize(("cost", "pauses"), [(1, 0), (STEPS_PER_SLICE // 2, 4), (STEPS_PER_SLICE * 3, 9)])
async def test_items_that_cost_more_are_taken_fewer_at_a_time(cost: int, pauses: int) -> None:
    slices = Slices()
    assert [item async for item in slices.paced(range(10), steps_each=lambda _: cost)] == list(range(10))
    assert slices.slices == pauses
