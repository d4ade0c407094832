"""A broker's place in its cluster: registered, standing for controller, and both anew in every session.

    a session -> registered: the broker epoch -> settings read -> a controller of this session stands for election
    the session has ended -> commands for the former registration are refused -> a new session, from the top

A session ends when the coordination store has not heard of the broker for too long; a cluster then gives it up. That
is no reason to end a broker: it registers anew, with a newer broker epoch, as soon as the store has the tree of its
cluster (`tree_guard.py`), and meanwhile it leads on in the leader epochs that it has, as Apache Kafka's brokers do;
`store_contact.py` says why that is safe, and how the store is. Nothing here holds up the loop, however long a store is
silent.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NamedTuple, assert_never

from sordini import __version__
from sordini.broker.coordination.current_session import CurrentSession
from sordini.broker.membership.store_contact import StoreContact
from sordini.broker.membership.tree_guard import TreeGuard
from sordini.replication.cluster_model import ClusterState
from sordini.replication.controller.controller import Controller
from sordini.replication.ports import (
    ConnectionLoss,
    CoordinationError,
    CoordinationStore,
    Log,
    NoNode,
    Session,
    SessionExpired,
    SessionState,
)

RETRY_DELAY_S = 0.1
"""After a call that was lost with its connection: long enough not to spin."""
RENEWAL_PAUSE_S = 1.0
"""Between attempts to open a session while the store is away."""
LEAVE_S_MAX = 2.0
"""For a store to take note that this broker is no controller any more."""


class MembershipHooks(NamedTuple):
    """What a place in the cluster means to the rest of the broker."""

    register: Callable[[Session], Awaitable[int]]
    """Take the broker's id in a session; the broker epoch. Raises RegistrationRefused."""
    broker_epoch_changed: Callable[[int], None]
    """Commands for a broker epoch below this one are for a former life."""
    reload_settings: Callable[[], Awaitable[None]]
    """What changed in the store while nobody looked."""
    new_controller: Callable[[Session], Controller]
    """Somebody who stands for controller in a session."""


class Membership:
    """The place of one broker. `join` takes it, `run` keeps it, `leave` gives it up."""

    def __init__(
        self,
        store: CoordinationStore,
        session: CurrentSession,
        hooks: MembershipHooks,
        contact: StoreContact,
        guard: TreeGuard,
        log: Log,
    ) -> None:
        self._store = store
        self._session = session
        self._hooks = hooks
        self._contact = contact
        self._guard = guard
        self._log = log
        self._reachable = asyncio.Event()
        self._reachable.set()
        self._is_over = False
        self._opened: Session | None = None
        """A session that the store opened while it does not take the present one back."""
        self.broker_epoch = -1
        """The epoch of this life; between two lives one that nobody else has and no controller accepts."""
        self.controller: Controller | None = None
        """Who stands for controller in the session of the moment, or did in the last."""
        session.on_state(self._session_changed)

    @property
    def is_active(self) -> bool:
        """Whether this broker is the controller, as far as it knows."""
        return self.controller is not None and self.controller.is_active

    @property
    def cluster(self) -> ClusterState | None:
        """What the controller in this process knows; None while it is in another."""
        return None if self.controller is None else self.controller.cluster

    async def join(self, registered: Callable[[], None] = lambda: None) -> None:
        """Take the place; returns once this broker is registered and who is controller has been decided.

        `registered` is called in between: from then on the controller connects and commands. Waits for as long as the
        store is away. Raises RegistrationRefused, StoreUnusable.
        """
        anew = False
        while not await self._take_place(self._session.current, registered, anew=anew):
            await self._renew()
            anew = True

    async def run(self) -> None:
        """Keep the place through all sessions, until cancelled. Raises as `join`."""
        while True:
            await self._place_lost()
            taken = False
            while not taken:
                await self._renew()
                taken = await self._take_place(self._session.current, lambda: None, anew=True)

    async def leave(self) -> None:
        """Resign as controller, so that another can be elected at once. The registration ends with the session.

        A store that hangs is not waited for: then the reign ends with the session, too.
        """
        if self.controller is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LEAVE_S_MAX):
                    await self.controller.stop()

    async def _place_lost(self) -> None:
        """Wait until the session is over or the registration gone, and end what goes with it."""
        controller = self.controller
        assert controller is not None, "not joined"
        lost = self._guard.registration_lost(self._session.current, self._store)
        self._opened = await _first_of(controller.wait_closed(), lost)
        self._end_life()
        await controller.stop()

    async def _take_place(self, session: Session, registered: Callable[[], None], *, anew: bool) -> bool:
        """Whether this session lasted until all was done."""
        while True:
            try:
                self._become(await self._hooks.register(session))
                registered()
                if anew:
                    await self._hooks.reload_settings()
                self.controller = self._hooks.new_controller(session)
                await self.controller.start()
            except SessionExpired:
                return False
            except NoNode as error:
                # The tree went away in the middle of it.
                self._log.warning("coordination store lacks a node of every cluster", path=error.path)
                await asyncio.sleep(RENEWAL_PAUSE_S)
                return False
            except ConnectionLoss:
                # Nobody knows what was done; each step finds what it did before.
                await asyncio.sleep(RETRY_DELAY_S)
                if not self._reachable.is_set():
                    self._opened = await _first_of(self._reachable.wait(), self._guard.refused(session, self._store))
                if self._opened is not None:
                    return False
            else:
                return True

    def _become(self, broker_epoch: int) -> None:
        if broker_epoch != self.broker_epoch:
            session = f"{self._session.session_id:#x}"
            self._log.info("registered", session=session, broker_epoch=broker_epoch, version=__version__)
        self.broker_epoch = broker_epoch
        self._hooks.broker_epoch_changed(broker_epoch)
        self._contact.registered()

    async def _renew(self) -> None:
        """Go on with a new session, however long the store is away or lacks the cluster's tree. One line per reason."""
        self._end_life()
        await self._session.current.close()
        told = ""
        while True:
            session, self._opened = self._opened, None
            try:
                session = session or await self._store.open_session()
                await self._guard.wait_for_cluster_tree(session)
            except CoordinationError as error:
                if session is not None:
                    await session.close()
                if told != str(error):
                    told = str(error)
                    self._log.warning("no new session with the coordination store yet, trying on", reason=told)
                await asyncio.sleep(RENEWAL_PAUSE_S)
            else:
                self._session.replace(session)
                self._is_over = False
                return

    def _end_life(self) -> None:
        """The session has expired: told by its state, or by a call that was faster to hear of it."""
        if self._is_over:
            return
        self._is_over = True
        # From here on nothing that was meant for the former registration may begin a term.
        self.broker_epoch += 1
        self._hooks.broker_epoch_changed(self.broker_epoch)
        self._contact.expired()

    def _session_changed(self, state: SessionState) -> None:
        match state:
            case SessionState.CONNECTED:
                self._reachable.set()
                self._contact.connected()
            case SessionState.SUSPENDED:
                self._reachable.clear()
                self._contact.disconnected(self._session.lives_until_ms)
            case SessionState.EXPIRED:
                self._reachable.set()
                self._end_life()
            case SessionState.CLOSED:
                self._reachable.set()
            case _:
                assert_never(state)


async def _first_of(other: Coroutine[Any, Any, object], opening: Coroutine[Any, Any, Session | None]) -> Session | None:
    """Wait for either; the session that the second came to, if it did. Raises what the first raises."""
    first, second = asyncio.ensure_future(other), asyncio.ensure_future(opening)
    try:
        await asyncio.wait([first, second], return_when=asyncio.FIRST_COMPLETED)
    finally:
        first.cancel()
        second.cancel()
        await asyncio.wait([first, second])
    if not first.cancelled():
        first.result()
    return None if second.cancelled() else second.result()
