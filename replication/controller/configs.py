"""Settings kept in the store: reading an entity's, and hearing of changes to them.

A change is written to the entity's node, and then told by a numbered note under /config/changes that names the
entity. Every broker watches the notes, remembers the last it has dealt with, and reads the entity again. Notes older
than fifteen minutes are removed by whoever comes past.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping

from sordini.replication.controller import paths, znodes
from sordini.replication.controller.cluster import Malformed
from sordini.replication.ports import Clock, ConnectionLoss, Log, NoNode, Session, SessionExpired, SessionState

NOTES_KEPT_MS = 15 * 60 * 1000
RETRY_DELAY_S = 0.1


async def read_config(session: Session, entity_path: str) -> dict[str, str] | Malformed:
    """The settings of an entity ("topics/orders"); none when it has no node."""
    try:
        data, _ = await session.get(paths.config(entity_path))
    except NoNode:
        return {}
    return znodes.decode_config(entity_path, data)


class ConfigChanges:
    """Calls `changed(entity_path, settings)` after every change that is announced, in the order of the notes.

    Notes that are there at the start are replayed: what they announce may be newer than what was read so far.
    """

    def __init__(
        self, session: Session, changed: Callable[[str, Mapping[str, str]], None], clock: Clock, log: Log
    ) -> None:
        self._session = session
        self._changed = changed
        self._clock = clock
        self._log = log
        self._last = -1
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Deal with the notes there are, then listen."""
        self._session.on_state(self._session_changed)
        await self._look()
        self._task = asyncio.create_task(self._run(), name="config changes")

    async def stop(self) -> None:
        """Stop listening. Raises what listening died of, if it did."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error

    def _session_changed(self, state: SessionState) -> None:
        if state is not SessionState.SUSPENDED:
            self._wake.set()

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self._look()
            except ConnectionLoss:
                # Without a connection this fails at once; the next connection wakes too.
                await asyncio.sleep(RETRY_DELAY_S)
                self._wake.set()
            except SessionExpired:
                return

    async def _look(self) -> None:
        names = await self._session.children(paths.CONFIG_CHANGES, watch=self._noted)
        for number, name in sorted((_number(name), name) for name in names):
            await self._take(f"{paths.CONFIG_CHANGES}/{name}", number)

    def _noted(self, _: object) -> None:
        self._wake.set()

    async def _take(self, path: str, number: int) -> None:
        try:
            data, stat = await self._session.get(path)
        except NoNode:
            return  # Removed by another broker, hence old.
        if number > self._last:
            await self._announce(path, data)
            self._last = number
        if self._clock.now_ms() - stat.created_ms > NOTES_KEPT_MS:
            with contextlib.suppress(NoNode):  # Another broker may be faster.
                await self._session.delete(path)

    async def _announce(self, path: str, data: bytes) -> None:
        entity_path = znodes.decode_config_change(data)
        if isinstance(entity_path, Malformed):
            self._log.warning("unreadable note of a change left out", path=path, reason=entity_path.reason)
            return
        settings = await read_config(self._session, entity_path)
        if isinstance(settings, Malformed):
            self._log.warning("unreadable settings left out", path=settings.path, reason=settings.reason)
            return
        self._changed(entity_path, settings)


def _number(name: str) -> int:
    """The number of a note, or -1 for a node of another kind, which is never news."""
    digits = name[-10:]
    return int(digits) if digits.isascii() and digits.isdigit() else -1
