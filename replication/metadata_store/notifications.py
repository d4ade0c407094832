"""The note by which a broker tells the controller that a log directory of its own has failed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from sordini.protocol.types import BrokerId
from sordini.replication.metadata_store import paths, znodes
from sordini.replication.ports import CoordinationError, Session, SessionState

RETRY_DELAY_S = 1.0


async def notify_log_dir_failure(
    session: Session, broker_id: BrokerId, *, retry_delay_s: float = RETRY_DELAY_S
) -> None:
    """Leave the note, however long the store is away; whoever is the controller then asks what this broker still holds.

    Returns without it when the session is closed for good. A note that is left twice is fine.
    """
    note = znodes.encode_log_dir_event(broker_id)
    while session.state is not SessionState.CLOSED:
        try:
            await session.create(paths.LOG_DIR_EVENT_PREFIX, note, sequential=True)
        except CoordinationError:
            await asyncio.sleep(retry_delay_s)
        else:
            return


class LogDirFailureNotifier:
    """Leaves such notes, one at a time: however often one is due while the store is away, one task waits for it."""

    def __init__(
        self,
        session: Session,
        broker_id: BrokerId,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        *,
        retry_delay_s: float = RETRY_DELAY_S,
    ) -> None:
        self._session = session
        self._broker_id = broker_id
        self._spawn = spawn
        self._retry_delay_s = retry_delay_s
        self._is_due = False
        self._is_telling = False

    def tell(self) -> None:
        """A note is due. One that is being written may be too early to count, so another follows it."""
        self._is_due = True
        if not self._is_telling:
            self._is_telling = True
            self._spawn(self._tell())

    async def _tell(self) -> None:
        try:
            while self._is_due:
                self._is_due = False
                await notify_log_dir_failure(self._session, self._broker_id, retry_delay_s=self._retry_delay_s)
        finally:
            self._is_telling = False
