"""Carries out the writes of the controller's machine, each guarded by the controller epoch.

Every write is a multi with a check of the /controller_epoch version at the election: a former controller cannot
overwrite decisions of a newer one, however late it is.
"""

from __future__ import annotations

import asyncio

from sordini.replication.controller.machine.events import (
    Conflict,
    Done,
    NewIsr,
    NewState,
    Outcome,
    StoreWrite,
    StoreWriteRefused,
)
from sordini.replication.controller.store_reader import READS_IN_FLIGHT_MAX, StoreReader
from sordini.replication.metadata_store import paths
from sordini.replication.ports import (
    BadVersion,
    Check,
    ConnectionLoss,
    CoordinationError,
    Create,
    Logger,
    NodeExists,
    NoNode,
    Session,
    SessionExpired,
    Stat,
)


class NoLongerController(Exception):
    """A guarded write found another controller epoch."""


class StoreWriter:
    """Writes in one session."""

    def __init__(self, session: Session, reader: StoreReader, log: Logger) -> None:
        self._session = session
        self._reader = reader
        self._log = log

    async def write_all(
        self, writes: tuple[StoreWrite, ...], guard_version: int
    ) -> tuple[tuple[StoreWrite, Outcome], ...]:
        """Write in order, pipelined: the store executes the calls of one session in order.

        `guard_version` is that of /controller_epoch's node since the election. Raises NoLongerController.
        """
        guard = Check(paths.CONTROLLER_EPOCH, guard_version)
        outcomes: list[Outcome] = []
        for start in range(0, len(writes), READS_IN_FLIGHT_MAX):
            batch = writes[start : start + READS_IN_FLIGHT_MAX]
            outcomes += await asyncio.gather(*(self._write(guard, write) for write in batch))
        return tuple(zip(writes, outcomes, strict=True))

    async def catch_up(self, guard_version: int) -> None:
        """Wait until this session's server of the store has all writes of this controller.

        After a reconnect it may be another server, which lags. Raises NoLongerController.
        """
        try:
            await self._session.multi([Check(paths.CONTROLLER_EPOCH, guard_version)])
        except (BadVersion, NoNode) as refusal:
            raise NoLongerController from refusal

    async def _write(self, guard: Check, write: StoreWrite) -> Outcome:
        try:
            _, result = await self._session.multi([guard, write.operation])
        except (ConnectionLoss, SessionExpired):
            raise
        except CoordinationError as refusal:
            if refusal.index == 0:
                raise NoLongerController from refusal
            return await self._refused(write, refusal)
        return Done(result.version if isinstance(result, Stat) else 0)

    async def _refused(self, write: StoreWrite, refusal: CoordinationError) -> Outcome:
        if isinstance(write.purpose, NewState | NewIsr):
            return Conflict(await self._reader.state(write.purpose.topic_partition))
        exists_already = isinstance(write.operation, Create) and isinstance(refusal, NodeExists)
        deleted_already = not isinstance(write.operation, Create) and isinstance(refusal, NoNode)
        if exists_already or deleted_already:
            return Done(0)
        self._log.warning("write refused", path=write.operation.path, reason=str(refusal))
        return StoreWriteRefused(str(refusal))
