"""The note by which a broker tells the controller that a log directory of its own has failed."""

from __future__ import annotations

import asyncio

from sordini.protocol.types import BrokerId
from sordini.replication.controller import paths, znodes
from sordini.replication.ports import ConnectionLoss, Session, SessionExpired, SessionState

RETRY_DELAY_S = 1.0


async def tell_of_failed_directory(
    session: Session, broker_id: BrokerId, *, retry_delay_s: float = RETRY_DELAY_S
) -> None:
    """Leave the note, however long the store is away; whoever is the controller then asks what this broker still holds.

    Returns without it when the session is closed for good. A note that is left twice is fine.
    """
    note = znodes.encode_log_dir_event(broker_id)
    while session.state is not SessionState.CLOSED:
        try:
            await session.create(paths.LOG_DIR_EVENT_PREFIX, note, sequential=True)
        except (ConnectionLoss, SessionExpired):
            await asyncio.sleep(retry_delay_s)
        else:
            return
