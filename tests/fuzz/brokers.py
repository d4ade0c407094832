"""A broker without sockets on a loop of its own, made anew after a number of uses: what targets keep between inputs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from typing import Any, TypeVar

from tests.support.unit_broker import UnitBroker, a_broker

T = TypeVar("T")


class Brokers:
    """One at a time."""

    def __init__(
        self, entries: Mapping[str, str], uses_max: int, prepare: Callable[[UnitBroker], Awaitable[None]] | None = None
    ) -> None:
        """`entries` of its configuration; `prepare` is awaited for each."""
        self._entries = entries
        self._uses_max = uses_max
        self._prepare = prepare
        self._loop = asyncio.new_event_loop()
        self._stack = AsyncExitStack()
        self._broker: UnitBroker | None = None
        self._uses = 0

    def run(self, work: Callable[[UnitBroker], Coroutine[Any, Any, int]]) -> int:
        """Work with the broker; the number of uses, which is returned. After a failure the broker is not used again."""
        try:
            return self._loop.run_until_complete(self._run(work))
        except BaseException:
            self._uses = self._uses_max
            raise

    async def _run(self, work: Callable[[UnitBroker], Coroutine[Any, Any, int]]) -> int:
        if self._broker is None or self._uses >= self._uses_max:
            await self._end()
            self._broker = await self._stack.enter_async_context(a_broker(self._entries))
            self._uses = 0
            if self._prepare is not None:
                await self._prepare(self._broker)
        uses = await work(self._broker)
        self._uses += uses
        return uses

    async def _end(self) -> None:
        if self._broker is not None:
            tasks, self._broker = self._broker.tasks, None
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        await self._stack.aclose()
        self._stack = AsyncExitStack()

    def close(self) -> None:
        """End the broker and the loop."""
        self._loop.run_until_complete(self._end())
        self._loop.run_until_complete(_end_all_others())
        self._loop.close()


async def _end_all_others() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def settled(broker: UnitBroker, rounds: int) -> None:
    """Let tasks go on as far as they can; some wait for timers, or for other brokers."""
    for _ in range(rounds):
        if not broker.tasks and not broker.parts.dispatcher.slices.waiting:
            return
        await broker.run_round()
