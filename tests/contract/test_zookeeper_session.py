"""What the ZooKeeper session does when the server does not: nothing that holds the loop; and what it makes nodes of."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from uuid import uuid4

import pytest
from kazoo.client import KazooClient

from sordini.coordination_store import zookeeper_session as module
from sordini.coordination_store.zookeeper import ZooKeeperStore
from sordini.coordination_store.zookeeper_session import ZooKeeperSession
from sordini.replication.ports import ConnectionLoss, CoordinationError, Create, NoNode, SessionState, StoreUnusable
from sordini.system.clock import SystemClock


class Valve:
    """A proxy before a real server that can stop passing bytes, hang up, or leave connections unanswered."""

    def __init__(self, target: str) -> None:
        self._host, _, port = target.partition(":")
        self._port = int(port)
        self.open = asyncio.Event()
        self.open.set()
        self.unanswered_count = 0
        """How many of the next connections are accepted and never answered."""
        self._writers: set[asyncio.StreamWriter] = set()

    async def start(self) -> str:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        self._server.close()
        self.hang_up()
        await asyncio.sleep(0)

    def hang_up(self) -> None:
        for writer in self._writers:
            writer.close()
        self._writers.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.unanswered_count:
            self.unanswered_count -= 1
            await reader.read()  # Until the client closes it.
            writer.close()
            return
        upstream, upwriter = await asyncio.open_connection(self._host, self._port)
        self._writers |= {writer, upwriter}
        await asyncio.gather(self._pass(reader, upwriter), self._pass(upstream, writer), return_exceptions=True)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                await self.open.wait()
                writer.write(data)
        except ConnectionError:
            pass
        finally:
            writer.close()


@pytest.fixture
async def valve(zookeeper: str) -> AsyncIterator[tuple[Valve, str]]:
    valve = Valve(zookeeper)
    yield valve, await valve.start()
    valve.open.set()
    await valve.stop()


async def state_reached(session: ZooKeeperSession, *states: SessionState) -> None:
    """Wait for one of the states; started before what causes it."""
    if session.state in states:
        return
    event = asyncio.Event()
    session.on_state(lambda now: event.set() if now in states else None)
    await asyncio.wait_for(event.wait(), 30)


async def test_a_server_that_does_not_answer_is_reported_in_time_with_its_address() -> None:
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()  # Connections are taken by the kernel, and nothing ever answers.
        address = f"127.0.0.1:{mute.getsockname()[1]}"
        store = ZooKeeperStore(address, session_timeout_ms=1_000, connection_timeout_ms=300)
        with pytest.raises(StoreUnusable, match=f"{address} answered within 300 ms"):
            await store.open_session()
        await store.close()


async def test_a_hung_server_suspends_the_session_and_does_not_block_the_loop(valve: tuple[Valve, str]) -> None:
    gate, address = valve
    store = ZooKeeperStore(f"{address}/hung/once", session_timeout_ms=4_000, connection_timeout_ms=20_000)
    session = await store.open_session()
    await session.create("/a", make_parents=True)
    gate.open.clear()
    waiting = asyncio.ensure_future(session.get("/a"))
    turns = 0
    while session.state is SessionState.CONNECTED:
        await asyncio.sleep(0.005)
        turns += 1
    assert turns > 10, "the loop was running all the while"
    with pytest.raises(ConnectionLoss):
        await waiting
    with pytest.raises(ConnectionLoss):
        await session.get("/a")
    gate.open.set()
    gate.hang_up()
    await state_reached(session, SessionState.CONNECTED)
    assert (await session.get("/a"))[0] == b""
    await store.close()


async def test_a_broken_connection_loses_watches_and_keeps_the_session(valve: tuple[Valve, str]) -> None:
    gate, address = valve
    store = ZooKeeperStore(f"{address}/broken", session_timeout_ms=6_000, connection_timeout_ms=20_000)
    session = await store.open_session()
    await session.create("/e", ephemeral=True, make_parents=True)
    fired: list[object] = []
    await session.get("/e", watch=fired.append)
    identity = session.session_id
    suspended = asyncio.ensure_future(state_reached(session, SessionState.SUSPENDED))
    await asyncio.sleep(0)
    gate.hang_up()
    await suspended
    await state_reached(session, SessionState.CONNECTED)
    assert session.session_id == identity
    stat = await session.exists("/e")
    assert stat is not None
    assert stat.ephemeral_owner == identity
    await session.set("/e", b"x")
    assert not fired
    await store.close()


async def test_a_session_outlasts_two_connections_that_are_not_answered(valve: tuple[Valve, str]) -> None:
    gate, address = valve
    store = ZooKeeperStore(address, session_timeout_ms=9_000, connection_timeout_ms=20_000)
    session = await store.open_session()
    identity, states = session.session_id, list[SessionState]()
    session.on_state(states.append)
    gate.unanswered_count = 2
    suspended = asyncio.ensure_future(state_reached(session, SessionState.SUSPENDED))
    await asyncio.sleep(0)
    gate.hang_up()
    await suspended
    await state_reached(session, SessionState.CONNECTED, SessionState.EXPIRED)
    assert (gate.unanswered_count, session.session_id) == (0, identity)
    assert states == [SessionState.SUSPENDED, SessionState.CONNECTED]
    await store.close()


async def test_closing_while_the_server_hangs_does_not_wait_for_the_session_timeout(
    valve: tuple[Valve, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, address = valve
    store = ZooKeeperStore(address, session_timeout_ms=9_000, connection_timeout_ms=20_000)
    session = await store.open_session()
    gate.open.clear()
    waiting = asyncio.ensure_future(session.get("/"))
    await asyncio.sleep(0)
    monkeypatch.setattr(module, "CLOSE_WAIT_MS_MAX", 0)
    await asyncio.wait_for(store.close(), 5)
    with pytest.raises(CoordinationError):
        await waiting


async def test_the_session_timeout_is_the_one_the_server_grants_and_runs_from_its_last_answer(
    valve: tuple[Valve, str],
) -> None:
    gate, address = valve
    # The server's own bounds are two and twenty of its ticks of half a second.
    store = ZooKeeperStore(address, session_timeout_ms=60_000, connection_timeout_ms=20_000)
    clock = SystemClock()
    session = await store.open_session()
    await session.get("/")
    assert clock.monotonic_ms() < session.lives_until_ms <= clock.monotonic_ms() + 10_000
    asked_ms = clock.monotonic_ms()
    await session.get("/")
    assert session.lives_until_ms >= asked_ms + 10_000
    suspended = asyncio.ensure_future(state_reached(session, SessionState.SUSPENDED))
    await asyncio.sleep(0)
    lives_until_ms = session.lives_until_ms
    gate.open.clear()
    gate.hang_up()
    await suspended
    assert session.lives_until_ms == lives_until_ms, "a broken connection brings no answer"
    await store.close()


async def test_who_gives_up_opening_a_session_leaves_none_behind(zookeeper: str) -> None:
    store = ZooKeeperStore(f"{zookeeper}/given-up", session_timeout_ms=4_000, connection_timeout_ms=20_000)
    opening = asyncio.ensure_future(store.open_session())
    await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert all(session.is_over for session in store._sessions)


async def test_a_node_that_is_made_of_nothing_is_null_as_apache_kafka_makes_it(zookeeper: str) -> None:
    chroot = f"/{uuid4().hex}"
    store = ZooKeeperStore(f"{zookeeper}{chroot}", session_timeout_ms=4_000, connection_timeout_ms=20_000)
    session = await store.open_session()
    await session.create("/a/b", make_parents=True)
    await session.multi([Create("/c", b"")])
    client = KazooClient(hosts=f"{zookeeper}{chroot}")
    await asyncio.to_thread(client.start, 20)
    found = [await asyncio.to_thread(client.get, path) for path in ("/a", "/a/b", "/c")]
    await asyncio.to_thread(client.stop)
    client.close()
    assert [data for data, _ in found] == [None, None, None]
    assert [(await session.get(path))[0] for path in ("/a", "/a/b", "/c")] == [b"", b"", b""]
    await store.close()


async def test_opening_a_session_does_not_make_the_chroot_and_the_first_node_does(zookeeper: str) -> None:
    chroot = f"/{uuid4().hex}/below"
    store = ZooKeeperStore(f"{zookeeper}{chroot}", session_timeout_ms=4_000, connection_timeout_ms=20_000)
    whole = ZooKeeperStore(zookeeper, session_timeout_ms=4_000, connection_timeout_ms=20_000)
    session, root = await store.open_session(), await whole.open_session()
    assert await session.exists("/a") is None
    with pytest.raises(NoNode):
        await session.create("/a")
    assert await root.exists(chroot.rpartition("/")[0]) is None
    await session.create("/a/b", make_parents=True)
    assert await root.exists(f"{chroot}/a/b") is not None
    await store.close()
    await whole.close()


def test_a_wrong_chroot_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="not the path of a znode"):
        ZooKeeperStore("h:2181/a//b", session_timeout_ms=1, connection_timeout_ms=1)
