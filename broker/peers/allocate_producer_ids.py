"""Blocks of producer ids from the controller, from protocol 3.0 on (AllocateProducerIds, KIP-730)."""

from __future__ import annotations

from collections.abc import Callable

from sordini.broker.peers.controller_client import ControllerClient
from sordini.protocol.api import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode, error_name
from sordini.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from sordini.protocol.types import BrokerId
from sordini.replication.metadata_store.znodes import ProducerIdBlock
from sordini.replication.ports import Unreachable

_NEWEST = 0
_ID_MAX = 2**63 - 1


class ControllerBlockSource:
    """Takes blocks from the controller of the moment. `take` is called by one caller at a time."""

    def __init__(self, broker_id: BrokerId, broker_epoch: Callable[[], int], controller: ControllerClient) -> None:
        """`broker_epoch` tells this broker's epoch of the moment; `controller` is for this object alone."""
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._controller = controller

    async def take(self) -> ProducerIdBlock:
        """A block of this broker's own. Raises BrokerError with a code upon which producers ask again."""
        try:
            response: AllocateProducerIdsResponse = await self._controller.ask_highest(
                ApiKey.ALLOCATE_PRODUCER_IDS, _NEWEST, self._request
            )
        except Unreachable as failure:
            raise _not_now(str(failure)) from None
        if response.error_code:
            raise _not_now(f"the controller refused with error {error_name(response.error_code)}")
        start, count = response.producer_id_start, response.producer_id_len
        if start < 0 or count <= 0 or start > _ID_MAX - count:
            raise _not_now(f"the controller gave {count} ids from {start} on")
        return ProducerIdBlock(self._broker_id, start, start + count)

    def close(self) -> None:
        """Hang up."""
        self._controller.close()

    def _request(self, version: int) -> AllocateProducerIdsRequest:
        del version  # There is one.
        return AllocateProducerIdsRequest(broker_id=self._broker_id, broker_epoch=self._broker_epoch())


def _not_now(reason: str) -> BrokerError:
    return BrokerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"no producer ids: {reason}")
