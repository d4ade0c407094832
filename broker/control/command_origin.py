"""Whether a command that came over the network is of the controller, and for this broker, that the store names.

A broker obeys the highest controller epoch that it has seen, and refuses every lower one. So an epoch that no
controller has would, once it is believed, end all administration of this broker. Therefore the store decides:

    (controller id, controller epoch) as in the last command that was found right -> taken
    anything else -> /controller and /controller_epoch are read; the command must name what they say
    a broker epoch above that of this broker's registration -> /brokers/ids/N is read; it must have that epoch

One look for each election, none for a command after it. A ZooKeeper server may be behind the one that the controller
wrote to, so a command is refused only after a look that is preceded by a write: that comes back when the server has
all that was written before. Commands of this process's own controller do not come this way.
"""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple

from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import BrokerId
from sordini.replication.cluster_model import Command
from sordini.replication.metadata_store import paths, znodes
from sordini.replication.ports import Check, ConnectionLoss, NoNode, Session, SessionExpired

RETRY_DELAY_S: Final = 0.1
"""Between two attempts to read from a store that does not answer."""
NOT_REGISTERED: Final = -1


class Claim(NamedTuple):
    """Whose a command says that it is, or who the store says may command; -1 where it does not say."""

    controller_id: int
    controller_epoch: int


class CommandOrigin:
    """Compares commands with the store. `known` is the last claim that the store confirmed."""

    def __init__(self, session: Session, broker_id: BrokerId) -> None:
        """`session` is that of the moment, whichever it is."""
        self._session = session
        self._broker_id = broker_id
        self._turn = asyncio.Lock()
        self._looks = 0
        """How many looks that are preceded by a write have begun."""
        self._seen = Claim(-1, -1)
        self.known = Claim(-1, -1)

    async def refusal(self, command: Command, broker_epoch: int) -> ErrorCode:
        """Why a command is not carried out, NONE when it is; `broker_epoch` is that of this broker's registration.

        However long the store is away: a controller does not repeat a command that was refused.
        """
        claim = Claim(command.controller_id, command.controller_epoch)
        if claim != self.known and not await self._is_right(claim):
            return ErrorCode.STALE_CONTROLLER_EPOCH
        if command.broker_epoch > broker_epoch and command.broker_epoch != await self._own_epoch():
            return ErrorCode.STALE_BROKER_EPOCH
        return ErrorCode.NONE

    async def _is_right(self, claim: Claim) -> bool:
        if claim.controller_epoch < self.known.controller_epoch:
            return False
        seen = await self._look()
        if seen != claim and seen.controller_epoch <= claim.controller_epoch:
            seen = await self._look_behind_writes()
        if seen != claim:
            return False
        self.known = max(self.known, claim, key=lambda known: known.controller_epoch)
        return True

    async def _look(self) -> Claim:
        """Who commands, as far as this broker's server of the store knows."""
        # In this order: with an election in between, the epoch is newer than the controller's, never older.
        controller, epoch = await self._read(paths.CONTROLLER), await self._read(paths.CONTROLLER_EPOCH)
        number = None if controller is None else znodes.decode_controller(controller)
        count = None if epoch is None else znodes.decode_controller_epoch(epoch)
        return Claim(number if isinstance(number, int) else -1, count if isinstance(count, int) else -1)

    async def _look_behind_writes(self) -> Claim:
        """Who commands now. One look answers all that were waiting when it began: claims cost no more than that."""
        begun = self._looks
        async with self._turn:
            if self._looks == begun:
                self._looks += 1
                await self._catch_up()
                self._seen = await self._look()
            return self._seen

    async def _catch_up(self) -> None:
        """Wait until this broker's server of the store has all that was written before."""
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
        """The epoch of the registration under this broker's id, from whichever process it is."""
        while True:
            try:
                found = await self._session.exists(paths.broker(self._broker_id))
            except (ConnectionLoss, SessionExpired):
                await asyncio.sleep(RETRY_DELAY_S)
            else:
                return NOT_REGISTERED if found is None else found.czxid
