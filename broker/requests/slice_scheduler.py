"""Long work on the loop, done in slices, so that no client waits for another one's request.

Work is a generator that yields how many steps it has made: a step is a row of a request read, handled or written, one
to ten microseconds. A slice is STEPS_PER_SLICE steps. Each round of the loop has one slice of all work there is, in
rotation: what a client waits longer than on an idle broker is one slice, however many long requests there are.

Steps are counted, not timed: the same request is cut at the same places on every machine, and tests can say where.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterable
from typing import Any, Final, TypeVar

E = TypeVar("E")
T = TypeVar("T")

Work = Generator[int, None, T]
"""Yields the steps made since the last time, and returns what comes of them."""

STEPS_PER_SLICE: Final = 1_000
"""Up to 10 ms where a step takes 10 µs; a round of the loop costs 0.1 ms beside it."""
TASKS_GATHERED_AT_ONCE: Final = 500
"""To wait for a task takes a dozen calls."""


class Slices:
    """All long work of one loop."""

    def __init__(self) -> None:
        self._waiting: deque[Long] = deque()
        self._is_due = False
        self.slices = 0
        """How many there were."""
        self.steps_max = 0
        """The most steps that one of them had."""

    @property
    def waiting(self) -> int:
        """How many pieces of work are not done yet."""
        return len(self._waiting)

    def add(self, work: Work[Any], done: Callable[[Any], None], failed: Callable[[Exception], None]) -> Long:
        """Do work from the next round of the loop on; `done` gets its result, or `failed` what it raised."""
        long = Long(work, done, failed)
        self._waiting.append(long)
        self._schedule()
        return long

    async def through(self, work: Work[T]) -> T:
        """Do work for a task, and return its result."""
        try:
            return first_slice(work)
        except Unfinished:
            pass
        ended: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        long = self.add(work, ended.set_result, ended.set_exception)
        try:
            return await ended
        finally:
            long.cancel()

    async def paced(self, items: Iterable[E], *, steps_each: int | Callable[[E], int] = 1) -> AsyncIterator[E]:
        """The items one by one, for a task: between slices of them others are served."""
        steps = 0
        for item in items:
            if steps >= STEPS_PER_SLICE:
                await self.through(_pause())
                steps = 0
            steps += steps_each if isinstance(steps_each, int) else steps_each(item)
            yield item

    async def gather(
        self, items: Iterable[E], work: Callable[[E], Coroutine[Any, Any, T]], *, steps_each: int
    ) -> list[T]:
        """What `work` makes of each item, all at the same time, but begun in slices. One that fails ends all."""
        tasks: list[asyncio.Task[T]] = []
        try:
            async for item in self.paced(items, steps_each=steps_each):
                tasks.append(asyncio.create_task(work(item)))  # noqa: PERF401 - what was begun is ended, too.
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
            self.go_on()
        finally:
            if self._waiting:
                self._schedule()

    def go_on(self) -> None:
        """Make one slice, that of the round; cancelled work is passed over."""
        waiting = self._waiting
        while waiting and waiting[0].is_over:
            waiting.popleft()
        if not waiting:
            return
        long = waiting.popleft()
        self.slices += 1
        try:
            self.steps_max = max(self.steps_max, long.go_on())
        finally:
            if not long.is_over:
                waiting.append(long)


class Long:
    """One piece of work on its way."""

    __slots__ = ("_done", "_failed", "_work", "is_over")

    def __init__(self, work: Work[Any], done: Callable[[Any], None], failed: Callable[[Exception], None]) -> None:
        self._work = work
        self._done = done
        self._failed = failed
        self.is_over = False

    def go_on(self) -> int:
        """Make a slice; returns its steps."""
        steps, work = 0, self._work
        try:
            while steps < STEPS_PER_SLICE:
                steps += next(work)
        except StopIteration as end:
            self.is_over = True
            self._done(end.value)
        except Exception as error:  # noqa: BLE001 - whoever gave the work is told; see `Slices.add`.
            self.is_over = True
            self._failed(error)
        return steps

    def cancel(self) -> None:
        """Do no more of it; neither `done` nor `failed` is called."""
        if not self.is_over:
            self.is_over = True
            self._work.close()


def _pause() -> Work[None]:
    """Work of no more than the wait for its slice."""
    yield STEPS_PER_SLICE


class Unfinished(Exception):
    """Work was not done after a slice."""


def first_slice(work: Work[T]) -> T:
    """Make the first slice at once; raises Unfinished when there is more, and what the work raises."""
    steps = 0
    try:
        while steps < STEPS_PER_SLICE:
            steps += next(work)
    except StopIteration as end:
        result: T = end.value
        return result
    raise Unfinished
