"""Blocks of producer ids from the controller, from protocol 3.0 on (AllocateProducerIds, KIP-730)."""

from __future__ import annotations

from collections.abc import Callable

from sordini.broker.cluster.peers.controller_client import ControllerClient
from sordini.broker.coordinators.producer_id_manager import retriable
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import error_name
from sordini.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from sordini.protocol.types import BrokerId
from sordini.replication.metadata_store.znodes import PRODUCER_ID_MAX, ProducerIdBlock
from sordini.replication.ports import Unreachable

_NEWEST = 0


class ControllerProducerIdBlocks:
    """Takes blocks from the active controller. `take` is called by one caller at a time."""

    def __init__(self, broker_id: BrokerId, broker_epoch: Callable[[], int], controller: ControllerClient) -> None:
        """`broker_epoch` returns the current epoch of this broker; no other object uses `controller`."""
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._controller = controller

    async def take(self) -> ProducerIdBlock:
        """A block for this broker alone. Raises BrokerError with a code after which producers retry."""
        try:
            response: AllocateProducerIdsResponse = await self._controller.ask_highest(
                ApiKey.ALLOCATE_PRODUCER_IDS, _NEWEST, self._request
            )
        except Unreachable as failure:
            raise retriable(str(failure)) from None
        if response.error_code:
            raise retriable(f"the controller refused with error {error_name(response.error_code)}")
        start, count = response.producer_id_start, response.producer_id_len
        if start < 0 or count <= 0 or start > PRODUCER_ID_MAX - count:
            raise retriable(f"the controller allocated {count} ids from {start} on")
        return ProducerIdBlock(self._broker_id, start, start + count)

    def close(self) -> None:
        """Close the connection to the controller."""
        self._controller.close()

    def _request(self, version: int) -> AllocateProducerIdsRequest:
        del version  # There is one version.
        return AllocateProducerIdsRequest(broker_id=self._broker_id, broker_epoch=self._broker_epoch())
