"""LogDirEventNotification: how a broker notifies the controller of a failed log directory (KIP-112)."""

from __future__ import annotations

import asyncio

from sordini.protocol.types import BrokerId
from sordini.replication.metadata_store import paths, znodes
from sordini.replication.ports import CoordinationError, Session, SessionState, Spawn

REWRITE_DELAY_S = 1.0


async def notify_log_dir_failure(
    session: Session, broker_id: BrokerId, *, retry_delay_s: float = REWRITE_DELAY_S
) -> None:
    """Write the notification, however long the store is unavailable; the controller then surveys the broker's replicas.

    Returns without it once the session is closed. A duplicate notification is harmless.
    """
    notification = znodes.encode_log_dir_event(broker_id)
    while session.state is not SessionState.CLOSED:
        try:
            await session.create(paths.LOG_DIR_EVENT_PREFIX, notification, sequential=True)
        except CoordinationError:
            await asyncio.sleep(retry_delay_s)
        else:
            return


class LogDirFailureNotifier:
    """Writes such notifications in one task, however many failures there are while the store is unavailable."""

    def __init__(
        self,
        session: Session,
        broker_id: BrokerId,
        spawn: Spawn,
        *,
        retry_delay_s: float = REWRITE_DELAY_S,
    ) -> None:
        self._session = session
        self._broker_id = broker_id
        self._spawn = spawn
        self._retry_delay_s = retry_delay_s
        self._is_due = False
        self._is_writing = False

    def notify(self) -> None:
        """A log directory failed. A notification being written may have been too early, so another one follows it."""
        self._is_due = True
        if not self._is_writing:
            self._is_writing = True
            self._spawn(self._write())

    async def _write(self) -> None:
        try:
            while self._is_due:
                self._is_due = False
                await notify_log_dir_failure(self._session, self._broker_id, retry_delay_s=self._retry_delay_s)
        finally:
            self._is_writing = False
