"""Producer ids: a broker takes them in blocks of a thousand and hands them out one by one.

An id is never handed out twice in a cluster. What is left of a block is lost when its broker stops, so none is taken
before the first producer asks. Where blocks come from is the protocol's: from the coordination store, which is here,
or from the controller (KIP-730).

One request for a block is under way at a time, for all producers that wait. After one that failed there is a pause, so
that an outage of the store, or of the controller, costs two requests a second and not as many as there are producers.
A producer waits for a block for WAIT_S_MAX at most and then gets a code upon which it asks again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.types import BrokerId, ProducerId
from sordini.replication.cluster_model import Malformed
from sordini.replication.controller.machine.producer_ids import next_producer_id_block
from sordini.replication.metadata_store import paths, znodes
from sordini.replication.metadata_store.znodes import ProducerIdBlock
from sordini.replication.ports import BadVersion, CoordinationError, Log, Session

RETRY_PAUSE_S: Final = 0.5
"""After a request for a block that failed."""
WAIT_S_MAX: Final = 2.0
"""How long a producer's request waits for a block: well below `request.timeout.ms` of any client."""
TRIES_MAX: Final = 100
"""How often in a row other brokers may take the block that this one was about to take."""

Spawn = Callable[[Coroutine[Any, Any, None]], object]
TakeBlock = Callable[[], Awaitable[ProducerIdBlock]]
"""Takes a block for this broker. Raises BrokerError with COORDINATOR_LOAD_IN_PROGRESS, upon which producers ask again,
when none can be had now, and with another code when there never will be one."""


class ProducerIdManager:
    """One broker's supply of producer ids."""

    def __init__(self, take_block: TakeBlock, spawn: Spawn, log: Log) -> None:
        self._take_block = take_block
        self._spawn = spawn
        self._log = log
        self._next = self._end = 0
        self._request: asyncio.Future[None] | None = None
        """Done when the request for a block that is under way has ended and, if it failed, so has the pause."""
        self._refusal: BrokerError | None = None
        """Of the last request; None when it gave a block."""
        self._failures = 0
        """Requests that failed in a row."""

    def at_once(self) -> ProducerId | None:
        """The next id of the present block; None when it is used up."""
        if self._next == self._end:
            return None
        self._next += 1
        return ProducerId(self._next - 1)

    async def next(self) -> ProducerId:
        """An id that no other producer has or had.

        Raises what `TakeBlock` does: COORDINATOR_LOAD_IN_PROGRESS after WAIT_S_MAX, other codes at once.
        """
        try:
            async with asyncio.timeout(WAIT_S_MAX):
                while (producer_id := self.at_once()) is None:
                    await self._requested()
                    if self._refusal is not None and self._refusal.code is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                        raise self._refusal
        except TimeoutError:
            raise self._refusal or _not_now("there was no answer in time") from None
        return producer_id

    async def _requested(self) -> None:
        """Wait for the end of the request that is under way; where there is none, begin one."""
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


class StoreBlockSource:
    """Takes blocks from the coordination store, as brokers of protocols before 3.0 do."""

    def __init__(self, session: Session, broker_id: BrokerId) -> None:
        self._session = session
        self._broker_id = broker_id

    async def take(self) -> ProducerIdBlock:
        """The block after the one that was taken last, by whichever broker.

        Raises BrokerError: COORDINATOR_LOAD_IN_PROGRESS, UNKNOWN_SERVER_ERROR for a node that holds no block and for a
        cluster that has run out of ids.
        """
        try:
            for _ in range(TRIES_MAX):
                block = await self._take()
                if block is not None:
                    return block
        except CoordinationError as failure:
            # Perhaps it was taken: then it is lost, and the next one is as good.
            raise _not_now(str(failure)) from None
        raise _not_now("other brokers took every block that was to be taken")

    async def _take(self) -> ProducerIdBlock | None:
        """None when another broker took this block."""
        data, stat = await self._session.get(paths.PRODUCER_ID_BLOCK)
        last = znodes.decode_producer_id_block(data)
        if isinstance(last, Malformed):
            raise BrokerError(
                ErrorCode.UNKNOWN_SERVER_ERROR, f"{last.path} holds no block of producer ids: {last.reason}"
            )
        block = next_producer_id_block(last, self._broker_id)
        if block is None:
            raise BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, "the cluster has run out of producer ids")
        try:
            await self._session.set(paths.PRODUCER_ID_BLOCK, znodes.encode_producer_id_block(block), stat.version)
        except BadVersion:
            return None
        return block


def _not_now(reason: str) -> BrokerError:
    return BrokerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"no producer ids: {reason}")
