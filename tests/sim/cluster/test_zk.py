"""The simulated ensemble ends sessions as ZooKeeper does; what all stores promise is in tests/contract."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from sordini.replication.ports import ConnectionLoss, SessionExpired, SessionState, WatchEvent
from sordini.testing.brokers.loop_processes import LoopProcess
from sordini.testing.simulation.trace import Trace
from sordini.testing.simulation.virtual_loop import SimClock, SimLoop, run
from tests.support.fake_zookeeper import SimZk
from tests.support.fake_zookeeper_session import SimZkSession, SimZkStore

TIMEOUT_S = 2.0


class _World:
    def __init__(self) -> None:
        self.loop = SimLoop(1)
        self.zk = SimZk(self.loop, SimClock(self.loop), Trace(self.loop), 1)
        self.states: list[tuple[float, SessionState]] = []

    async def session(self, host: str = "a") -> SimZkSession:
        session = await SimZkStore(self.zk, host, TIMEOUT_S).open_session()
        began = self.loop.time()
        session.on_state(lambda state: self.states.append((self.loop.time() - began, state)))
        return session


def _play(story: Callable[[_World], Awaitable[None]]) -> _World:
    world = _World()
    run(world.loop, story(world))  # type: ignore[arg-type]
    return world


def test_a_session_that_is_cut_off_for_less_than_its_timeout_lives_and_loses_its_watches():
    async def story(world: _World) -> None:
        session, other, fired = await world.session(), await world.session("b"), list[WatchEvent]()
        await session.create("/e", ephemeral=True)
        await session.exists("/e", watch=fired.append)
        world.zk.cut("a", TIMEOUT_S * 0.85)
        await asyncio.sleep(TIMEOUT_S * 0.8)
        with pytest.raises(ConnectionLoss):
            await session.get("/e")
        await asyncio.sleep(TIMEOUT_S)
        assert [state for _, state in world.states] == [SessionState.SUSPENDED, SessionState.CONNECTED]
        await other.set("/e", b"x")
        await asyncio.sleep(1)
        assert not fired

    _play(story)


def test_a_session_that_is_cut_off_for_longer_ends_and_its_client_learns_that_when_it_is_back():
    async def story(world: _World) -> None:
        session, other = await world.session(), await world.session("b")
        await session.create("/e", ephemeral=True)
        world.zk.cut("a", 3 * TIMEOUT_S)
        await asyncio.sleep(1.3 * TIMEOUT_S)
        assert await other.exists("/e") is None
        assert session.state is SessionState.SUSPENDED
        await asyncio.sleep(3 * TIMEOUT_S)
        assert session.state is SessionState.EXPIRED
        with pytest.raises(SessionExpired):
            await session.get("/")
        assert other.state is SessionState.CONNECTED

    world = _play(story)
    assert [state for _, state in world.states] == [SessionState.SUSPENDED, SessionState.EXPIRED]
    assert world.states[1][0] >= 3 * TIMEOUT_S


def test_a_session_opened_while_the_ensemble_was_away_is_one_and_lives():
    async def story(world: _World) -> None:
        world.zk.cut("a", 2 * TIMEOUT_S)
        session = await world.session("a")
        await asyncio.sleep(3 * TIMEOUT_S)
        assert session.state is SessionState.CONNECTED

    assert _play(story).states == []


@pytest.mark.parametrize("how", [LoopProcess.kill, lambda process: process._loop.pause(process)])
def test_a_session_of_a_process_that_died_or_stands_still_ends_by_itself(how: Callable[[LoopProcess], None]):
    async def story(world: _World) -> None:
        process, other = world.loop.process("a"), await world.session("b")

        async def live() -> None:
            session = await world.session("a")
            await session.create("/e", ephemeral=True)

        await process.spawn(live())
        how(process)
        await asyncio.sleep(0.6 * TIMEOUT_S)
        assert await other.exists("/e") is not None
        await asyncio.sleep(0.6 * TIMEOUT_S)
        assert await other.exists("/e") is None

    _play(story)


def test_a_write_whose_connection_broke_may_have_taken_effect_and_never_does_later():
    async def story(world: _World) -> None:
        session, other, effects = await world.session(), await world.session("b"), list[bool]()
        for number in range(40):
            path = f"/n{number}"
            write = asyncio.ensure_future(session.create(path))
            await asyncio.sleep(0.0005 * (number % 8))
            world.zk.drop("a")
            lost = (await asyncio.gather(write, return_exceptions=True))[0]
            await asyncio.sleep(1)
            there = await other.exists(path) is not None
            if isinstance(lost, ConnectionLoss):
                effects.append(there)
            else:
                assert there
            assert session.state is SessionState.CONNECTED
        assert True in effects
        assert False in effects

    _play(story)
