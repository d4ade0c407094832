"""The simulator's loop: time, order, and the end of processes."""

import asyncio
import contextvars
import gc
import inspect
import weakref
from collections.abc import Coroutine
from typing import Any

import pytest

from sordini.testing.brokers.loop_processes import OUTSIDE, ProcessKilled
from sordini.testing.simulation.virtual_loop import Deadlock, Runaway, SimClock, SimLoop, elapse, run


def test_a_day_of_sleep_takes_no_time_and_ends_at_its_instant():
    loop = SimLoop()

    async def nap() -> float:
        start = loop.time()
        await asyncio.sleep(86_400)
        return loop.time() - start

    assert run(loop, nap()) == pytest.approx(86_400)


def test_timers_fire_in_the_order_of_their_times_and_then_of_their_making():
    loop = SimLoop()
    seen: list[str] = []

    async def main() -> None:
        for name, delay in (("late", 3.0), ("first", 1.0), ("second", 1.0)):
            loop.call_later(delay, seen.append, name)
        await asyncio.sleep(5)

    run(loop, main())
    assert seen == ["first", "second", "late"]


def test_waiting_for_what_can_never_come_is_a_deadlock():
    loop = SimLoop()
    with pytest.raises(Deadlock):
        run(loop, _wait_for_ever(loop))


async def _wait_for_ever(loop: SimLoop) -> None:
    await loop.create_future()


def test_a_spinning_run_is_stopped():
    loop = SimLoop(steps_max=1_000)

    async def spin() -> None:
        while True:  # noqa: ASYNC110 - spinning is the point.
            await asyncio.sleep(0)

    with pytest.raises(Runaway):
        run(loop, spin())


def test_threads_are_refused():
    loop = SimLoop()

    async def cheat() -> None:
        await asyncio.to_thread(print)

    with pytest.raises(AssertionError, match="thread"):
        run(loop, cheat())


def test_both_clocks_follow_virtual_time_and_only_one_is_skewed():
    loop = SimLoop()
    clock = SimClock(loop)

    async def main() -> tuple[int, int]:
        wall, monotonic = clock.now_ms(), clock.monotonic_ms()
        clock.skew_ms = -3_600_000
        await asyncio.sleep(2)
        return clock.now_ms() - wall, clock.monotonic_ms() - monotonic

    assert run(loop, main()) == (2_000 - 3_600_000, 2_000)


def test_a_killed_process_does_nothing_more_not_even_its_finally():
    loop = SimLoop()
    seen: list[str] = []

    async def child() -> None:
        try:
            await asyncio.sleep(5)
        finally:
            seen.append("child's finally")

    async def victim() -> None:
        loop.call_later(3, seen.append, "timer")
        task = asyncio.create_task(child())
        try:
            await task
        finally:
            seen.append("finally")

    async def main() -> None:
        process = loop.process("broker")
        process.on_death(lambda: seen.append("kernel"))
        process.spawn(victim())
        await asyncio.sleep(1)
        process.kill()
        await asyncio.sleep(60)
        with pytest.raises(ProcessKilled):
            process.check_alive()
        assert seen == ["kernel"]

    run(loop, main())


def test_what_another_process_scheduled_survives_a_kill():
    loop = SimLoop()
    seen: list[str] = []

    async def work(name: str) -> None:
        await asyncio.sleep(2)
        seen.append(name)

    async def main() -> None:
        victim, other = loop.process("a"), loop.process("b")
        victim.spawn(work("a"))
        other.spawn(work("b"))
        await asyncio.sleep(1)
        victim.kill()
        await asyncio.sleep(5)

    run(loop, main())
    assert seen == ["b"]


def test_an_unhandled_exception_is_kept_for_the_verdict():
    loop = SimLoop()

    def fail() -> None:
        raise ValueError("oops")

    async def main() -> None:
        loop.call_soon(fail, context=contextvars.Context())
        await asyncio.sleep(1)

    run(loop, main())
    assert len(loop.stray) == 1
    assert "oops" in loop.stray[0]


def test_a_set_of_tasks_is_walked_in_the_order_of_their_making():
    loop = SimLoop()

    async def nothing() -> None:
        await asyncio.sleep(1)

    async def main() -> None:
        tasks = [asyncio.create_task(nothing()) for _ in range(50)]
        done, _ = await asyncio.wait(tasks)
        assert len({hash(task) for task in tasks}) == 50
        assert [hash(task) for task in done] == sorted(hash(task) for task in tasks)

    run(loop, main())


def test_a_task_made_with_a_name_belongs_to_its_process_and_has_it() -> None:
    # Python 3.14 passes a task's name to the factory; earlier ones set it afterwards.
    loop = SimLoop(1)
    process = loop.process("one")
    made: list[asyncio.Task[Any]] = []

    async def work() -> None:
        made.append(loop.make_task(loop, elapse(1), name="counts"))
        assert made[0] in process.tasks
        await made[0]

    async def outside() -> None:
        await process.spawn(work())

    run(loop, outside())
    assert made[0].get_name() == "counts"


def test_nothing_outlives_a_run_whose_unfinished_code_waits_for_others_while_it_unwinds() -> None:
    class Held:
        """What an unfinished coroutine refers to."""

    async def end(held: Held) -> None:
        await asyncio.sleep(1)
        assert held

    async def unfinished(held: Held) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.gather(end(held), end(held))

    async def main(held: Held) -> None:
        pending = asyncio.create_task(unfinished(held))
        await asyncio.sleep(1)
        assert not pending.done()

    loop, held = SimLoop(), Held()
    seen = weakref.ref(held)
    run(loop, main(held))
    del loop, held
    gc.collect()
    assert seen() is None


@pytest.mark.parametrize("context", [None, OUTSIDE], ids=["its own task", "a task of no process"])
def test_what_a_process_starts_while_it_unwinds_at_the_end_is_closed_too(context: contextvars.Context | None) -> None:
    started: list[Coroutine[Any, Any, None]] = []

    async def never_run() -> None:
        raise AssertionError("nothing runs after the end")

    async def unfinished() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            started.append(never_run())
            await asyncio.create_task(started[0], context=context)

    async def main() -> None:
        process.spawn(unfinished())
        await asyncio.sleep(1)

    loop = SimLoop()
    process = loop.process("broker")
    run(loop, main())
    assert [inspect.getcoroutinestate(one) for one in started] == [inspect.CORO_CLOSED]
