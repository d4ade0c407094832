"""A running broker whose coordination store has another tree: it writes nothing there, and continues once it is restored."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from sordini.broker.cluster import membership, tree_guard
from sordini.broker.cluster.store_contact import ContactState, StoreContact
from sordini.broker.cluster.tree_guard import TreeGuard
from sordini.coordination_store.embedded import EmbeddedStore
from sordini.coordination_store.embedded_session import EmbeddedSession
from sordini.protocol.types import BrokerId
from sordini.replication.metadata_store import paths, znodes
from sordini.replication.ports import Session, SessionState, StoreUnusable
from tests.support.fake_ports import ListLog, StillClock
from tests.support.unit_broker import CLUSTER_ID, Timers, inline
from tests.unit.broker.cluster.test_membership import ME, NODE, Life, a_life, joined

LOST = "coordination store does not have this cluster's tree"
OTHER = "lkjihgfedcba9876543210"


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "RENEWAL_PAUSE_S", 0)
    monkeypatch.setattr(membership, "RETRY_DELAY_S", 0)
    monkeypatch.setattr(tree_guard, "RETRY_PAUSE_S", 0)
    monkeypatch.setattr(tree_guard, "REFUSED_S", 0.01)


@pytest.fixture
async def life() -> AsyncIterator[Life]:
    async with a_life() as life:
        yield life


def findings(life: Life) -> list[object]:
    """The reasons reported for a tree that is not the cluster's, in order."""
    return [fields["reason"] for event, fields in life.log.at("error") if event.startswith(LOST)]


async def until(condition: Callable[[], bool]) -> None:
    """For as many turns of the loop as anything here takes."""
    for _ in range(5_000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("waited in vain")


async def content(session: Session, path: str = "") -> dict[str, bytes]:
    """A whole tree."""
    found = {}
    for name in sorted(await session.children(path or "/")):
        found[f"{path}/{name}"] = (await session.get(f"{path}/{name}"))[0]
        found |= await content(session, f"{path}/{name}")
    return found


async def test_in_an_emptied_store_a_broker_writes_nothing_and_says_why_once(life: Life) -> None:
    epoch = await joined(life)
    await life.watcher.delete(paths.CLUSTER_ID)
    await life.expire()
    await until(lambda: life.contact.lost_tree != "")
    before = await content(life.watcher)
    assert NODE not in before
    assert paths.CONTROLLER not in before
    for _ in range(200):
        await asyncio.sleep(0)
    assert await content(life.watcher) == before
    assert findings(life) == ["it holds no cluster, /cluster/id is not there"]
    assert life.contact.state is ContactState.EXPIRED
    await life.watcher.create(paths.CLUSTER_ID, znodes.encode_cluster_id(OTHER))
    await until(lambda: len(findings(life)) == 2)
    await life.watcher.set(paths.CLUSTER_ID, znodes.encode_cluster_id(CLUSTER_ID))
    await life.back()
    assert findings(life)[1:] == [f"it holds cluster {OTHER}"]
    assert await life.epoch_in_store() == life.membership.broker_epoch > epoch
    assert life.contact.lost_tree == ""
    assert life.membership.is_active


async def test_a_tree_without_topics_is_not_the_cluster_of_a_broker_with_replicas(life: Life) -> None:
    await joined(life)
    life.holds_replicas = True
    await life.expire()
    await until(lambda: findings(life) == ["it holds the cluster's id and none of its topics"])
    await life.watcher.create(paths.topic("orders"), b"")
    await life.back()


async def test_a_registration_deleted_during_its_session_is_created_again_in_a_new_one(life: Life) -> None:
    first = await joined(life)
    session = life.session.current
    life.again.clear()
    await life.watcher.delete(NODE)
    await life.back()
    assert life.session.current is not session
    assert session.state is SessionState.CLOSED
    assert await life.epoch_in_store() > first
    assert life.membership.is_active


async def test_a_tree_that_goes_away_under_a_living_session_is_waited_for(life: Life) -> None:
    await joined(life)
    life.again.clear()
    whole = [paths.CLUSTER_ID, paths.CONTROLLER_EPOCH, paths.CONTROLLER, NODE]
    for path in whole:
        await life.watcher.delete(path)
    await until(lambda: bool(findings(life)))
    left = await content(life.watcher)
    assert left.keys() & set(whole) == set()
    await life.watcher.create(paths.CLUSTER_ID, znodes.encode_cluster_id(CLUSTER_ID))
    await life.back()
    assert life.membership.is_active


async def test_a_node_that_goes_away_while_a_broker_registers_is_no_end_of_it(life: Life) -> None:
    from sordini.replication.ports import NoNode

    life.failures = [NoNode(paths.CLUSTER_ID)]
    await life.membership.join()
    assert await life.epoch_in_store() == life.membership.broker_epoch


class Refused:
    """A session that the store does not take back: silent since it was lost, and over by its own clock."""

    def __init__(self, lives_until_ms: int | None = 0) -> None:
        self.state = SessionState.SUSPENDED
        self.lives_until_ms = lives_until_ms
        self.session_id = 7
        self._listeners: list[Callable[[SessionState], None]] = []

    def on_state(self, listener: Callable[[SessionState], None]) -> None:
        self._listeners.append(listener)

    def become(self, state: SessionState) -> None:
        self.state = state
        for listener in self._listeners:
            listener(state)


class Opening:
    """A store that opens sessions, after some failures."""

    def __init__(self, store: EmbeddedStore, failures: int = 0) -> None:
        self._store = store
        self.failures = failures
        self.opened: list[EmbeddedSession] = []
        self.on_open: Callable[[], None] = lambda: None

    async def open_session(self) -> EmbeddedSession:
        if self.failures:
            self.failures -= 1
            raise StoreUnusable("no answer")
        self.opened.append(await self._store.open_session())
        self.on_open()
        return self.opened[-1]


@pytest.fixture
async def opening() -> AsyncIterator[Opening]:
    store = await EmbeddedStore.open(":memory:", inline, StillClock())
    yield Opening(store)
    await store.close()


def guard(log: ListLog, clock: StillClock, session_timeout_ms: int = 0) -> TreeGuard:
    contact = StoreContact(clock, Timers().call_later, log)
    return TreeGuard(
        CLUSTER_ID,
        BrokerId(ME.broker_id),
        lambda: False,
        contact,
        clock,
        log,
        session_timeout_ms=session_timeout_ms,
    )


async def test_a_store_that_opens_sessions_and_does_not_take_this_one_back_has_lost_it(opening: Opening) -> None:
    log, opening.failures = ListLog(), 3
    other = await guard(log, StillClock()).registration_lost(Refused(), opening)  # type: ignore[arg-type]
    assert [other] == opening.opened
    assert other is not None
    assert other.state is SessionState.CONNECTED
    assert [event for event, _ in log.at("warning")] == [
        "coordination store accepts new sessions and refuses this broker's: its data is older than the session"
    ]


async def test_a_session_that_is_taken_back_meanwhile_goes_on(opening: Opening) -> None:
    session = Refused()
    opening.on_open = lambda: session.become(SessionState.EXPIRED)
    assert await guard(ListLog(), StillClock()).registration_lost(session, opening) is None  # type: ignore[arg-type]
    assert [one.state for one in opening.opened] == [SessionState.CLOSED]


async def test_a_session_is_not_refused_while_an_attempt_to_connect_may_be_unanswered(
    opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree_guard, "REFUSED_S", 0)
    session = Refused()
    waiting = asyncio.ensure_future(
        guard(ListLog(), StillClock(), 10**6).registration_lost(session, opening)  # type: ignore[arg-type]
    )
    await until(lambda: bool(opening.opened))
    for _ in range(50):
        await asyncio.sleep(0)
    assert not waiting.done()
    session.become(SessionState.EXPIRED)
    assert await waiting is None


@pytest.mark.parametrize("lives_until_ms", [None, 10**9])
async def test_no_other_session_is_opened_while_this_one_may_live(opening: Opening, lives_until_ms: int | None) -> None:
    waiting = asyncio.ensure_future(
        guard(ListLog(), StillClock()).registration_lost(Refused(lives_until_ms), opening)  # type: ignore[arg-type]
    )
    for _ in range(50):
        await asyncio.sleep(0)
    assert not waiting.done()
    assert opening.opened == []
    waiting.cancel()
    await asyncio.wait([waiting])
