"""Reading all entities of one type that have settings of their own, as a broker joins the cluster or comes back.

Each is handed over as soon as it is read: a notification that comes in between has newer settings of the entity.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sordini.replication.cluster_model import Malformed
from sordini.replication.metadata_store import paths
from sordini.replication.metadata_store.configs import read_config
from sordini.replication.ports import Logger, NoNode, Session
from sordini.system.named_tuple import NamedTuple


class EntityType(NamedTuple):
    """prefix: of the paths of its entities ("groups/"); the others turn a path into a name, and back."""

    prefix: str
    name_of: Callable[[str], str]
    path_of: Callable[[str], str]


async def load_entities(
    session: Session,
    kind: EntityType,
    known: Mapping[str, object],
    changed: Callable[[str, Mapping[str, str]], None],
    log: Logger,
) -> None:
    """Call `changed` with the path and the settings of each entity, and without settings for those that are gone.

    `known` has what is known by name, with another object after each change. Raises CoordinationError.
    """
    before = dict(known)
    found = set()
    for path in await _paths(session, kind):
        settings = await read_config(session, path)
        if isinstance(settings, Malformed):
            log.warning("unreadable settings ignored", path=settings.path, reason=settings.reason)
            continue
        found.add(kind.name_of(path))
        changed(path, settings)
    for name, former in before.items():
        # One that changed meanwhile has other settings by now.
        if name not in found and known.get(name) is former:
            changed(kind.path_of(name), {})


async def _paths(session: Session, kind: EntityType) -> list[str]:
    try:
        return [kind.prefix + name for name in await session.children(paths.config(kind.prefix.rstrip("/")))]
    except NoNode:
        return []
