"""The producer ids of a broker, allocated in blocks of a thousand and assigned one by one (InitProducerId).

An id is never assigned twice in a cluster. The rest of a block is lost when the broker stops, so none is allocated
before the first producer needs one. Blocks come from the controller (KIP-730), or, with protocols before 3.0, from the
coordination store: `broker/cluster/peers/{allocate_producer_ids,producer_ids_in_store}.py`.

One request for a block is in flight at a time, for all waiting producers. After a failed one there is a pause, so that
an outage of the store, or of the controller, costs two requests a second, however many producers there are. A producer
waits for a block for WAIT_S_MAX at most and then gets an error code that it retries.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.types import ProducerId
from sordini.replication.metadata_store.znodes import ProducerIdBlock
from sordini.replication.ports import Logger, Spawn

RETRY_PAUSE_S: Final = 0.5
"""After a request for a block that failed."""
WAIT_S_MAX: Final = 2.0
"""How long a request waits for a block: well below any client's `request.timeout.ms`."""

TakeBlock = Callable[[], Awaitable[ProducerIdBlock]]
"""Allocates a block for this broker. Raises BrokerError: COORDINATOR_LOAD_IN_PROGRESS, which producers retry, when none
is available now; another code when there will never be one."""


class ProducerIdManager:
    """One broker's supply of producer ids."""

    def __init__(self, take_block: TakeBlock, spawn: Spawn, log: Logger) -> None:
        self._take_block = take_block
        self._spawn = spawn
        self._log = log
        self._next = self._end = 0
        self._request: asyncio.Future[None] | None = None
        """Done when the request in flight has ended and, if it failed, the pause after it."""
        self._refusal: BrokerError | None = None
        """The error of the last request; None when it succeeded."""
        self._failures = 0
        """Failed requests in a row."""

    def at_once(self) -> ProducerId | None:
        """The next id of the present block; None when it is exhausted."""
        if self._next == self._end:
            return None
        self._next += 1
        return ProducerId(self._next - 1)

    async def next(self) -> ProducerId:
        """An id that no producer had before.

        Raises as `TakeBlock`: COORDINATOR_LOAD_IN_PROGRESS after WAIT_S_MAX, other codes at once.
        """
        try:
            async with asyncio.timeout(WAIT_S_MAX):
                while (producer_id := self.at_once()) is None:
                    await self._requested()
                    if self._refusal is not None and self._refusal.code is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                        raise self._refusal
        except TimeoutError:
            raise self._refusal or retriable("no response in time") from None
        return producer_id

    async def _requested(self) -> None:
        """Wait for the end of the request in flight; start one if there is none."""
        if self._request is None:
            self._request = asyncio.get_running_loop().create_future()
            self._spawn(self._take(self._request))
        await asyncio.shield(self._request)

    async def _take(self, request: asyncio.Future[None]) -> None:
        try:
            block = await self._take_block()
        except BrokerError as refusal:
            self._failed(refusal)
            if refusal.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                await asyncio.sleep(RETRY_PAUSE_S)
        else:
            _, self._next, self._end = block
            self._succeeded()
        finally:
            self._request = None
            if not request.done():
                request.set_result(None)

    def _failed(self, refusal: BrokerError) -> None:
        self._refusal = refusal
        self._failures += 1
        if self._failures == 1:
            self._log.warning("no block of producer ids, retrying while producers wait", reason=str(refusal))

    def _succeeded(self) -> None:
        if self._failures:
            self._log.info("block of producer ids received", failures=self._failures)
        self._refusal, self._failures = None, 0


def retriable(reason: str) -> BrokerError:
    """The error of a source that has no block now."""
    return BrokerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"no producer ids: {reason}")
