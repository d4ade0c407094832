"""Changes of the settings of users, client ids and addresses: requests become writes to the coordination store.

The store notifies every broker. Credentials and quotas of a user are in one node, so both are changed here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.replication.metadata_store import paths
from sordini.replication.metadata_store.configs import ConfigChanges, SettingsTooLarge, change_config
from sordini.replication.ports import CoordinationError, Create, NodeExists, Session


class EntityAdmin:
    """Changes entities through the store; a change is answered once this broker has applied it."""

    def __init__(self, session: Session, changes: ConfigChanges, timeout_ms: int) -> None:
        """`timeout_ms` bounds the wait for the write and for this broker's notification of it."""
        self._session = session
        self._changes = changes
        self._timeout_s = timeout_ms / 1000
        self._lock = asyncio.Lock()

    async def alter(self, entity_path: str, decide: Callable[[Mapping[str, str]], Mapping[str, str]]) -> None:
        """Replace an entity's settings by what `decide` makes of them.

        Raises BrokerError: REQUEST_TIMED_OUT when the store or the notification is late (the change may still be
        applied), INVALID_CONFIG for more settings than the store takes.
        """
        try:
            async with asyncio.timeout(self._timeout_s):
                # One at a time, so that this broker's writers do not conflict with each other.
                async with self._lock:
                    await self._make_parents(entity_path)
                    number = await change_config(self._session, entity_path, decide)
                await self._changes.applied(number)
        except SettingsTooLarge as error:
            raise BrokerError(ErrorCode.INVALID_CONFIG, str(error)) from None
        except (CoordinationError, TimeoutError) as error:
            raise BrokerError(ErrorCode.REQUEST_TIMED_OUT, f"the change may not be applied: {error}") from error

    async def _make_parents(self, entity_path: str) -> None:
        """Nodes above the entity's that may be missing: a user with quotas by client id only, the root of addresses."""
        steps = entity_path.split("/")
        for length in range(1, len(steps)):
            above = paths.config("/".join(steps[:length]))
            if await self._session.exists(above) is None:
                try:
                    await self._session.multi([Create(above)])
                except NodeExists:
                    continue
