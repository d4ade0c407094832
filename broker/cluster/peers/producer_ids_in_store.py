"""Blocks of producer ids from the coordination store, in protocols before 3.0."""

from __future__ import annotations

from typing import Final

from sordini.broker.coordinators.producer_id_manager import retriable
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.types import BrokerId
from sordini.replication.cluster_model import Malformed
from sordini.replication.controller.machine.producer_ids import next_producer_id_block
from sordini.replication.metadata_store import paths, znodes
from sordini.replication.metadata_store.znodes import ProducerIdBlock
from sordini.replication.ports import BadVersion, CoordinationError, Session

TRIES_MAX: Final = 100
"""How often in a row other brokers may allocate a block first."""


class StoreProducerIdBlocks:
    """Takes blocks from the coordination store."""

    def __init__(self, session: Session, broker_id: BrokerId) -> None:
        self._session = session
        self._broker_id = broker_id

    async def take(self) -> ProducerIdBlock:
        """The next block.

        Raises BrokerError: COORDINATOR_LOAD_IN_PROGRESS; UNKNOWN_SERVER_ERROR for a node that cannot be decoded, and
        when the cluster has run out of ids.
        """
        try:
            for _ in range(TRIES_MAX):
                block = await self._take()
                if block is not None:
                    return block
        except CoordinationError as failure:
            # It may have been allocated: then it stays unused.
            raise retriable(str(failure)) from None
        raise retriable("other brokers allocated every block first")

    async def _take(self) -> ProducerIdBlock | None:
        """None when another broker allocated this block."""
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
