"""Settings kept in the store: reading an entity's, changing them, and listening to their changes.

A change is written to the entity's node together with a change notification, a numbered node under /config/changes that
names the entity: one transaction, so no change goes unnoticed. Every broker watches the notifications, remembers the
last one it has processed, and reads the entity again. Any broker deletes notifications older than fifteen minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sordini.replication.cluster_model import Malformed
from sordini.replication.metadata_store import paths, znodes
from sordini.replication.metadata_store.change_notifications import ChangeNotifications, number_of
from sordini.replication.ports import (
    BadVersion,
    Check,
    Clock,
    Create,
    Logger,
    NodeExists,
    NoNode,
    Session,
    Set,
)

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
        return number_of(made)
    raise BadVersion(path)


class ConfigChanges(ChangeNotifications):
    """Calls `changed(entity_path, settings)` for every change notification, in order."""

    def __init__(
        self, session: Session, changed: Callable[[str, Mapping[str, str]], None], clock: Clock, log: Logger
    ) -> None:
        super().__init__(session, paths.CONFIG_CHANGES, self._read_again, clock, log)
        self._changed = changed

    async def _read_again(self, path: str, data: bytes) -> None:
        entity_path = znodes.decode_config_change(data)
        if isinstance(entity_path, Malformed):
            self._log.warning("unreadable config change ignored", path=path, reason=entity_path.reason)
            return
        settings = await read_config(self._session, entity_path)
        if isinstance(settings, Malformed):
            self._log.warning("unreadable settings ignored", path=settings.path, reason=settings.reason)
            return
        self._changed(entity_path, settings)
