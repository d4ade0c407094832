"""What every coordination store promises: one suite, run on the embedded store and on a real ZooKeeper."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from sordini.replication.ports import (
    BadVersion,
    Check,
    Create,
    Delete,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    Session,
    SessionExpired,
    SessionState,
    Set,
    Stat,
    WatchEvent,
    WatchKind,
)
from tests.contract.conftest import Store


class Events:
    """A watch that keeps its events, and can be waited for."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[WatchEvent] = asyncio.Queue()

    def __call__(self, event: WatchEvent) -> None:
        self.queue.put_nowait(event)

    async def next(self) -> WatchEvent:
        return await asyncio.wait_for(self.queue.get(), 20)


# Nodes.


async def test_what_was_created_can_be_read_with_its_versions(session: Session) -> None:
    assert await session.create("/a", b"one") == "/a"
    data, stat = await session.get("/a")
    assert data == b"one"
    assert stat.version == 0
    assert stat.czxid == stat.mzxid > 0
    assert stat.ephemeral_owner == 0
    assert stat.children_count == 0
    assert stat.created_ms == stat.modified_ms > 1_500_000_000_000


async def test_a_set_counts_the_version_and_keeps_the_creation(session: Session) -> None:
    await session.create("/a")
    _, before = await session.get("/a")
    stat = await session.set("/a", b"two", 0)
    assert (stat.version, stat.czxid) == (1, before.czxid)
    assert stat.mzxid > before.mzxid
    assert await session.get("/a") == (b"two", stat)


async def test_a_write_decided_on_an_old_version_is_refused(session: Session) -> None:
    await session.create("/a")
    await session.set("/a", b"1")
    with pytest.raises(BadVersion) as refusal:
        await session.set("/a", b"2", 0)
    assert refusal.value.path == "/a"
    with pytest.raises(BadVersion):
        await session.delete("/a", 0)
    assert (await session.get("/a"))[0] == b"1"
    await session.delete("/a", 1)


async def test_a_missing_node_is_refused_by_every_call_but_exists(session: Session) -> None:
    for call in (session.get("/no"), session.set("/no", b""), session.delete("/no"), session.children("/no")):
        with pytest.raises(NoNode):
            await call
    assert await session.exists("/no") is None


async def test_a_node_needs_its_parent_unless_parents_are_asked_for(session: Session) -> None:
    with pytest.raises(NoNode):
        await session.create("/a/b/c")
    await session.create("/a/b/c", b"deep", make_parents=True)
    assert await session.get("/a/b") == (b"", await session.exists("/a/b"))
    with pytest.raises(NodeExists):
        await session.create("/a/b/c", make_parents=True)
    await session.create("/a/b/d", make_parents=True)
    assert sorted(await session.children("/a/b")) == ["c", "d"]


async def test_a_node_with_children_is_not_deleted(session: Session) -> None:
    await session.create("/a/b", make_parents=True)
    with pytest.raises(NotEmpty):
        await session.delete("/a")
    await session.delete("/a/b")
    await session.delete("/a")
    assert await session.exists("/a") is None


async def test_the_root_is_always_there_and_lists_what_is_below(session: Session) -> None:
    await session.create("/a")
    stat = await session.exists("/")
    assert stat is not None
    assert await session.children("/") == ["a"]


async def test_sequential_nodes_are_numbered_by_their_parent_in_ten_digits(session: Session) -> None:
    await session.create("/q")
    assert await session.create("/q/n_", sequential=True) == "/q/n_0000000000"
    await session.create("/q/other")
    await session.delete("/q/n_0000000000")
    assert await session.create("/q/n_", sequential=True) == "/q/n_0000000002"


async def test_a_number_is_not_given_twice_even_when_the_last_node_is_gone(session: Session) -> None:
    await session.create("/q")
    for expected in range(3):
        path = await session.create("/q/n_", sequential=True)
        assert path == f"/q/n_{expected:010d}"
        await session.delete(path)


# Ephemerals and sessions.


async def test_an_ephemeral_node_names_its_session_and_goes_with_it(store: Store, session: Session) -> None:
    other = await store.open_session()
    await other.create("/e", ephemeral=True)
    stat = await session.exists("/e")
    assert stat is not None
    assert stat.ephemeral_owner == other.session_id != session.session_id
    await other.close()
    assert await session.exists("/e") is None


async def test_ephemeral_nodes_have_no_children(session: Session) -> None:
    await session.create("/e", ephemeral=True)
    with pytest.raises(NoChildrenForEphemerals):
        await session.create("/e/child")


async def test_nodes_that_stay_survive_the_session_that_made_them(store: Store, session: Session) -> None:
    other = await store.open_session()
    await other.create("/p", b"here")
    await other.close()
    assert (await session.get("/p"))[0] == b"here"


async def test_calls_of_a_closed_session_fail(store: Store) -> None:
    session = await store.open_session()
    await session.close()
    assert session.state is SessionState.CLOSED
    for call in (session.create("/x"), session.get("/"), session.multi([Check("/")])):
        with pytest.raises(SessionExpired):
            await call
    await session.close()


async def test_an_expired_session_says_so_loses_its_nodes_and_answers_nothing_more(store: Store) -> None:
    witness, session = await store.open_session(), await store.open_session()
    states: asyncio.Queue[SessionState] = asyncio.Queue()
    session.on_state(states.put_nowait)
    await session.create("/e", ephemeral=True)
    gone = Events()
    await witness.exists("/e", watch=gone)
    await store.expire(session)
    assert (await gone.next()).kind is WatchKind.DELETED
    with pytest.raises(SessionExpired):
        await session.create("/late")
    assert session.state is SessionState.EXPIRED
    async with asyncio.timeout(20):
        while await states.get() is not SessionState.EXPIRED:
            pass  # Listeners are called soon, and the newest state last.
    assert states.empty()
    assert await witness.exists("/late") is None


async def test_transactions_are_numbered_upwards_across_sessions(store: Store, session: Session) -> None:
    other = await store.open_session()
    await session.create("/a")
    await other.create("/b", ephemeral=True)
    await session.create("/c")
    zxids = [stat.czxid for path in "abc" if (stat := await session.exists("/" + path))]
    assert zxids == sorted(set(zxids))
    assert len(zxids) == 3


# Several writes at once.


async def test_a_multi_answers_every_operation(session: Session) -> None:
    await session.create("/v")
    results = await session.multi(
        [
            Check("/v", 0),
            Create("/id", b"", ephemeral=True),
            Set("/id", b"data", 0),
            Create("/v/s_", sequential=True),
            Delete("/v/s_0000000000"),
        ]
    )
    check, created, stat, sequential, deleted = results
    assert (check, created, sequential, deleted) == (None, "/id", "/v/s_0000000000", None)
    assert isinstance(stat, Stat)
    assert (stat.version, stat.ephemeral_owner) == (1, session.session_id)
    assert stat.czxid == stat.mzxid, "one multi is one transaction"
    assert await session.children("/v") == []


@pytest.mark.parametrize(
    ("refused", "error"),
    [
        (Check("/v", 7), BadVersion),
        (Check("/no"), NoNode),
        (Create("/v"), NodeExists),
        (Create("/no/child"), NoNode),
        (Set("/v", b"", 7), BadVersion),
        (Delete("/no"), NoNode),
        (Delete("/v"), NotEmpty),
    ],
)
async def test_a_multi_refused_in_one_place_changes_nothing(
    session: Session, refused: Any, error: type[Exception]
) -> None:
    await session.create("/v/w", make_parents=True)
    watch = Events()
    await session.exists("/new", watch=watch)
    with pytest.raises(error) as refusal:
        await session.multi([Create("/new"), Set("/v", b"changed"), refused, Delete("/v/w")])
    assert refusal.value.index == 2  # type: ignore[attr-defined]
    assert refusal.value.path == refused.path  # type: ignore[attr-defined]
    assert await session.exists("/new") is None
    data, stat = await session.get("/v")
    assert (data, stat.version) == (b"", 0)
    assert watch.queue.empty()


async def test_a_check_of_any_version_asks_only_that_the_node_is_there(session: Session) -> None:
    await session.create("/a")
    await session.set("/a", b"1")
    assert await session.multi([Check("/a"), Create("/b")]) == [None, "/b"]


async def test_calls_made_together_take_effect_in_the_order_in_which_they_were_made(session: Session) -> None:
    await session.create("/a")
    stats = await asyncio.gather(*(session.set("/a", b"%d" % n, n) for n in range(20)))
    assert [stat.version for stat in stats] == list(range(1, 21))


# Watches.


@pytest.mark.parametrize(
    ("change", "kind"),
    [(lambda s: s.set("/a", b"x"), WatchKind.CHANGED), (lambda s: s.delete("/a"), WatchKind.DELETED)],
)
async def test_a_data_watch_fires_once_with_the_session_that_set_it(
    store: Store, session: Session, change: Callable[[Session], Awaitable[object]], kind: WatchKind
) -> None:
    other = await store.open_session()
    await session.create("/a")
    watch = Events()
    await session.get("/a", watch=watch)
    await change(other)
    assert await watch.next() == WatchEvent(kind, "/a", session.session_id)
    with contextlib.suppress(NoNode):
        await other.set("/a", b"again")
    await session.exists("/")
    assert watch.queue.empty()


async def test_a_watch_on_a_missing_node_fires_at_its_creation(session: Session) -> None:
    watch = Events()
    assert await session.exists("/a", watch=watch) is None
    await session.create("/a")
    assert await watch.next() == WatchEvent(WatchKind.CREATED, "/a", session.session_id)


async def test_a_refused_read_leaves_no_watch(session: Session) -> None:
    watch = Events()
    with pytest.raises(NoNode):
        await session.get("/a", watch=watch)
    await session.create("/a")
    await session.set("/a", b"")
    assert watch.queue.empty()


async def test_a_child_watch_fires_when_children_come_and_go_and_not_when_they_change(
    session: Session,
) -> None:
    await session.create("/p/kept", make_parents=True)
    came, went = Events(), Events()
    await session.children("/p", watch=came)
    await session.set("/p", b"parent")
    await session.set("/p/kept", b"child")
    assert came.queue.empty()
    await session.create("/p/new")
    assert await came.next() == WatchEvent(WatchKind.CHILDREN, "/p", session.session_id)
    await session.children("/p", watch=went)
    await session.delete("/p/new")
    assert await went.next() == WatchEvent(WatchKind.CHILDREN, "/p", session.session_id)


async def test_the_deletion_of_a_node_fires_its_data_and_its_child_watches(session: Session) -> None:
    await session.create("/p")
    data, child = Events(), Events()
    await session.get("/p", watch=data)
    await session.children("/p", watch=child)
    await session.delete("/p")
    assert (await data.next()).kind is WatchKind.DELETED
    assert (await child.next()).kind is WatchKind.DELETED


async def test_one_callable_set_twice_is_called_once(session: Session) -> None:
    await session.create("/a")
    watch = Events()
    await session.get("/a", watch=watch)
    await session.get("/a", watch=watch)
    await session.set("/a", b"")
    await watch.next()
    await session.exists("/")
    assert watch.queue.empty()


async def test_ones_own_change_fires_ones_watch_before_it_is_answered(session: Session) -> None:
    await session.create("/a")
    order: list[str] = []
    await session.get("/a", watch=lambda _: order.append("watch"))
    await session.set("/a", b"")
    order.append("answer")
    assert order == ["watch", "answer"]


async def test_results_and_watches_arrive_in_the_order_in_which_things_happened(session: Session) -> None:
    order: list[str] = []
    await session.create("/n")

    async def write(number: int) -> None:
        await session.set("/n", b"%d" % number)
        order.append(f"answer {number}")

    async def read(number: int) -> None:
        data, _ = await session.get("/n", watch=lambda _: order.append(f"watch {number}"))
        order.append(f"read {number} {data.decode()}")

    calls = [call(number) for number in range(20) for call in (write, read)]
    await asyncio.gather(*calls)
    expected = ["answer 0", "read 0 0"]
    for number in range(1, 20):
        expected += [f"watch {number - 1}", f"answer {number}", f"read {number} {number}"]
    assert order == expected


async def test_a_multi_fires_the_watches_of_all_it_changed(session: Session) -> None:
    await session.create("/p")
    child, node = Events(), Events()
    await session.children("/p", watch=child)
    await session.exists("/p/a", watch=node)
    await session.multi([Create("/p/a"), Create("/p/b")])
    assert (await child.next()).kind is WatchKind.CHILDREN
    assert (await node.next()).kind is WatchKind.CREATED


async def test_a_caller_who_gave_up_does_not_take_the_write_back(session: Session) -> None:
    waiting = asyncio.ensure_future(session.create("/a", b"kept"))
    await asyncio.sleep(0)
    waiting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await waiting
    assert (await session.get("/a"))[0] == b"kept"
