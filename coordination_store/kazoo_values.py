"""kazoo's errors, events and statistics as those of the port."""

from __future__ import annotations

from typing import Final

from kazoo import exceptions as kazoo_exceptions
from kazoo.protocol.states import EventType, ZnodeStat

from sordini.replication.ports import (
    BadVersion,
    ConnectionLoss,
    CoordinationError,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotAuthorized,
    NotEmpty,
    SessionExpired,
    Stat,
    WatchKind,
)

_ERRORS: Final[dict[type[Exception], type[CoordinationError]]] = {
    kazoo_exceptions.NoNodeError: NoNode,
    kazoo_exceptions.NodeExistsError: NodeExists,
    kazoo_exceptions.BadVersionError: BadVersion,
    kazoo_exceptions.NotEmptyError: NotEmpty,
    kazoo_exceptions.NoChildrenForEphemeralsError: NoChildrenForEphemerals,
    kazoo_exceptions.SessionExpiredError: SessionExpired,
    kazoo_exceptions.ConnectionClosedError: SessionExpired,
    kazoo_exceptions.NoAuthError: NotAuthorized,
    # A list for the creator, of a session whose certificate or user ZooKeeper does not know.
    kazoo_exceptions.InvalidACLError: NotAuthorized,
}
WATCH_KINDS: Final = {
    EventType.CREATED: WatchKind.CREATED,
    EventType.CHANGED: WatchKind.CHANGED,
    EventType.DELETED: WatchKind.DELETED,
    EventType.CHILD: WatchKind.CHILDREN,
}
NOT_THE_REASON: Final = (kazoo_exceptions.RolledBackError, kazoo_exceptions.RuntimeInconsistency)
"""ZooKeeper's codes for the operations of a refused multi that were not the reason."""


def stat_of(stat: ZnodeStat) -> Stat:
    return Stat(stat.czxid, stat.mzxid, stat.ctime, stat.mtime, stat.version, stat.ephemeralOwner, stat.numChildren)


def error_of(error: Exception, path: str, index: int | None) -> CoordinationError:
    """The port's error for kazoo's. Any error that is no refusal leaves the outcome of the call unknown."""
    return _ERRORS.get(type(error), ConnectionLoss)(path, index)
