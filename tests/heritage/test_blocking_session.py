"""Sessions with a real ZooKeeper for programs on threads, and how long they certainly last."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator

import pytest

from examples.heritage.blocking_session import BlockingSession, BlockingStore
from examples.heritage.errors import SessionOver
from tests.outside.java import ZooKeeperProcess

_chroots = itertools.count()
SECONDS_MAX = 20
GRANTED_S_MAX = 10
"""Twenty ticks of the server."""


class Opened:
    """A session, and an event for its changes."""

    def __init__(self, store: BlockingStore) -> None:
        self.changed = threading.Event()
        self.session: BlockingSession = store.open_session(self.changed.set)


@pytest.fixture
def store(zookeeper: str) -> Iterator[BlockingStore]:
    made = BlockingStore(
        f"{zookeeper}/blocking-{next(_chroots)}", session_timeout_ms=4_000, connection_timeout_ms=20_000
    )
    yield made
    made.close()


@pytest.fixture
def one(store: BlockingStore) -> Opened:
    return Opened(store)


def test_nodes_are_read_and_written(one: Opened) -> None:
    session = one.session
    assert session.get("/a/b") is None
    assert session.children("/a") == []
    session.put("/a/b", b"1")
    session.put("/a/b", b"2")
    session.put("/a/a", b"")
    found = session.get("/a/b")
    assert found is not None
    assert found[0] == b"2"
    assert session.children("/a") == ["a", "b"]


def test_an_ephemeral_node_is_its_session_s(one: Opened, store: BlockingStore) -> None:
    other = Opened(store)
    assert one.session.create_ephemeral("/ids/x", b"one")
    assert one.session.create_ephemeral("/ids/x", b"again"), "its own node"
    assert not other.session.create_ephemeral("/ids/x", b"other")
    assert one.session.owns("/ids/x")
    assert not other.session.owns("/ids/x")
    other.session.delete_own("/ids/x")
    assert one.session.owns("/ids/x"), "only its own are deleted"
    other.changed.clear()
    one.session.close()
    assert other.changed.wait(SECONDS_MAX), "the end of the owner is a change"
    assert other.session.create_ephemeral("/ids/x", b"other")
    with pytest.raises(SessionOver):
        one.session.get("/ids/x")
    assert not one.session.is_open
    assert one.session.lease_s == 0


@pytest.mark.parametrize("kind", ["get", "children"])
def test_what_is_read_with_a_watch_is_reported_once_it_changes_also_when_it_is_created(one: Opened, kind: str) -> None:
    read = getattr(one.session, kind)
    read("/w", watch=True)
    one.changed.clear()
    one.session.put("/w", b"1")
    assert one.changed.wait(SECONDS_MAX)
    read("/w", watch=True)
    one.changed.clear()
    one.session.put("/w" if kind == "get" else "/w/child", b"2")
    assert one.changed.wait(SECONDS_MAX)


def test_without_a_watch_no_change_is_reported(one: Opened) -> None:
    one.session.put("/quiet", b"1")
    one.session.get("/quiet")
    one.changed.clear()
    one.session.put("/quiet", b"2")
    one.session.get("/quiet", watch=True)  # Answered after all that went before.
    assert not one.changed.is_set()


def test_a_lease_counts_from_when_an_answered_request_left_and_ends_a_quarter_early(
    one: Opened, zookeeper_process: ZooKeeperProcess
) -> None:
    before_s = time.monotonic()
    one.session.get("/")
    lease_s = one.session.lease_s
    after_s = time.monotonic()
    assert 3.0 - (after_s - before_s) - 0.01 <= lease_s <= 3.0
    with zookeeper_process.hung():
        began_s = time.monotonic()
        asking = threading.Thread(target=lambda: one.session.get("/"))
        asking.start()
        while time.monotonic() < began_s + 0.5:  # The server has the request all that time, and does not answer.
            assert one.session.lease_s <= 3.0 - (time.monotonic() - after_s) + 0.02
            asking.join(0.05)
        assert asking.is_alive()
    asking.join(SECONDS_MAX)
    answered_s = time.monotonic()
    assert one.session.lease_s <= 3.0 - (answered_s - began_s) + 0.1, "an answer that comes late extends it by less"


def test_a_store_that_is_closed_ends_its_sessions_and_may_be_closed_again(zookeeper: str) -> None:
    path = f"/blocking-closed-{next(_chroots)}"
    root = BlockingStore(zookeeper, session_timeout_ms=4_000, connection_timeout_ms=20_000)
    leaving = BlockingStore(zookeeper, session_timeout_ms=4_000, connection_timeout_ms=20_000)
    Opened(leaving).session.create_ephemeral(path, b"")
    watching = Opened(root).session
    assert watching.get(path) is not None
    leaving.close()
    leaving.close()
    assert watching.get(path) is None
    root.close()


def test_a_session_without_calls_is_extended_all_the_same(one: Opened) -> None:
    limit_s = time.monotonic() + SECONDS_MAX
    seen_s = one.session.lease_s
    while (lease_s := one.session.lease_s) <= seen_s:
        assert time.monotonic() < limit_s
        seen_s = lease_s
        time.sleep(0.02)


def test_a_lease_is_of_the_session_timeout_that_the_server_grants(zookeeper: str) -> None:
    store = BlockingStore(zookeeper, session_timeout_ms=300_000, connection_timeout_ms=20_000)
    session = Opened(store).session
    session.get("/")
    assert 0 < session.lease_s <= 0.75 * GRANTED_S_MAX
    store.close()
