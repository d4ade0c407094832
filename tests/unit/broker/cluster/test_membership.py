"""A broker's place in its cluster, through the ends of its sessions and a store that is away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from sordini.broker.cluster import membership as module
from sordini.broker.cluster.membership import Membership, MembershipHooks
from sordini.broker.cluster.store_contact import ContactState, StoreContact
from sordini.broker.cluster.tree_guard import TreeGuard
from sordini.coordination_store.current_session import CurrentSession
from sordini.coordination_store.embedded import EmbeddedStore
from sordini.coordination_store.embedded_session import EmbeddedSession
from sordini.protocol.types import BrokerId, TopicId
from sordini.replication.cluster_model import Broker, BrokerEndpoint
from sordini.replication.controller.controller import Controller
from sordini.replication.controller.policy import Policy
from sordini.replication.metadata_store import paths, znodes
from sordini.replication.metadata_store.registration import DuplicateBrokerId, Registration, ensure_base_paths
from sordini.replication.ports import ConnectionLoss, Session, SessionExpired, SessionState, StoreUnusable
from tests.support.fake_ports import ListLog, StillClock
from tests.support.unit_broker import CLUSTER_ID, Timers, inline
from tests.unit.replication.conftest import Brokers

ME = Broker(BrokerId(4), 0, (BrokerEndpoint("PLAINTEXT", "h", 9092),))
NODE = paths.broker(ME.broker_id)


class Away:
    """The store, which can be away: then it opens no sessions."""

    def __init__(self, store: EmbeddedStore) -> None:
        self._store = store
        self.is_away = False
        self.refused = asyncio.Event()

    async def open_session(self) -> EmbeddedSession:
        if self.is_away:
            self.refused.set()
            raise StoreUnusable("the store does not answer")
        return await self._store.open_session()

    async def close(self) -> None: ...


class Life:
    """A membership with the store, the current session, and all that it reported to the rest of the broker."""

    def __init__(self, store: EmbeddedStore, session: EmbeddedSession, watcher: EmbeddedSession) -> None:
        self.store, self.watcher = Away(store), watcher
        self.session = CurrentSession(session)
        self.log, self.clock, self.brokers = ListLog(), StillClock(), Brokers()
        self.reported: list[Any] = []
        self.failures: list[Exception] = []
        """What registering fails with, one each time, before it succeeds."""
        self.again = asyncio.Event()
        """There is a new_controller."""
        self.contact = StoreContact(self.clock, Timers().call_later, self.log)
        hooks = MembershipHooks(self._register, self._known_as, self._read_settings, self._candidate)
        self.holds_replicas = False
        guard = TreeGuard(
            CLUSTER_ID,
            ME.broker_id,
            lambda: self.holds_replicas,
            self.contact,
            self.clock,
            self.log,
            session_timeout_ms=0,
        )
        self.membership = Membership(self.store, self.session, hooks, self.contact, guard, self.log)
        self.keeping: asyncio.Task[None] | None = None

    async def _register(self, session: Session) -> int:
        if self.failures:
            raise self.failures.pop(0)
        return await Registration(session, ME, self.clock, self.log, session_timeout_ms=0).register()

    def _known_as(self, epoch: int) -> None:
        self.reported.append(epoch)

    async def _read_settings(self) -> None:
        self.reported.append("settings")

    def _candidate(self, session: Session) -> Controller:
        self.again.set()
        return Controller(
            session,
            ME.broker_id,
            self.brokers,
            self.clock,
            self.log,
            topic_ids=lambda: TopicId(bytes(16)),
            policy=Policy(cluster_id=CLUSTER_ID),
        )

    async def expire(self) -> None:
        self.again.clear()
        current = self.session.current
        assert isinstance(current, EmbeddedSession)
        await current.expire()

    async def back(self) -> None:
        """Wait until it is registered again."""
        await asyncio.wait_for(self.again.wait(), 20)
        assert self.membership.controller is not None
        await self.membership.controller.caught_up()

    async def epoch_in_store(self) -> int:
        stat = await self.watcher.exists(NODE)
        assert stat is not None
        assert stat.ephemeral_owner == self.session.session_id
        return stat.czxid


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RENEWAL_PAUSE_S", 0)
    monkeypatch.setattr(module, "RETRY_DELAY_S", 0)


@asynccontextmanager
async def a_life() -> AsyncIterator[Life]:
    """A broker and its store, whose tree is that of the broker's cluster."""
    store = await EmbeddedStore.open(":memory:", inline, StillClock())
    watcher = await store.open_session()
    await ensure_base_paths(watcher)
    await watcher.create(paths.CLUSTER_ID, znodes.encode_cluster_id(CLUSTER_ID))
    life = Life(store, await store.open_session(), watcher)
    yield life
    if life.keeping is not None:
        life.keeping.cancel()
        await asyncio.wait([life.keeping])
    await life.membership.leave()
    await store.close()


@pytest.fixture
async def life() -> AsyncIterator[Life]:
    async with a_life() as life:
        yield life


async def joined(life: Life) -> int:
    """The first epoch, of a membership that is kept from now on."""
    await life.membership.join()
    life.keeping = asyncio.create_task(life.membership.run())
    return life.membership.broker_epoch


async def test_a_broker_is_registered_before_a_controller_can_command_it(life: Life) -> None:
    order: list[str] = []
    await life.membership.join(
        lambda: order.append(f"registered, {'no' if not life.again.is_set() else 'a'} new_controller")
    )
    assert order == ["registered, no new_controller"]
    assert life.membership.is_active
    assert life.reported == [await life.epoch_in_store()], "and settings were read before: nothing is read twice"


async def test_when_its_session_expires_a_broker_registers_again_with_a_newer_epoch(life: Life) -> None:
    first = await joined(life)
    await life.expire()
    await life.back()
    second = await life.epoch_in_store()
    assert second > first
    assert life.contact.state is ContactState.ANSWERS
    assert life.reported == [first, first + 1, second, "settings"], "settings are read again once it is registered"
    assert life.membership.broker_epoch == second
    assert life.membership.is_active


async def test_between_two_registrations_commands_for_the_former_are_refused_and_the_contact_says_so(
    life: Life,
) -> None:
    first = await joined(life)
    life.store.is_away = True
    await life.expire()
    await asyncio.wait_for(life.store.refused.wait(), 20)
    assert life.reported[-1] == first + 1
    assert (life.contact.state, life.contact.is_doubtful) == (ContactState.EXPIRED, True)
    assert not life.membership.is_active
    life.store.is_away = False
    await life.back()
    assert (life.contact.state, life.contact.is_doubtful) == (ContactState.ANSWERS, False)


async def test_it_tries_for_as_long_as_the_store_is_away_and_says_so_once(life: Life) -> None:
    await joined(life)
    life.store.is_away = True
    await life.expire()
    for _ in range(5):
        life.store.refused.clear()
        await asyncio.wait_for(life.store.refused.wait(), 20)
    life.store.is_away = False
    await life.back()
    assert await life.epoch_in_store() == life.membership.broker_epoch
    reasons = [fields["reason"] for event, fields in life.log.at("warning") if "no new session" in event]
    assert reasons == ["the store does not answer"]


async def test_session_after_session_may_end(life: Life) -> None:
    epochs = [await joined(life)]
    for _ in range(3):
        await life.expire()
        await life.back()
        epochs.append(await life.epoch_in_store())
    assert epochs == sorted(set(epochs))
    ends = [event for event, _ in life.log.at("warning") if event.startswith("session expired")]
    assert len(ends) == 3, "one line for each"


@pytest.mark.parametrize("failure", [ConnectionLoss(), SessionExpired()])
async def test_a_store_lost_while_it_registers_is_tried_again(life: Life, failure: Exception) -> None:
    life.failures = [failure, failure]
    await life.membership.join()
    assert await life.epoch_in_store() == life.membership.broker_epoch
    # The call may be faster than the state to say that the session is over.
    ends = [event for event, _ in life.log.at("warning") if event.startswith("session expired")]
    assert len(ends) == (2 if isinstance(failure, SessionExpired) else 0)
    assert life.contact.state is ContactState.ANSWERS


async def test_while_the_connection_is_away_it_waits_instead_of_trying(life: Life) -> None:
    tell = life.membership._session_changed
    tell(SessionState.SUSPENDED)
    life.failures = [ConnectionLoss(), ConnectionLoss()]
    joining = asyncio.create_task(life.membership.join())
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(life.failures) == 1, "one try, and then nothing until there is news"
    tell(SessionState.CONNECTED)
    await joining
    assert not life.failures


async def test_a_broker_whose_id_was_registered_by_another_meanwhile_ends(life: Life) -> None:
    await joined(life)
    life.store.is_away = True
    await life.expire()
    await asyncio.wait_for(life.store.refused.wait(), 20)
    await life.watcher.create(NODE, b"", ephemeral=True)
    life.store.is_away = False
    assert life.keeping is not None
    with pytest.raises(DuplicateBrokerId, match="broker id 4"):
        await asyncio.wait_for(asyncio.shield(life.keeping), 20)


async def test_a_leaving_broker_resigns_as_controller_and_keeps_its_registration_until_the_session_ends(
    life: Life,
) -> None:
    await joined(life)
    assert life.keeping is not None
    life.keeping.cancel()
    await life.membership.leave()
    assert await life.watcher.exists(paths.CONTROLLER) is None
    assert await life.watcher.exists(NODE) is not None
    await life.membership.leave()
    await life.session.close()
    assert await life.watcher.exists(NODE) is None
    assert life.contact.state is ContactState.ANSWERS, "an orderly end is no expiry"


async def test_a_hung_store_does_not_delay_a_leaving_broker(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    await life.membership.join()

    async def never(_: object) -> None:
        await asyncio.get_running_loop().create_future()

    assert life.membership.controller is not None
    monkeypatch.setattr(life.membership.controller._election, "resign", never)
    monkeypatch.setattr(module, "LEAVE_S_MAX", 0)
    await asyncio.wait_for(life.membership.leave(), 20)


async def test_calls_and_listeners_of_the_first_session_reach_the_current_one(life: Life) -> None:
    await joined(life)
    await life.expire()
    await life.back()
    assert await life.session.children(paths.BROKER_IDS) == ["4"]
    states: list[SessionState] = []
    on_state: Callable[[Callable[[SessionState], None]], None] = life.session.on_state
    on_state(states.append)
    await life.expire()
    await life.back()
    assert states == [SessionState.EXPIRED, SessionState.CONNECTED]
