"""Changes of users' settings: requests become writes to the coordination store, which notifies every broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from sordini.broker.security.sasl.users import ScramUsers, user_entity
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.replication.metadata_store.configs import ConfigChanges, SettingsTooLarge, change_config
from sordini.replication.ports import CoordinationError, Session


class UserAdmin:
    """Changes users through the store; a change is answered once this broker has applied it."""

    def __init__(self, users: ScramUsers, session: Session, changes: ConfigChanges, timeout_ms: int) -> None:
        """`timeout_ms` bounds the wait for the write and for this broker's notification of it."""
        self.users = users
        self._session = session
        self._changes = changes
        self._timeout_s = timeout_ms / 1000
        self._lock = asyncio.Lock()

    async def alter(self, name: str, decide: Callable[[Mapping[str, str]], Mapping[str, str]]) -> None:
        """Replace a user's settings by what `decide` makes of them.

        Raises BrokerError: REQUEST_TIMED_OUT when the store or the notification is late (the change may still be
        applied), INVALID_CONFIG for more settings than the store takes.
        """
        try:
            async with asyncio.timeout(self._timeout_s):
                # One at a time, so that this broker's writers do not conflict with each other.
                async with self._lock:
                    number = await change_config(self._session, user_entity(name), decide)
                await self._changes.applied(number)
        except SettingsTooLarge as error:
            raise BrokerError(ErrorCode.INVALID_CONFIG, str(error)) from None
        except (CoordinationError, TimeoutError) as error:
            raise BrokerError(ErrorCode.REQUEST_TIMED_OUT, f"the change may not be applied: {error}") from error
