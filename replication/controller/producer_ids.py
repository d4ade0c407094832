"""Producer ids: a broker takes them from the store in blocks of a thousand and hands them out one by one.

An id is never handed out twice in a cluster. What is left of a block is lost when its broker stops.
"""

from __future__ import annotations

import asyncio

from sordini.protocol.types import BrokerId, ProducerId
from sordini.replication.controller import paths, znodes
from sordini.replication.controller.cluster import Malformed
from sordini.replication.controller.znodes import PRODUCER_IDS_PER_BLOCK, ProducerIdBlock
from sordini.replication.ports import BadVersion, Session, StoreUnusable

_ID_MAX = 2**63 - 1


class ProducerIdBlocks:
    """One broker's supply of producer ids."""

    def __init__(self, session: Session, broker_id: BrokerId) -> None:
        self._session = session
        self._broker_id = broker_id
        self._next = 0
        self._end = 0
        self._taking = asyncio.Lock()

    def at_once(self) -> ProducerId | None:
        """An id if there is one at hand; None when `next` would have to ask the store."""
        if self._next == self._end:
            return None
        self._next += 1
        return ProducerId(self._next - 1)

    async def next(self) -> ProducerId:
        """An id nobody had before. Raises StoreUnusable when the store's block is damaged or ids have run out."""
        while (producer_id := self.at_once()) is None:
            async with self._taking:
                # Whoever waited for the lock may find the block that another caller took.
                if self._next == self._end:
                    await self._take_block()
        return producer_id

    async def _take_block(self) -> None:
        while True:
            data, stat = await self._session.get(paths.PRODUCER_ID_BLOCK)
            last = znodes.decode_producer_id_block(data)
            if isinstance(last, Malformed):
                raise StoreUnusable(f"{last.path} holds no block of producer ids: {last.reason}")
            start = 0 if last is None else last.end
            if start > _ID_MAX - PRODUCER_IDS_PER_BLOCK:
                raise StoreUnusable("the cluster has run out of producer ids")
            block = ProducerIdBlock(self._broker_id, start, start + PRODUCER_IDS_PER_BLOCK)
            try:
                await self._session.set(paths.PRODUCER_ID_BLOCK, znodes.encode_producer_id_block(block), stat.version)
            except BadVersion:
                continue  # Another broker took this one.
            self._next, self._end = block.start, block.end
            return
