"""The session of the moment: one that does not end, over sessions that do, on both kinds of store."""

from __future__ import annotations

import asyncio

import pytest

from sordini.coordination_store.current_session import CurrentSession
from sordini.replication.ports import Check, Create, Session, SessionExpired, SessionState, WatchEvent
from tests.contract.conftest import Store


@pytest.fixture
def current(session: Session) -> CurrentSession:
    return CurrentSession(session)


async def test_every_call_goes_to_the_session_there_is(current: CurrentSession, session: Session) -> None:
    assert isinstance(current, Session)
    assert (current.session_id, current.state) == (session.session_id, SessionState.CONNECTED)
    assert (current.lives_until_ms is None) == (session.lives_until_ms is None)
    await current.create("/a/b", b"1", make_parents=True)
    assert (await current.set("/a/b", b"2", 0)).version == 1
    assert (await current.get("/a/b"))[0] == b"2"
    assert await current.children("/a") == ["b"]
    await current.multi([Check("/a"), Create("/a/e", ephemeral=True)])
    found = await session.exists("/a/e")
    assert found is not None
    assert found.ephemeral_owner == current.session_id
    await current.delete("/a/b", 1)
    assert await current.exists("/a/b") is None
    await current.close()
    assert session.state is SessionState.CLOSED


async def test_between_two_sessions_calls_fail_and_are_not_kept_for_the_next(
    store: Store, current: CurrentSession, session: Session
) -> None:
    await store.expire(session)
    with pytest.raises(SessionExpired):
        await current.create("/never")
    assert current.state is SessionState.EXPIRED
    other = await store.open_session()
    current.replace(other)
    assert (current.session_id, current.state) == (other.session_id, SessionState.CONNECTED)
    assert await current.exists("/never") is None
    await current.create("/now")


async def test_listeners_receive_the_states_of_all_sessions_in_order(
    store: Store, current: CurrentSession, session: Session
) -> None:
    received: asyncio.Queue[SessionState] = asyncio.Queue()
    current.on_state(received.put_nowait)
    await store.expire(session)
    while await asyncio.wait_for(received.get(), 20) is not SessionState.EXPIRED:
        pass  # A ZooKeeper's session is suspended, and perhaps connected for a moment, first.
    second = await store.open_session()
    current.replace(second)
    assert await asyncio.wait_for(received.get(), 20) is SessionState.CONNECTED
    third = await store.open_session()
    current.replace(third)
    assert await asyncio.wait_for(received.get(), 20) is SessionState.CONNECTED
    await store.expire(second)  # A former session has nothing to say any more.
    await current.get("/")
    assert received.empty()


async def test_a_watch_ends_with_the_session_in_which_it_was_set(
    store: Store, current: CurrentSession, session: Session
) -> None:
    await current.create("/w")
    fired: list[WatchEvent] = []
    await current.get("/w", watch=fired.append)
    await store.expire(session)
    current.replace(await store.open_session())
    await current.set("/w", b"unseen")
    await current.get("/w", watch=fired.append)
    await current.set("/w", b"seen")
    await current.get("/w")
    assert [event.session_id for event in fired] == [current.session_id]
