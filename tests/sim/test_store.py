"""The simulated coordination store keeps acknowledged writes over a kill of its process."""

import asyncio

import pytest

from sordini.replication.ports import NoNode, StoreUnusable
from sordini.testing.brokers.loop_processes import LoopProcess
from sordini.testing.simulation.simulated_disk import SimDisk
from sordini.testing.simulation.trace import Trace
from sordini.testing.simulation.virtual_loop import SimClock, SimLoop, run
from tests.sim.store import DurableNodes, open_store


def test_answered_writes_outlive_a_kill_and_ephemerals_do_not():
    loop = SimLoop()
    trace = Trace(loop)
    durable = DurableNodes()

    async def use(process: LoopProcess, disk: SimDisk) -> None:
        store = await open_store(durable, process, disk, SimClock(loop))
        session = await store.open_session()
        await session.create("/brokers", b"x")
        await session.create("/brokers/1", b"", ephemeral=True)
        with pytest.raises(StoreUnusable):
            await open_store(durable, process, disk, SimClock(loop))
        process.kill()

    async def find(process: LoopProcess, disk: SimDisk) -> bytes:
        session = await (await open_store(durable, process, disk, SimClock(loop))).open_session()
        with pytest.raises(NoNode):
            await session.get("/brokers/1")
        data, _ = await session.get("/brokers")
        return data

    async def main() -> None:
        first, second = loop.process("first"), loop.process("second")
        disk = SimDisk(loop, trace, 1, first)
        first.spawn(use(first, disk))
        await asyncio.sleep(60)
        assert not first.alive
        assert await second.spawn(find(second, disk.after_kill(second))) == b"x"

    run(loop, main())
