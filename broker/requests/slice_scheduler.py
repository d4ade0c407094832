"""Long work on the event loop, done in slices, so that no client waits for another client's request.

Work is a generator that yields how many steps it has made: a step is a row of a request decoded, handled or encoded,
one to ten microseconds. A slice is STEPS_PER_SLICE steps. Each round of the loop runs one slice of one piece of work,
in rotation: however many long requests there are, other clients wait one slice longer than on an idle broker.

Steps are counted, not timed: the same request is divided at the same steps on every machine, and tests can say where.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterable
from typing import Any, Final, TypeVar

from sordini.system.clock import monotonic_ns

E = TypeVar("E")
T = TypeVar("T")

Work = Generator[int, None, T]
"""Yields the steps made since the last time, and returns its result."""

STEPS_PER_SLICE: Final = 1_000
"""Up to 10 ms where a step takes 10 µs; a round of the loop costs 0.1 ms beside it."""
TASKS_GATHERED_AT_ONCE: Final = 500
"""`asyncio.gather` makes a dozen calls for each of its tasks, all before it waits: a slice, as above."""


class SliceScheduler:
    """All long work of one loop."""

    def __init__(self) -> None:
        self._waiting: deque[SlicedTask] = deque()
        self._is_due = False
        self.slices = 0
        """Slices run so far."""
        self.steps_max = 0
        """The most steps of one slice so far."""

    @property
    def waiting(self) -> int:
        """How many pieces of work are not finished."""
        return len(self._waiting)

    def add(self, work: Work[Any], done: Callable[[Any], None], failed: Callable[[Exception], None]) -> SlicedTask:
        """Do work from the next round of the loop on; `done` gets its result, or `failed` what it raised."""
        task = SlicedTask(work, done, failed)
        self._waiting.append(task)
        self._schedule()
        return task

    async def run(self, work: Work[T]) -> T:
        """Do work for an asyncio task, and return its result."""
        try:
            return first_slice(work)
        except SliceExhausted:
            pass
        result: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        task = self.add(work, result.set_result, result.set_exception)
        try:
            return await result
        finally:
            task.cancel()

    async def paced(self, items: Iterable[E], *, steps_each: int | Callable[[E], int] = 1) -> AsyncIterator[E]:
        """The items one by one, for an asyncio task: other work runs between slices of them."""
        steps = 0
        for item in items:
            if steps >= STEPS_PER_SLICE:
                await self.run(_pause())
                steps = 0
            steps += steps_each if isinstance(steps_each, int) else steps_each(item)
            yield item

    async def gather(
        self, items: Iterable[E], work: Callable[[E], Coroutine[Any, Any, T]], *, steps_each: int
    ) -> list[T]:
        """The results of `work` for each item, run concurrently but started in slices. One that fails ends all."""
        tasks: list[asyncio.Task[T]] = []
        try:
            async for item in self.paced(items, steps_each=steps_each):
                tasks.append(asyncio.create_task(work(item)))  # noqa: PERF401 - what was started is ended, too.
            results: list[T] = []
            for start in range(0, len(tasks), TASKS_GATHERED_AT_ONCE):
                results += await asyncio.gather(*tasks[start : start + TASKS_GATHERED_AT_ONCE])
            return results
        finally:
            for task in tasks:
                task.cancel()

    def _schedule(self) -> None:
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._round)

    def _round(self) -> None:
        self._is_due = False
        try:
            self.run_slice()
        finally:
            if self._waiting:
                self._schedule()

    def run_slice(self) -> None:
        """Run the one slice of this round; cancelled work is skipped."""
        waiting = self._waiting
        while waiting and waiting[0].is_over:
            waiting.popleft()
        if not waiting:
            return
        task = waiting.popleft()
        self.slices += 1
        try:
            self.steps_max = max(self.steps_max, task.run_slice())
        finally:
            if not task.is_over:
                waiting.append(task)


class SlicedTask:
    """One piece of work of a scheduler."""

    __slots__ = ("_began_ns", "_done", "_failed", "_spent_ns", "_work", "is_over")

    def __init__(self, work: Work[Any], done: Callable[[Any], None], failed: Callable[[Exception], None]) -> None:
        self._work = work
        self._done = done
        self._failed = failed
        self.is_over = False
        self._spent_ns = 0
        self._began_ns: int | None = None

    def time_ns(self) -> int:
        """How long its slices have taken; the one that runs now is counted so far."""
        return self._spent_ns + (0 if self._began_ns is None else monotonic_ns() - self._began_ns)

    def run_slice(self) -> int:
        """Run one slice; returns its steps."""
        steps, work = 0, self._work
        self._began_ns = monotonic_ns()
        try:
            while steps < STEPS_PER_SLICE:
                steps += next(work)
        except StopIteration as end:
            self.is_over = True
            self._done(end.value)
        except Exception as error:  # noqa: BLE001 - the caller of `SliceScheduler.add` gets it.
            self.is_over = True
            self._failed(error)
        finally:
            self._spent_ns, self._began_ns = self.time_ns(), None
        return steps

    def cancel(self) -> None:
        """Do no more of it; neither `done` nor `failed` is called."""
        if not self.is_over:
            self.is_over = True
            self._work.close()


def _pause() -> Work[None]:
    """Work that does nothing but wait for its slice."""
    yield STEPS_PER_SLICE


class SliceExhausted(Exception):
    """Work was not finished after its first slice."""


def first_slice(work: Work[T]) -> T:
    """Run the first slice at once; raises SliceExhausted when there is more, and what the work raises."""
    steps = 0
    try:
        while steps < STEPS_PER_SLICE:
            steps += next(work)
    except StopIteration as end:
        result: T = end.value
        return result
    raise SliceExhausted
