"""Whether a command from the network is from the controller that the store names, and for this broker.

A broker obeys the highest controller epoch that it has seen and refuses lower ones. A forged high epoch, once accepted,
would therefore end all administration of this broker. So the store decides:

    (controller id, controller epoch) as in the last accepted command -> accepted
    any other -> /controller and /controller_epoch are read; the command must match them
    a broker epoch above that of this broker's registration -> /brokers/ids/N is read; it must have that epoch

This costs one read for each election, and none for later commands. A ZooKeeper server may lag behind the one that the
controller wrote to, so a command is refused only after a read that follows a write: the write is answered once the
server has all earlier writes. Commands of this process's own controller are not checked.
"""

from __future__ import annotations

import asyncio
from typing import Final

from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import BrokerId
from sordini.replication.cluster_model import Command
from sordini.replication.metadata_store import paths, znodes
from sordini.replication.ports import RETRY_DELAY_S, Check, ConnectionLoss, NoNode, Session, SessionExpired
from sordini.system.named_tuple import NamedTuple

NOT_REGISTERED: Final = -1


class ClaimedController(NamedTuple):
    """The controller by a command or by the store; -1 for an absent value."""

    controller_id: int
    controller_epoch: int


class CommandOrigin:
    """Compares commands with the store. `known` is the last controller that the store confirmed."""

    def __init__(self, session: Session, broker_id: BrokerId) -> None:
        """`session` is the current one, across renewals."""
        self._session = session
        self._broker_id = broker_id
        self._lock = asyncio.Lock()
        self._synced_reads = 0
        """How many reads that follow a write have begun."""
        self._seen = ClaimedController(-1, -1)
        self.known = ClaimedController(-1, -1)

    async def refusal(self, command: Command, broker_epoch: int) -> ErrorCode:
        """Why a command is not carried out, NONE when it is; `broker_epoch` is that of this broker's registration.

        Retried for as long as the store is unreachable: a controller does not repeat a command that was refused.
        """
        claim = ClaimedController(command.controller_id, command.controller_epoch)
        if claim != self.known and not await self._is_right(claim):
            return ErrorCode.STALE_CONTROLLER_EPOCH
        if command.broker_epoch > broker_epoch and command.broker_epoch != await self._own_epoch():
            return ErrorCode.STALE_BROKER_EPOCH
        return ErrorCode.NONE

    async def _is_right(self, claim: ClaimedController) -> bool:
        if claim.controller_epoch < self.known.controller_epoch:
            return False
        seen = await self._read_controller()
        if seen != claim and seen.controller_epoch <= claim.controller_epoch:
            seen = await self._read_controller_after_write()
        if seen != claim:
            return False
        self.known = max(self.known, claim, key=lambda known: known.controller_epoch)
        return True

    async def _read_controller(self) -> ClaimedController:
        """The controller, as this broker's ZooKeeper server knows it."""
        # In this order: with an election in between, the epoch is newer than the controller, never older.
        controller, epoch = await self._read(paths.CONTROLLER), await self._read(paths.CONTROLLER_EPOCH)
        number = None if controller is None else znodes.decode_controller(controller)
        count = None if epoch is None else znodes.decode_controller_epoch(epoch)
        return ClaimedController(number if isinstance(number, int) else -1, count if isinstance(count, int) else -1)

    async def _read_controller_after_write(self) -> ClaimedController:
        """The controller now. One read serves all callers that waited when it began, so forged claims cost no more."""
        begun = self._synced_reads
        async with self._lock:
            if self._synced_reads == begun:
                self._synced_reads += 1
                await self._sync()
                self._seen = await self._read_controller()
            return self._seen

    async def _sync(self) -> None:
        """Wait until this broker's ZooKeeper server has all earlier writes."""
        while True:
            try:
                await self._session.multi([Check(paths.CONTROLLER_EPOCH)])
            except (ConnectionLoss, SessionExpired):
                await asyncio.sleep(RETRY_DELAY_S)
            except NoNode:
                return
            else:
                return

    async def _read(self, path: str) -> bytes | None:
        while True:
            try:
                return (await self._session.get(path))[0]
            except NoNode:
                return None
            except (ConnectionLoss, SessionExpired):
                await asyncio.sleep(RETRY_DELAY_S)

    async def _own_epoch(self) -> int:
        """The epoch of the registration under this broker's id, whichever process registered it."""
        while True:
            try:
                found = await self._session.exists(paths.broker(self._broker_id))
            except (ConnectionLoss, SessionExpired):
                await asyncio.sleep(RETRY_DELAY_S)
            else:
                return NOT_REGISTERED if found is None else found.czxid
