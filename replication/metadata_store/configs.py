"""Settings kept in the store: reading an entity's, changing them, and hearing of changes to them.

A change is written to the entity's node, and told by a numbered note under /config/changes that names the entity;
ours are one transaction, so that no change stays unheard of. Every broker watches the notes, remembers the last it
has dealt with, and reads the entity again. Notes older than fifteen minutes are removed by whoever comes past.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping

from sordini.replication.cluster_model import Malformed
from sordini.replication.metadata_store import paths, znodes
from sordini.replication.ports import (
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
RETRY_DELAY_S = 0.1
REFUSED_DELAY_S = 1.0
"""After a refusal that lasts until an operator mends the store."""
CHANGE_TRIES_MAX = 100
"""How often in a row others may change the settings that are to be changed."""
SETTINGS_BYTES_MAX = 512 * 1024
"""Settings of one entity. ZooKeeper drops the connection of whoever sends it a node of a megabyte."""


class SettingsTooLarge(ValueError):
    """More settings of one entity than the store takes."""


async def read_config(session: Session, entity_path: str) -> dict[str, str] | Malformed:
    """The settings of an entity ("topics/orders"); none when it has no node."""
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
    """Replace an entity's settings by what `decide` makes of them, and announce it; the number of the note.

    The write carries the version that was read: when somebody else was faster, `decide` is asked again, about what
    they wrote. It refuses by raising. Raises NoNode when the node `guard` is not there, SettingsTooLarge,
    BadVersion after CHANGE_TRIES_MAX tries.
    """
    path = paths.config(entity_path)
    for _ in range(CHANGE_TRIES_MAX):
        try:
            data, stat = await session.get(path)
            version: int | None = stat.version
        except NoNode:
            data, version = b"", None
        found = znodes.decode_config(entity_path, data)
        # What nobody can read is nothing, here as for whoever reads it: a change is what mends such a node.
        wanted = znodes.encode_config(decide({} if isinstance(found, Malformed) else found))
        if len(wanted) > SETTINGS_BYTES_MAX:
            raise SettingsTooLarge(f"{len(wanted)} bytes of settings are more than {SETTINGS_BYTES_MAX}")
        note = Create(paths.CONFIG_CHANGE_PREFIX, znodes.encode_config_change(entity_path), sequential=True)
        write = Create(path, wanted) if version is None else Set(path, wanted, version)
        checks = [] if guard is None else [Check(guard)]
        try:
            *_, made = await session.multi([*checks, write, note])
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
    """Calls `changed(entity_path, settings)` after every change that is announced, in the order of the notes.

    Notes that are there at the start are replayed: what they announce may be newer than what was read so far. After a
    lost connection, or in a new session, it looks again.
    """

    def __init__(
        self, session: Session, changed: Callable[[str, Mapping[str, str]], None], clock: Clock, log: Log
    ) -> None:
        self._session = session
        self._changed = changed
        self._clock = clock
        self._log = log
        self._last = -1
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._told_of = ""
        """The refusal that was last written; empty when the last look succeeded."""
        self._wake = asyncio.Event()
        self._looked = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Deal with the notes there are, then listen. In a session that is over it listens for the next one."""
        self._session.on_state(self._session_changed)
        self._wake.set()
        self._task = asyncio.create_task(self._run(), name="config changes")
        looked = asyncio.ensure_future(self._looked.wait())
        try:
            await asyncio.wait([looked, self._task], return_when=asyncio.FIRST_COMPLETED)
        finally:
            looked.cancel()
        if self._task.done():
            await self.stop()

    async def stop(self) -> None:
        """Stop listening. Raises what listening died of, if it did."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error

    async def applied(self, number: int) -> None:
        """Wait until what the note of this number announces has been dealt with here."""
        if self._last < number:
            seen = asyncio.get_running_loop().create_future()
            self._waiting.append((number, seen))
            await seen

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
                # Without a connection every try would fail at once: the next connection wakes, and nothing before.
                await asyncio.sleep(RETRY_DELAY_S)
                if self._session.state is not SessionState.SUSPENDED:
                    self._wake.set()
            except SessionExpired:
                # The next session wakes, if there is one; whoever starts this may be the one to open it.
                self._looked.set()
            except CoordinationError as refusal:
                # The directory of the notes is gone. It can be restored; until then settings stay as they are.
                self._refused(refusal)
                self._looked.set()
                await asyncio.sleep(REFUSED_DELAY_S)
                self._wake.set()
            else:
                self._told_of = ""
                self._looked.set()

    def _refused(self, refusal: CoordinationError) -> None:
        """Written once, however often it is tried."""
        if self._told_of != str(refusal):
            self._told_of = str(refusal)
            self._log.error("changes of settings cannot be read", reason=self._told_of)

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
            self._dealt_with(number)
        if self._clock.now_ms() - stat.created_ms > NOTIFICATIONS_KEPT_MS:
            with contextlib.suppress(NoNode):  # Another broker may be faster.
                await self._session.delete(path)

    def _dealt_with(self, number: int) -> None:
        self._last = number
        waiting, self._waiting = self._waiting, []
        for wanted, seen in waiting:
            if wanted > number:
                self._waiting.append((wanted, seen))
            elif not seen.done():
                seen.set_result(None)

    async def _announce(self, path: str, data: bytes) -> None:
        entity_path = znodes.decode_config_change(data)
        if isinstance(entity_path, Malformed):
            self._log.warning("unreadable note of a change left out", path=path, reason=entity_path.reason)
            return
        settings = await read_config(self._session, entity_path)
        if isinstance(settings, Malformed):
            self._log.warning("unreadable settings ignored", path=settings.path, reason=settings.reason)
            return
        self._changed(entity_path, settings)


def _number(name: str) -> int:
    """The number of a note, or -1 for a node of another kind, which is never news."""
    digits = name[-10:]
    return int(digits) if digits.isascii() and digits.isdigit() else -1
