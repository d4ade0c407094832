"""Keeps a running broker out of trees that are not its cluster's, and finds out that its own is gone.

A coordination store that lost its data, was restored from an older backup, or stands for another cluster does not say
so. It shows in three ways:

  - the session has expired, and the next one finds another tree: `wait_for_cluster_tree` waits until it is the cluster's again;
  - the session lives, and the registration is gone with the tree: `registration_lost` returns;
  - the store opens new sessions and never takes this one back. A ZooKeeper server does that to every client that has
    seen a later transaction than the server has, and its data is older than the client's session then. The client is
    not told, and tries for ever: `registration_lost` returns with a session that the store opened instead.

Nothing is written before the tree is the cluster's; the broker serves on meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from sordini.broker.membership.store_contact import StoreContact
from sordini.protocol.types import BrokerId
from sordini.replication.metadata_store import paths
from sordini.replication.metadata_store.cluster_identity import mismatch
from sordini.replication.ports import (
    Clock,
    ConnectionLoss,
    CoordinationError,
    CoordinationStore,
    Log,
    Session,
    SessionExpired,
    SessionState,
)

LOOK_PAUSE_S = 1.0
"""Between two readings of a tree that is not the cluster's, and between two attempts to open a session."""
REFUSED_S = 3.0
"""For how long a store that opens new sessions may take to take back one that is over by this broker's clock. A
ZooKeeper client tries all servers again within a second or two."""


class TreeGuard:
    """The tree of one broker's cluster."""

    def __init__(
        self,
        cluster_id: str,
        broker_id: BrokerId,
        holds_replicas: Callable[[], bool],
        contact: StoreContact,
        clock: Clock,
        log: Log,
    ) -> None:
        """`holds_replicas`: whether this broker has replicas of any topic; `contact` gets to know of a lost tree."""
        self._cluster_id = cluster_id
        self._broker_id = broker_id
        self._holds_replicas = holds_replicas
        self._clock = clock
        self._log = log
        self._contact = contact

    async def wait_for_cluster_tree(self, session: Session) -> None:
        """Wait until the tree of this session is the cluster's. Raises SessionExpired, ConnectionLoss."""
        while reason := await mismatch(session, self._cluster_id, holds_replicas=self._holds_replicas()):
            self._found(reason)
            await asyncio.sleep(LOOK_PAUSE_S)
        self._found("")

    async def registration_lost(self, session: Session, store: CoordinationStore) -> Session | None:
        """Wait until this broker's registration is gone, or the session is over.

        A session that the store opened, where it does not take this one back; the caller closes it.
        """
        changed = asyncio.Event()
        session.on_state(lambda _: changed.set())
        while True:
            changed.clear()
            match session.state:
                case SessionState.CONNECTED:
                    if await self._is_unregistered(session, changed):
                        self._log.warning("registration is gone from the coordination store; registering anew")
                        return None
                case SessionState.SUSPENDED:
                    other = await self._opened_instead(session, store, changed)
                    if other is not None:
                        return other
                case _:
                    return None

    async def refused(self, session: Session, store: CoordinationStore) -> Session:
        """Wait until the store does not take this session back: one that it opened, which the caller closes."""
        changed = asyncio.Event()
        session.on_state(lambda _: changed.set())
        while True:
            changed.clear()
            if session.state is SessionState.SUSPENDED:
                other = await self._opened_instead(session, store, changed)
                if other is not None:
                    return other
            else:
                await changed.wait()

    async def _is_unregistered(self, session: Session, changed: asyncio.Event) -> bool:
        """Whether it is, now; if not, returns with the next change of the registration or the session."""
        try:
            found = await session.exists(paths.broker(self._broker_id), watch=lambda _: changed.set())
        except (ConnectionLoss, SessionExpired):
            found = None
            if session.state is SessionState.CONNECTED:
                await asyncio.sleep(LOOK_PAUSE_S)  # The state follows the call, on the loop.
            return False
        if found is None or found.ephemeral_owner != session.session_id:
            return True
        await changed.wait()
        return False

    async def _opened_instead(
        self, session: Session, store: CoordinationStore, changed: asyncio.Event
    ) -> Session | None:
        """Wait while the session may live; then a new one, if the store opens it and does not take this one back."""
        lives_until_ms = session.lives_until_ms
        if lives_until_ms is None:
            await changed.wait()
            return None
        if await _within(changed, (lives_until_ms - self._clock.monotonic_ms()) / 1000):
            return None
        try:
            other = await store.open_session()
        except CoordinationError:
            await _within(changed, LOOK_PAUSE_S)
            return None
        try:
            if await _within(changed, REFUSED_S) or session.state is not SessionState.SUSPENDED:
                await other.close()
                return None
        except asyncio.CancelledError:
            await other.close()
            raise
        self._log.warning(
            "coordination store opens new sessions and does not take this broker's back: its data is older than the "
            "session"
        )
        return other

    def _found(self, reason: str) -> None:
        """Say what is wrong with the tree, once, and once that it is mended."""
        if reason == self._contact.lost_tree:
            return
        if reason:
            self._log.error(
                "coordination store does not have this cluster's tree (wrong chroot, or restore its data): writing "
                "nothing there, serving on until it is restored",
                reason=reason,
                cluster=self._cluster_id,
            )
        else:
            self._log.info("coordination store has this cluster's tree again", cluster=self._cluster_id)
        self._contact.lost_tree = reason


async def _within(event: asyncio.Event, seconds: float) -> bool:
    """Whether the event comes in that time."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), max(0.0, seconds))
    return event.is_set()
