"""Producer ids: a broker takes them in blocks of a thousand and hands them out one by one.

An id is never handed out twice in a cluster. What is left of a block is lost when its broker stops, so none is taken
before the first producer asks. Where blocks come from is the protocol's: from the coordination store, which is here,
or from the controller (KIP-730).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.types import BrokerId, ProducerId
from sordini.replication.controller import paths, znodes
from sordini.replication.controller.cluster import Malformed
from sordini.replication.controller.producer_blocks import block_after
from sordini.replication.controller.znodes import ProducerIdBlock
from sordini.replication.ports import BadVersion, ConnectionLoss, Session, SessionExpired, StoreUnusable

TakeBlock = Callable[[], Awaitable[ProducerIdBlock]]
"""Takes a block for this broker. Raises BrokerError with COORDINATOR_LOAD_IN_PROGRESS, upon which producers ask again,
when none can be had now, and StoreUnusable when there never will be one."""


class ProducerIdBlocks:
    """One broker's supply of producer ids."""

    def __init__(self, take_block: TakeBlock) -> None:
        self._take_block = take_block
        self._next = 0
        self._end = 0
        self._taking = asyncio.Lock()

    def at_once(self) -> ProducerId | None:
        """An id if there is one at hand; None when `next` would have to take a block."""
        if self._next == self._end:
            return None
        self._next += 1
        return ProducerId(self._next - 1)

    async def next(self) -> ProducerId:
        """An id nobody had before. Raises what `TakeBlock` does."""
        while (producer_id := self.at_once()) is None:
            async with self._taking:
                # Whoever waited for the lock may find the block that another caller took.
                if self._next == self._end:
                    _, self._next, self._end = await self._take_block()
        return producer_id


class BlocksInStore:
    """Takes blocks from the coordination store, as brokers of protocols before 3.0 do."""

    def __init__(self, session: Session, broker_id: BrokerId) -> None:
        self._session = session
        self._broker_id = broker_id

    async def take(self) -> ProducerIdBlock:
        """The block after the one that was taken last, by whomever."""
        try:
            while (block := await self._take()) is None:
                pass  # Another broker took this one.
        except (ConnectionLoss, SessionExpired) as failure:
            # Perhaps it was taken: then it is lost, and the next one is as good.
            raise BrokerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"no producer ids: {failure}") from None
        return block

    async def _take(self) -> ProducerIdBlock | None:
        data, stat = await self._session.get(paths.PRODUCER_ID_BLOCK)
        last = znodes.decode_producer_id_block(data)
        if isinstance(last, Malformed):
            raise StoreUnusable(f"{last.path} holds no block of producer ids: {last.reason}")
        block = block_after(last, self._broker_id)
        if block is None:
            raise StoreUnusable("the cluster has run out of producer ids")
        try:
            await self._session.set(paths.PRODUCER_ID_BLOCK, znodes.encode_producer_id_block(block), stat.version)
        except BadVersion:
            return None
        return block
