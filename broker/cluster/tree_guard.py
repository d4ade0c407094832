"""Keeps a running broker out of trees that are not its cluster's, and notices that its own tree is lost.

A coordination store that lost its data, was restored from an older backup, or belongs to another cluster gives no
explicit error. There are three symptoms:

  - the session has expired, and the next one finds another tree: `wait_for_cluster_tree` waits for the cluster's tree;
  - the session is valid, and the registration is lost with the tree: `registration_lost` returns;
  - the store opens new sessions and refuses this one. A ZooKeeper server refuses every client that has seen a later
    transaction than the server, whose data is then older than the client's session. The client gets no error and
    retries without end: `registration_lost` returns with a new session that the store has opened.

Nothing is written before the tree is the cluster's; the broker keeps serving meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from sordini.broker.cluster.store_contact import StoreContact
from sordini.protocol.types import BrokerId
from sordini.replication.metadata_store import paths
from sordini.replication.metadata_store.cluster_identity import mismatch
from sordini.replication.ports import (
    CONNECT_ATTEMPTS_MIN,
    Clock,
    ConnectionLoss,
    CoordinationError,
    CoordinationStore,
    Logger,
    Session,
    SessionExpired,
    SessionState,
)

RETRY_PAUSE_S = 1.0
"""Between two readings of a tree that is not the cluster's, and between two attempts to open a session."""
REFUSED_S = 3.0
"""How long a store that opens new sessions may take to accept one that has expired by this broker's clock, beside an
attempt to connect that was under way and gets no answer. The next attempt follows within a second or two."""


class TreeGuard:
    """Checks the tree and the registration of one broker."""

    def __init__(
        self,
        cluster_id: str,
        broker_id: BrokerId,
        holds_replicas: Callable[[], bool],
        contact: StoreContact,
        clock: Clock,
        log: Logger,
        *,
        session_timeout_ms: int,
    ) -> None:
        """`holds_replicas`: whether this broker has replicas of any topic; a lost tree is reported to `contact`."""
        self._refused_s = REFUSED_S + session_timeout_ms / CONNECT_ATTEMPTS_MIN / 1000
        self._cluster_id = cluster_id
        self._broker_id = broker_id
        self._holds_replicas = holds_replicas
        self._clock = clock
        self._log = log
        self._contact = contact

    async def wait_for_cluster_tree(self, session: Session) -> None:
        """Wait until the tree of this session is the cluster's. Raises SessionExpired, ConnectionLoss."""
        while reason := await mismatch(session, self._cluster_id, holds_replicas=self._holds_replicas()):
            self._report(reason)
            await asyncio.sleep(RETRY_PAUSE_S)
        self._report("")

    async def registration_lost(self, session: Session, store: CoordinationStore) -> Session | None:
        """Wait until this broker's registration is lost, or the session has ended.

        Returns a new session when the store refuses this one; the caller closes it.
        """
        changed = asyncio.Event()
        session.on_state(lambda _: changed.set())
        while True:
            changed.clear()
            match session.state:
                case SessionState.CONNECTED:
                    if await self._is_unregistered(session, changed):
                        self._log.warning("registration lost in the coordination store; registering again")
                        return None
                case SessionState.SUSPENDED:
                    other = await self._replacement(session, store, changed)
                    if other is not None:
                        return other
                case _:
                    return None

    async def refused(self, session: Session, store: CoordinationStore) -> Session:
        """Wait until the store refuses this session; returns a new one, which the caller closes."""
        changed = asyncio.Event()
        session.on_state(lambda _: changed.set())
        while True:
            changed.clear()
            if session.state is SessionState.SUSPENDED:
                other = await self._replacement(session, store, changed)
                if other is not None:
                    return other
            else:
                await changed.wait()

    async def _is_unregistered(self, session: Session, changed: asyncio.Event) -> bool:
        """Whether the broker is unregistered; if not, returns at the next change of the registration or the session."""
        try:
            found = await session.exists(paths.broker(self._broker_id), watch=lambda _: changed.set())
        except (ConnectionLoss, SessionExpired):
            found = None
            if session.state is SessionState.CONNECTED:
                await asyncio.sleep(RETRY_PAUSE_S)  # The state changes after the call fails, on the loop.
            return False
        if found is None or found.ephemeral_owner != session.session_id:
            return True
        await changed.wait()
        return False

    async def _replacement(self, session: Session, store: CoordinationStore, changed: asyncio.Event) -> Session | None:
        """Wait while the session may be valid; then a new one, if the store opens it and refuses this one."""
        lives_until_ms = session.lives_until_ms
        if lives_until_ms is None:
            await changed.wait()
            return None
        if await _within(changed, (lives_until_ms - self._clock.monotonic_ms()) / 1000):
            return None
        try:
            other = await store.open_session()
        except CoordinationError:
            await _within(changed, RETRY_PAUSE_S)
            return None
        try:
            if await _within(changed, self._refused_s) or session.state is not SessionState.SUSPENDED:
                await other.close()
                return None
        except asyncio.CancelledError:
            await other.close()
            raise
        self._log.warning(
            "coordination store accepts new sessions and refuses this broker's: its data is older than the session"
        )
        return other

    def _report(self, reason: str) -> None:
        """Log what is wrong with the tree, once, and once that it is restored."""
        if reason == self._contact.lost_tree:
            return
        if reason:
            self._log.error(
                "coordination store does not have this cluster's tree (wrong chroot, or restore its data): nothing is "
                "written there, the broker keeps serving",
                reason=reason,
                cluster=self._cluster_id,
            )
        else:
            self._log.info("coordination store has this cluster's tree again", cluster=self._cluster_id)
        self._contact.lost_tree = reason


async def _within(event: asyncio.Event, seconds: float) -> bool:
    """Whether the event is set within that time."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(max(0.0, seconds)):
            await event.wait()
    return event.is_set()
