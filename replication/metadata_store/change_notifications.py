"""Change notifications in the store: numbered nodes under one directory, each of which names what has changed.

Every broker watches a directory, remembers the last notification that it has processed, and reads again what the new
ones name. Any broker deletes notifications older than fifteen minutes.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from sordini.replication.ports import (
    RETRY_DELAY_S,
    Clock,
    ConnectionLoss,
    CoordinationError,
    Logger,
    NoNode,
    Session,
    SessionExpired,
    SessionState,
)

NOTIFICATIONS_KEPT_MS = 15 * 60 * 1000
REFUSED_DELAY_S = 1.0
"""After a refusal that lasts until an operator repairs the store."""


class ChangeNotifications:
    """Calls `announce(path, data)` for every notification of one directory, in order.

    Notifications that exist at the start are replayed: those changes may be newer than what was read before. After a
    lost connection, and in a new session, they are read again.
    """

    def __init__(
        self,
        session: Session,
        directory: str,
        announce: Callable[[str, bytes], Awaitable[None]],
        clock: Clock,
        log: Logger,
    ) -> None:
        self._session = session
        self._directory = directory
        self._announce = announce
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
        self._task = asyncio.create_task(self._run(), name=f"change notifications of {self._directory}")
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
            self._log.error("change notifications cannot be read", path=self._directory, reason=self._reported)

    async def _read_notifications(self) -> None:
        names = await self._session.children(self._directory, watch=self._notified)
        for number, name in sorted((number_of(name), name) for name in names):
            await self._process(f"{self._directory}/{name}", number)

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


def number_of(name: str) -> int:
    """The number of a notification, or -1 for a node of another kind, which is never new."""
    digits = name[-10:]
    return int(digits) if digits.isascii() and digits.isdigit() else -1
