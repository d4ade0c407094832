"""What brokers ask of the controller: other in-sync sets, to be relieved before they stop, and producer ids.

A question becomes an event, and is answered when all that follows from it is written. Whoever asks a broker that does
not reign, or stops reigning meanwhile, hears NOT_CONTROLLER and asks again: the three questions may be asked twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.types import BrokerId, TopicPartition
from sordini.replication.cluster_model import KnownState, Malformed
from sordini.replication.controller.controller import Controller
from sordini.replication.controller.machine import shutdowns
from sordini.replication.controller.machine.events import (
    Event,
    IsrChange,
    IsrChangesRequested,
    ProducerIdsRequested,
    ShutdownRequested,
)
from sordini.replication.controller.store_signals import SubmitResult
from sordini.replication.metadata_store.znodes import ProducerIdBlock

BLOCK_TRIES_MAX = 10
"""Other brokers may take a block in between (those of old protocols do), but hardly so often in a row."""


class ControllerRequests:
    """Asks the controller of this process, if there is one and it reigns."""

    def __init__(self, controller: Callable[[], Controller | None]) -> None:
        """`controller` tells the one of the moment: each session has its own."""
        self._controller = controller

    async def alter_partitions(self, wanted: IsrChangesRequested) -> Mapping[IsrChange, KnownState | ErrorCode]:
        """The state in the store for each change that has come about, or why it has not.

        Raises BrokerError: NOT_CONTROLLER, STALE_BROKER_EPOCH.
        """
        taken = await self._submit(wanted)
        verdicts: dict[IsrChange, KnownState | ErrorCode] = {}
        for change, verdict in taken.replies:
            if change is None:
                raise _refused(verdict)
            assert not isinstance(verdict, ProducerIdBlock), "a change is answered by a state"
            verdicts[change] = verdict
        return verdicts

    async def shut_down(self, broker_id: BrokerId, broker_epoch: int | None) -> list[TopicPartition]:
        """Take a broker's leaderships over; what it still leads. Without an epoch it is not compared.

        Raises BrokerError: NOT_CONTROLLER, STALE_BROKER_EPOCH, BROKER_NOT_AVAILABLE.
        """
        wanted = ShutdownRequested(broker_id, broker_epoch)
        taken = await self._submit(wanted)
        refusal = shutdowns.refusal(taken.cluster, wanted)
        if refusal is not None:
            raise _refused(refusal)
        return shutdowns.remaining(taken.cluster, broker_id)

    async def allocate_producer_ids(self, broker_id: BrokerId, broker_epoch: int) -> ProducerIdBlock:
        """A block of producer ids that nobody else has or had.

        Raises BrokerError: NOT_CONTROLLER, STALE_BROKER_EPOCH, BROKER_ID_NOT_REGISTERED, UNKNOWN_SERVER_ERROR when
        the block taken last cannot be read or there are no ids left; CoordinationError when the store does not answer.
        """
        for _ in range(BLOCK_TRIES_MAX):
            last, version = await self._candidate().last_producer_ids()
            if isinstance(last, Malformed):
                raise BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{last.path} cannot be read: {last.reason}")
            taken = await self._submit(ProducerIdsRequested(broker_id, broker_epoch, last, version))
            for reply in taken.replies:
                if isinstance(reply.verdict, ProducerIdBlock):
                    return reply.verdict
                if reply.verdict is not ErrorCode.INVALID_UPDATE_VERSION:
                    raise _refused(reply.verdict)
        raise BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, "others took every block that was to be taken")

    async def _submit(self, event: Event) -> SubmitResult:
        taken = await self._candidate().submit(event)
        if taken is None:
            raise _not_controller()
        return taken

    def _candidate(self) -> Controller:
        controller = self._controller()
        if controller is None:
            raise _not_controller()
        return controller


def _not_controller() -> BrokerError:
    return BrokerError(ErrorCode.NOT_CONTROLLER, "this broker is not the controller")


def _refused(verdict: object) -> BrokerError:
    assert isinstance(verdict, ErrorCode), verdict
    return BrokerError(verdict, "the controller refuses it")
