"""A broker's membership of its cluster: its registration and its controller, renewed in every session.

    a session -> registered: the broker epoch -> settings read -> a controller of this session stands for election
    the session expired -> commands for the former registration are refused -> a new session, from the top

A session expires when the store receives nothing from the broker for the session timeout; the cluster then treats the
broker as failed. The broker does not stop: it registers again, with a newer broker epoch, as soon as the store has the
tree of its cluster (`tree_guard.py`). Meanwhile it keeps leading in its current leader epochs, as Apache Kafka's
brokers do; `store_contact.py` says why that is safe. Nothing here blocks the loop, however long a store is silent.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, assert_never

from sordini import __version__
from sordini.broker.cluster.store_contact import StoreContact
from sordini.broker.cluster.tree_guard import TreeGuard
from sordini.coordination_store.current_session import CurrentSession
from sordini.replication.cluster_model import ClusterState
from sordini.replication.controller.controller import Controller
from sordini.replication.ports import (
    RETRY_DELAY_S,
    ConnectionLoss,
    CoordinationError,
    CoordinationStore,
    Logger,
    NoNode,
    NotAuthorized,
    Session,
    SessionExpired,
    SessionState,
    StoreUnusable,
)
from sordini.system.named_tuple import NamedTuple

RENEWAL_PAUSE_S = 1.0
"""Between attempts to open a session while the store is unreachable."""
LEAVE_S_MAX = 2.0
"""How long the resignation as controller may take."""


class MembershipHooks(NamedTuple):
    """What the rest of the broker does at the events of a membership."""

    register: Callable[[Session], Awaitable[int]]
    """Register in a session; returns the broker epoch. Raises RegistrationRefused."""
    broker_epoch_changed: Callable[[int], None]
    """Commands with a lower broker epoch are for a former registration."""
    reload_settings: Callable[[], Awaitable[None]]
    """Read what changed in the store between two sessions."""
    new_controller: Callable[[Session], Controller]
    """The controller that stands for election in a session."""


class Membership:
    """The membership of one broker: `join` registers, `run` renews, `leave` resigns."""

    def __init__(
        self,
        store: CoordinationStore,
        session: CurrentSession,
        hooks: MembershipHooks,
        contact: StoreContact,
        guard: TreeGuard,
        log: Logger,
    ) -> None:
        self._store = store
        self._session = session
        self._hooks = hooks
        self._contact = contact
        self._guard = guard
        self._log = log
        self._reachable = asyncio.Event()
        self._reachable.set()
        self._has_ended = False
        self._opened: Session | None = None
        """A new session that the store opened while it refuses the current one."""
        self.broker_epoch = -1
        """The epoch of the current registration; between two registrations one that no controller uses."""
        self.controller: Controller | None = None
        """The controller of the current session, or of the last one."""
        session.on_state(self._session_changed)

    @property
    def is_active(self) -> bool:
        """Whether this broker is the controller, by its own knowledge."""
        return self.controller is not None and self.controller.is_active

    @property
    def cluster(self) -> ClusterState | None:
        """The cluster as this process's controller knows it; None while another broker is controller."""
        return None if self.controller is None else self.controller.cluster

    async def join(self, registered: Callable[[], None] = lambda: None) -> None:
        """Register; returns once this broker is registered and a controller is elected.

        `registered` is called in between: from then on the controller connects and sends commands. Waits for as long as
        the store is unreachable. Raises RegistrationRefused, StoreUnusable.
        """
        is_renewal = False
        while not await self._register(self._session.current, registered, is_renewal=is_renewal):
            await self._renew()
            is_renewal = True

    async def run(self) -> None:
        """Renew the registration through all sessions, until cancelled. Raises as `join`."""
        while True:
            await self._registration_lost()
            is_registered = False
            while not is_registered:
                await self._renew()
                is_registered = await self._register(self._session.current, lambda: None, is_renewal=True)

    async def leave(self) -> None:
        """Resign as controller, so that another can be elected at once. The registration ends with the session.

        A store that hangs is not waited for: the controllership then ends with the session, too.
        """
        if self.controller is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LEAVE_S_MAX):
                    await self.controller.stop()

    async def _registration_lost(self) -> None:
        """Wait until the session has ended or the registration is lost, and end what belongs to it."""
        controller = self.controller
        assert controller is not None, "not joined"
        lost = self._guard.registration_lost(self._session.current, self._store)
        self._opened = await _first_of(controller.wait_closed(), lost)
        self._end_registration()
        await controller.stop()

    async def _register(self, session: Session, registered: Callable[[], None], *, is_renewal: bool) -> bool:
        """Register and elect a controller; whether the session lasted until then."""
        while True:
            try:
                self._became_registered(await self._hooks.register(session))
                registered()
                if is_renewal:
                    await self._hooks.reload_settings()
                self.controller = self._hooks.new_controller(session)
                await self.controller.start()
            except SessionExpired:
                return False
            except NoNode as error:
                # The tree was lost meanwhile.
                self._log.warning("coordination store lacks a znode that every cluster has", path=error.path)
                await asyncio.sleep(RENEWAL_PAUSE_S)
                return False
            except NotAuthorized as error:
                raise StoreUnusable(f"the coordination store refused the registration ({error})") from error
            except ConnectionLoss:
                # The outcome of the call is unknown; each step checks for what it has done before.
                await asyncio.sleep(RETRY_DELAY_S)
                if not self._reachable.is_set():
                    self._opened = await _first_of(self._reachable.wait(), self._guard.refused(session, self._store))
                if self._opened is not None:
                    return False
            else:
                return True

    def _became_registered(self, broker_epoch: int) -> None:
        if broker_epoch != self.broker_epoch:
            session = f"{self._session.session_id:#x}"
            self._log.info("broker registered", session=session, broker_epoch=broker_epoch, version=__version__)
        self.broker_epoch = broker_epoch
        self._hooks.broker_epoch_changed(broker_epoch)
        self._contact.registered()

    async def _renew(self) -> None:
        """Open a new session, however long the store is unreachable or lacks the cluster's tree; logs a reason once."""
        self._end_registration()
        await self._session.current.close()
        logged = ""
        while True:
            session, self._opened = self._opened, None
            try:
                session = session or await self._store.open_session()
                await self._guard.wait_for_cluster_tree(session)
            except CoordinationError as error:
                if session is not None:
                    await session.close()
                if logged != str(error):
                    logged = str(error)
                    self._log.warning("no new session with the coordination store yet; retrying", reason=logged)
                await asyncio.sleep(RENEWAL_PAUSE_S)
            else:
                self._session.replace(session)
                self._has_ended = False
                return

    def _end_registration(self) -> None:
        """The session has expired, by its state or by a call that failed."""
        if self._has_ended:
            return
        self._has_ended = True
        # From here on no command for the former registration may make this broker a leader or follower.
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
                self._end_registration()
            case SessionState.CLOSED:
                self._reachable.set()
            case _:
                assert_never(state)


async def _first_of(other: Coroutine[Any, Any, object], opening: Coroutine[Any, Any, Session | None]) -> Session | None:
    """Wait for either; returns the session of the second, if it finished. Raises what the first raises."""
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
