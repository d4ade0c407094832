"""Settings kept in the store: reading an entity's, changing them, and listening to their changes.

A change is written to the entity's node together with a change notification, a numbered node under /config/changes that
names the entity: one transaction, so no change goes unnoticed. Every broker watches the notifications, remembers the
last one it has processed, and reads the entity again. Any broker deletes notifications older than fifteen minutes.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping

from sordini.replication.cluster_model import Malformed
from sordini.replication.metadata_store import paths, znodes
from sordini.replication.ports import (
    RETRY_DELAY_S,
    BadVersion,
    Check,
    Clock,
    ConnectionLoss,
    CoordinationError,
    Create,
    Log,
    NodeExists,
    NoNode,
    Session,
    SessionExpired,
    SessionState,
    Set,
)

NOTIFICATIONS_KEPT_MS = 15 * 60 * 1000
REFUSED_DELAY_S = 1.0
"""After a refusal that lasts until an operator repairs the store."""
CHANGE_TRIES_MAX = 100
"""How often in a row other writers may change the settings before an attempt gives up."""
SETTINGS_BYTES_MAX = 512 * 1024
"""Settings of one entity. ZooKeeper closes the connection of a client that writes a node of a megabyte."""


class SettingsTooLarge(ValueError):
    """More settings of one entity than the store accepts."""


async def read_config(session: Session, entity_path: str) -> dict[str, str] | Malformed:
    """The settings of an entity ("topics/orders"); empty without a node."""
    try:
        data, _ = await session.get(paths.config(entity_path))
    except NoNode:
        return {}
    return znodes.decode_config(entity_path, data)


async def change_config(
    session: Session,
    entity_path: str,
    decide: Callable[[Mapping[str, str]], Mapping[str, str]],
    *,
    guard: str | None = None,
) -> int:
    """Replace an entity's settings by what `decide` makes of them, and notify; the number of the notification.

    The write carries the version that was read: when another writer was faster, `decide` is called again with the new
    settings. It rejects by raising. Raises NoNode when the node `guard` does not exist, SettingsTooLarge, BadVersion
    after CHANGE_TRIES_MAX tries.
    """
    path = paths.config(entity_path)
    for _ in range(CHANGE_TRIES_MAX):
        try:
            data, stat = await session.get(path)
            version: int | None = stat.version
        except NoNode:
            data, version = b"", None
        found = znodes.decode_config(entity_path, data)
        # A node that cannot be decoded counts as empty, as for all readers: a change repairs it.
        settings = znodes.encode_config(decide({} if isinstance(found, Malformed) else found))
        if len(settings) > SETTINGS_BYTES_MAX:
            raise SettingsTooLarge(f"{len(settings)} bytes of settings are more than {SETTINGS_BYTES_MAX}")
        notification = Create(paths.CONFIG_CHANGE_PREFIX, znodes.encode_config_change(entity_path), sequential=True)
        write = Create(path, settings) if version is None else Set(path, settings, version)
        checks = [] if guard is None else [Check(guard)]
        try:
            *_, made = await session.multi([*checks, write, notification])
        except (BadVersion, NodeExists):
            continue
        except NoNode as missing:
            if version is None or (guard is not None and missing.index == 0):
                raise
            continue  # The settings themselves were deleted meanwhile.
        assert isinstance(made, str), made
        return _number(made)
    raise BadVersion(path)


class ConfigChanges:
    """Calls `changed(entity_path, settings)` for every change notification, in order.

    Notifications that exist at the start are replayed: those changes may be newer than what was read before. After a
    lost connection, and in a new session, they are read again.
    """

    def __init__(
        self, session: Session, changed: Callable[[str, Mapping[str, str]], None], clock: Clock, log: Log
    ) -> None:
        self._session = session
        self._changed = changed
        self._clock = clock
        self._log = log
        self._last = -1
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._reported = ""
        """The refusal that was last logged; empty when the last read succeeded."""
        self._wake = asyncio.Event()
        self._read_once = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Process the existing notifications, then listen. After the session's end it listens for the next one."""
        self._session.on_state(self._session_changed)
        self._wake.set()
        self._task = asyncio.create_task(self._run(), name="config changes")
        read_once = asyncio.ensure_future(self._read_once.wait())
        try:
            await asyncio.wait([read_once, self._task], return_when=asyncio.FIRST_COMPLETED)
        finally:
            read_once.cancel()
        if self._task.done():
            await self.stop()

    async def stop(self) -> None:
        """Stop listening. Raises what made it fail, if it did."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error

    async def applied(self, number: int) -> None:
        """Wait until the notification of this number has been processed here."""
        if self._last < number:
            seen = asyncio.get_running_loop().create_future()
            self._waiters.append((number, seen))
            await seen

    def _session_changed(self, state: SessionState) -> None:
        if state is not SessionState.SUSPENDED:
            self._wake.set()

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self._read_notifications()
            except ConnectionLoss:
                # Without a connection every attempt fails at once: only the next connection wakes this task.
                await asyncio.sleep(RETRY_DELAY_S)
                if self._session.state is not SessionState.SUSPENDED:
                    self._wake.set()
            except SessionExpired:
                # The next session wakes this task; the caller of `start` may be the one that opens it.
                self._read_once.set()
            except CoordinationError as refusal:
                # The notifications' parent is gone. It can be restored; until then settings stay as they are.
                self._refused(refusal)
                self._read_once.set()
                await asyncio.sleep(REFUSED_DELAY_S)
                self._wake.set()
            else:
                self._reported = ""
                self._read_once.set()

    def _refused(self, refusal: CoordinationError) -> None:
        """Log a refusal once, however often it is repeated."""
        if self._reported != str(refusal):
            self._reported = str(refusal)
            self._log.error("config changes cannot be read", reason=self._reported)

    async def _read_notifications(self) -> None:
        names = await self._session.children(paths.CONFIG_CHANGES, watch=self._notified)
        for number, name in sorted((_number(name), name) for name in names):
            await self._process(f"{paths.CONFIG_CHANGES}/{name}", number)

    def _notified(self, _: object) -> None:
        self._wake.set()

    async def _process(self, path: str, number: int) -> None:
        try:
            data, stat = await self._session.get(path)
        except NoNode:
            return  # Deleted by another broker, hence old.
        if number > self._last:
            await self._announce(path, data)
            self._processed(number)
        if self._clock.now_ms() - stat.created_ms > NOTIFICATIONS_KEPT_MS:
            with contextlib.suppress(NoNode):  # Another broker may be faster.
                await self._session.delete(path)

    def _processed(self, number: int) -> None:
        self._last = number
        waiters, self._waiters = self._waiters, []
        for awaited, seen in waiters:
            if awaited > number:
                self._waiters.append((awaited, seen))
            elif not seen.done():
                seen.set_result(None)

    async def _announce(self, path: str, data: bytes) -> None:
        entity_path = znodes.decode_config_change(data)
        if isinstance(entity_path, Malformed):
            self._log.warning("unreadable config change ignored", path=path, reason=entity_path.reason)
            return
        settings = await read_config(self._session, entity_path)
        if isinstance(settings, Malformed):
            self._log.warning("unreadable settings ignored", path=settings.path, reason=settings.reason)
            return
        self._changed(entity_path, settings)


def _number(name: str) -> int:
    """The number of a notification, or -1 for a node of another kind, which is never new."""
    digits = name[-10:]
    return int(digits) if digits.isascii() and digits.isdigit() else -1
