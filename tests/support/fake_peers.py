"""Fakes of the ports through which this broker sends requests to others, on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from sordini.client.ports import Rounds
from sordini.protocol.types import BrokerId
from sordini.replication.ports import Unreachable
from sordini.testing.simulation.virtual_loop import SimLoop, run


class Sent(NamedTuple):
    """One request that went to another broker, and when (seconds of virtual time)."""

    broker_id: BrokerId
    request: Any
    version: int
    at: float


class FakeLinks:
    """Other brokers, as one function answers for all of them: with a response, or by raising Unreachable."""

    def __init__(self, loop: asyncio.AbstractEventLoop, answer: Callable[[Sent], Awaitable[Any]]) -> None:
        self.loop = loop
        self.answer = answer
        self.sent: list[Sent] = []
        self.client_ids: list[str] = []
        self.made: list[FakeLink] = []

    def link(self, broker_id: BrokerId, client_id: str) -> FakeLink:
        self.client_ids.append(client_id)
        self.made.append(FakeLink(self, broker_id))
        return self.made[-1]

    def requests(self, kind: type) -> list[Any]:
        return [sent.request for sent in self.sent if isinstance(sent.request, kind)]


class FakeLink:
    def __init__(self, links: FakeLinks, broker_id: BrokerId) -> None:
        self._links = links
        self._broker_id = broker_id
        self._asking: asyncio.Future[Any] | None = None
        self.is_closed = False

    async def ask(self, request: Any, version: int, timeout_ms: int, _rounds: Rounds | None = None) -> Any:
        assert self._asking is None, "two requests at a time"
        sent = Sent(self._broker_id, request, version, self._links.loop.time())
        self._links.sent.append(sent)
        self.is_closed = False
        self._asking = asyncio.ensure_future(self._links.answer(sent))
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await self._asking
        except TimeoutError:
            self.close()
            raise Unreachable("no response in time") from None
        except asyncio.CancelledError:
            if self.is_closed:
                raise Unreachable("closed") from None
            self.close()
            raise
        finally:
            self._asking = None

    def close(self) -> None:
        self.is_closed = True
        if self._asking is not None:
            self._asking.cancel()


async def silence(_sent: Sent) -> Any:
    """A broker that hangs."""
    await asyncio.get_running_loop().create_future()


async def refused(_sent: Sent) -> Any:
    """A broker that is not there."""
    raise Unreachable("connection refused")


def in_virtual_time(main: Callable[[SimLoop], Awaitable[None]], seed: int = 1) -> None:
    """Run a test on a loop of its own, and fail if an exception was not handled."""
    loop = SimLoop(seed)

    async def started() -> None:
        await main(loop)
        assert loop.stray == []

    run(loop, started())
