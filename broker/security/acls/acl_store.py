"""The entries of the coordination store and the authorizer that decides by them: loading, changes, and notifications.

    start     all entries are read; a store that cannot be read refuses the start
    notified  the pattern that a notification names is read again
    session   after a new session everything is read again: notifications may have been deleted meanwhile

An entry that this broker was asked to add or remove is answered once its own authorizer decides by it. Reads of the
store never overlap: else what an earlier one found would replace what a later one did.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from sordini.broker.security.acls.authorizer import Authorizer
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.replication.cluster_model import Malformed
from sordini.replication.metadata_store import paths
from sordini.replication.metadata_store.acl_model import ResourcePattern
from sordini.replication.metadata_store.acls import (
    Entries,
    TooManyEntries,
    UnreadableEntries,
    change_entries,
    decode_notification,
    ensure_acl_paths,
    read_acls,
    read_entries,
)
from sordini.replication.metadata_store.change_notifications import ChangeNotifications
from sordini.replication.ports import Clock, CoordinationError, Logger, Session, SessionState, Spawn


class AclStore:
    """Keeps one authorizer up to date, and changes entries."""

    def __init__(
        self, session: Session, authorizer: Authorizer, spawn: Spawn, clock: Clock, log: Logger, timeout_ms: int
    ) -> None:
        """`timeout_ms` bounds the wait for a write and for this broker's notification of it."""
        self.authorizer = authorizer
        self._session = session
        self._spawn = spawn
        self._log = log
        self._timeout_s = timeout_ms / 1000
        self._writing = asyncio.Lock()
        self._reading = asyncio.Lock()
        """Held from a read of the store until the authorizer has what was found."""
        self._is_outdated = False
        """Whether everything has to be read again."""
        self._notifications = {
            directory: ChangeNotifications(session, directory, self._notified, clock, log)
            for directory in (paths.ACL_CHANGES, paths.EXTENDED_ACL_CHANGES)
        }

    async def start(self) -> None:
        """Read all entries, and follow their changes from then on. Raises CoordinationError."""
        await ensure_acl_paths(self._session)
        await self._read_all()
        for notifications in self._notifications.values():
            await notifications.start()
        self._session.on_state(self._session_changed)

    async def stop(self) -> None:
        """Follow no more changes."""
        for notifications in self._notifications.values():
            await notifications.stop()

    async def change(self, pattern: ResourcePattern, decide: Callable[[Entries], Entries]) -> None:
        """Replace the entries of a pattern by what `decide` makes of them, and wait until they are in force here.

        Raises BrokerError: INVALID_REQUEST for a name that cannot be stored, for a node that cannot be read and for too
        many entries; REQUEST_TIMED_OUT when the store or the notification is late (the change may still be applied).
        """
        try:
            async with asyncio.timeout(self._timeout_s):
                # One at a time, so that this broker's writers do not conflict with each other.
                async with self._writing:
                    written = await change_entries(self._session, pattern, decide)
                if written is not None:
                    await self._notifications[written.directory].applied(written.number)
        except (UnreadableEntries, TooManyEntries, ValueError) as error:
            raise BrokerError(ErrorCode.INVALID_REQUEST, str(error)) from None
        except (CoordinationError, TimeoutError) as error:
            raise BrokerError(ErrorCode.REQUEST_TIMED_OUT, f"the change may not be applied: {error}") from error

    def _session_changed(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED:
            self._is_outdated = True
            self._spawn(self._read_again())

    async def _read_again(self) -> None:
        async with self._reading:
            if not self._is_outdated:
                return
            self._is_outdated = False
            try:
                await self._read_all()
            except CoordinationError as error:
                # The next connection reads again; until then the entries stay as they are.
                self._log.warning("access control entries not read", reason=str(error))

    async def _read_all(self) -> None:
        found = await read_acls(self._session)
        self.authorizer.set_all({pattern: self._known(entries) for pattern, entries in found.items()})
        self._log.info("access control entries read", patterns=len(found))

    async def _notified(self, path: str, data: bytes) -> None:
        pattern = decode_notification(path, data)
        async with self._reading:
            if isinstance(pattern, Malformed):
                # It may be about any pattern.
                self._log.warning("unreadable change of access control entries", path=path, reason=pattern.reason)
                await self._read_all()
                return
            self.authorizer.set(pattern, self._known(await read_entries(self._session, pattern)))
        self._log.info(
            "access control entries changed",
            resource_type=pattern.resource_type.name,
            name=pattern.name,
            pattern_type=pattern.pattern_type.name,
        )

    def _known(self, entries: Entries | Malformed) -> Entries | None:
        if isinstance(entries, Malformed):
            self._log.error(
                "unreadable access control entries: all that they are about is denied",
                path=entries.path,
                reason=entries.reason,
            )
            return None
        return entries
