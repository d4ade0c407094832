"""The authorizer follows the store: reads of it never overlap, and a new connection has all entries read again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from sordini.broker.security.acls.acl_store import AclStore
from sordini.broker.security.acls.authorizer import Authorizer
from sordini.coordination_store.embedded import EmbeddedStore
from sordini.coordination_store.session_proxy import SessionProxy
from sordini.replication.metadata_store.acl_model import (
    AclEntry,
    AclOperation,
    Permission,
    ResourcePattern,
    ResourceType,
)
from sordini.replication.metadata_store.acls import change_entries, encode_entries, path_of
from sordini.replication.metadata_store.registration import ensure_base_paths
from sordini.replication.ports import ConnectionLoss, Session, SessionState, Stat, Watch
from tests.support.fake_ports import ListLog, StillClock
from tests.support.socket_bench import until

ORDERS, BILLS = (ResourcePattern(ResourceType.TOPIC, name) for name in ("orders", "bills"))
READ = AclEntry("User:alice", "*", AclOperation.READ, Permission.ALLOW)
ENTRIES = frozenset({READ})


class HeldSession(SessionProxy):
    """A session whose reads of entries answer late, or not at all, and that reconnects when a test says so."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.listeners: list[Callable[[SessionState], None]] = []
        self.released = asyncio.Event()
        self.released.set()
        self.waiting = asyncio.Event()
        self.lost = 0
        """How many of the next reads lose their connection."""

    def on_state(self, listener: Callable[[SessionState], None]) -> None:
        self.listeners.append(listener)

    def connect(self) -> None:
        for listener in self.listeners:
            listener(SessionState.CONNECTED)

    async def connect_and_hold(self) -> None:
        """Reconnect, and wait until a read has found what it will get once `released` is set."""
        self.released.clear()
        self.waiting.clear()
        self.connect()
        await self.waiting.wait()

    async def get(self, path: str, *, watch: Watch | None = None) -> tuple[bytes, Stat]:
        found = await super().get(path, watch=watch)
        await self._late(path)
        return found

    async def children(self, path: str, *, watch: Watch | None = None) -> list[str]:
        found = await super().children(path, watch=watch)
        await self._late(path)
        return found

    async def _late(self, path: str) -> None:
        if path.startswith("/kafka-acl/Topic"):
            self.waiting.set()
            await self.released.wait()
            if self.lost:
                self.lost -= 1
                raise ConnectionLoss(path)


@pytest.fixture
async def other() -> AsyncIterator[Session]:
    """The session of another broker."""

    async def inline(call: Callable[[], Any]) -> Any:
        return call()

    store = await EmbeddedStore.open(":memory:", inline, StillClock())
    session = await store.open_session()
    await ensure_base_paths(session)
    yield session
    await store.close()


@pytest.fixture
def held(other: Session) -> HeldSession:
    return HeldSession(other)


@pytest.fixture
def log() -> ListLog:
    return ListLog()


@pytest.fixture
async def acls(held: HeldSession, log: ListLog) -> AsyncIterator[AclStore]:
    made = AclStore(held, Authorizer(frozenset()), asyncio.ensure_future, StillClock(), log, 20_000)
    await made.start()
    yield made
    await made.stop()


def reads(log: ListLog) -> int:
    """How often all entries were read, with the start."""
    return [event for event, _ in log.at("info")].count("access control entries read")


async def test_entries_that_are_notified_while_all_are_read_again_stay_in_force(
    held: HeldSession, acls: AclStore, log: ListLog, other: Session
) -> None:
    await held.connect_and_hold()
    await change_entries(other, ORDERS, lambda _: ENTRIES)
    for _ in range(100):  # Long enough for a notification to be processed.
        await asyncio.sleep(0)
    held.released.set()
    await until(lambda: acls.authorizer.entries(ORDERS) == ENTRIES and reads(log) == 2)


async def test_connections_that_come_during_a_read_have_everything_read_once_more(
    held: HeldSession, acls: AclStore, log: ListLog
) -> None:
    await held.connect_and_hold()
    for _ in range(3):
        held.connect()
    held.released.set()
    await acls.change(ORDERS, lambda _: ENTRIES)  # Its own read comes after theirs.
    assert reads(log) == 3


async def test_an_entry_is_in_force_here_once_its_change_is_answered(held: HeldSession, acls: AclStore) -> None:
    held.connect()
    await acls.change(ORDERS, lambda _: ENTRIES)
    assert acls.authorizer.entries(ORDERS) == ENTRIES


async def test_a_connection_that_comes_while_a_read_fails_has_everything_read_again(
    held: HeldSession, acls: AclStore, other: Session
) -> None:
    await held.connect_and_hold()
    held.lost = 1
    await other.create(path_of(BILLS), encode_entries(ENTRIES))  # Without a notification: only a read of all finds it.
    held.connect()
    held.released.set()
    await until(lambda: acls.authorizer.entries(BILLS) == ENTRIES)
