"""Requests of brokers to the controller: AlterPartition, ControlledShutdown and AllocateProducerIds.

A request becomes an event of the machine, and is answered when all that follows is written. A broker that is not the
controller, or resigns meanwhile, answers NOT_CONTROLLER, and the sender repeats it: all three may be repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.types import BrokerId, TopicPartition
from sordini.replication.cluster_model import KnownState, Malformed
from sordini.replication.controller.controller import Controller, SubmitResult
from sordini.replication.controller.machine import controlled_shutdown
from sordini.replication.controller.machine.events import (
    Event,
    IsrChange,
    IsrChangesRequested,
    ProducerIdsRequested,
    ShutdownRequested,
)
from sordini.replication.metadata_store.znodes import ProducerIdBlock

BLOCK_TRIES_MAX = 10
"""Brokers of old protocols may allocate a block in between, but hardly this often in a row."""


class ControllerRequests:
    """Submits requests to the controller of this process, if that is active."""

    def __init__(self, controller: Callable[[], Controller | None]) -> None:
        """`controller` returns the present one: each session has its own."""
        self._controller = controller

    async def alter_partitions(self, request: IsrChangesRequested) -> Mapping[IsrChange, KnownState | ErrorCode]:
        """The state in the store for each change that took effect, an error code for the others.

        Raises BrokerError: NOT_CONTROLLER, STALE_BROKER_EPOCH.
        """
        submitted = await self._submit(request)
        results: dict[IsrChange, KnownState | ErrorCode] = {}
        for change, result in submitted.replies:
            if change is None:
                raise _rejected(result)
            assert not isinstance(result, ProducerIdBlock), "a change is answered by a state"
            results[change] = result
        return results

    async def shut_down(self, broker_id: BrokerId, broker_epoch: int | None) -> list[TopicPartition]:
        """Transfer a broker's leaderships; the partitions that it still leads. Without an epoch none is checked.

        Raises BrokerError: NOT_CONTROLLER, STALE_BROKER_EPOCH, BROKER_NOT_AVAILABLE.
        """
        request = ShutdownRequested(broker_id, broker_epoch)
        submitted = await self._submit(request)
        refusal = controlled_shutdown.refusal(submitted.cluster, request)
        if refusal is not None:
            raise _rejected(refusal)
        return controlled_shutdown.remaining(submitted.cluster, broker_id)

    async def allocate_producer_ids(self, broker_id: BrokerId, broker_epoch: int) -> ProducerIdBlock:
        """A block of producer ids that no broker has had before.

        Raises BrokerError: NOT_CONTROLLER, STALE_BROKER_EPOCH, BROKER_ID_NOT_REGISTERED, UNKNOWN_SERVER_ERROR when
        the last block cannot be read or there are no ids left; CoordinationError when the store does not answer.
        """
        for _ in range(BLOCK_TRIES_MAX):
            last, version = await self._local_controller().last_producer_id_block()
            if isinstance(last, Malformed):
                raise BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{last.path} cannot be read: {last.reason}")
            submitted = await self._submit(ProducerIdsRequested(broker_id, broker_epoch, last, version))
            for reply in submitted.replies:
                if isinstance(reply.result, ProducerIdBlock):
                    return reply.result
                if reply.result is not ErrorCode.INVALID_UPDATE_VERSION:
                    raise _rejected(reply.result)
        raise BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, "other brokers allocated every block first")

    async def _submit(self, event: Event) -> SubmitResult:
        submitted = await self._local_controller().submit(event)
        if submitted is None:
            raise _not_controller()
        return submitted

    def _local_controller(self) -> Controller:
        controller = self._controller()
        if controller is None:
            raise _not_controller()
        return controller


def _not_controller() -> BrokerError:
    return BrokerError(ErrorCode.NOT_CONTROLLER, "this broker is not the controller")


def _rejected(result: object) -> BrokerError:
    assert isinstance(result, ErrorCode), result
    return BrokerError(result, "the controller rejected the request")
