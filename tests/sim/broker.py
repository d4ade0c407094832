"""The production server, put together as broker/process/broker_process.py does it, on the ports of a simulated world."""

from __future__ import annotations

import asyncio

from sordini.broker.configuration.config import build_config
from sordini.broker.wiring.server import Server
from sordini.broker.wiring.startup import ServerPorts, StartRefused
from sordini.storage.errors import StorageError
from sordini.testing.simulation.simulated_disk import SimPageCache
from sordini.testing.simulation.trace import leaves
from tests.sim.world import ADDRESS, LOG_DIRECTORIES, World
from tests.support.inline_cleaner import CleaningHere
from tests.support.inline_record_jobs import RecordsHere

ENTRIES = {
    "listeners": f"PLAINTEXT://{ADDRESS[0]}:{ADDRESS[1]}",
    "log.dirs": ",".join(LOG_DIRECTORIES),
    # A thread that watches the loop would read the machine's clock.
    "sordini.stall.threshold.ms": "-1",
    # What a broker does every few minutes happens several times in a run.
    "log.retention.check.interval.ms": "2000",
    "log.segment.delete.delay.ms": "3000",
    "log.flush.offset.checkpoint.interval.ms": "5000",
    "log.flush.start.offset.checkpoint.interval.ms": "4000",
    "replica.high.watermark.checkpoint.interval.ms": "1000",
    "sordini.open.segments.max": "16",
}


class SimBroker:
    """One process's broker. When it stops by itself it ends its process and reports that to the world."""

    def __init__(self, world: World) -> None:
        config, unknown = build_config({**ENTRIES, **world.settings})
        assert not unknown, unknown
        ports = ServerPorts(
            clock=world.clock,
            randomness=world.randomness(),
            disk=world.disk,
            network=world.network,
            page_cache=SimPageCache(world.disk, world.seed),
            open_store=world.open_store,
            worker=CleaningHere(world.disk),
            record_worker=RecordsHere(),
        )
        explicit = frozenset([*ENTRIES, *world.settings])
        self._world = world
        self._process = world.process
        self._server = Server(config, explicit, ports, world.log)
        self._ready = asyncio.Event()
        self._stop = asyncio.Event()
        self._life: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Return when the broker serves; never, if it ends before."""
        self._life = asyncio.create_task(self._live())
        await self._ready.wait()

    async def stop(self) -> None:
        """Stop as SIGTERM does, and return when the last file is closed."""
        assert self._life is not None
        self._stop.set()
        await self._life

    async def _live(self) -> None:
        try:
            await self._server.run(self._stop, self._ready.set)
        except Exception as error:  # noqa: BLE001 - the process ends; whether it may is the world's to say.
            if self._process.alive:  # Output of killed code while it unwinds is ignored.
                self._world.ended_by_itself(self._process, error, is_disk=_is_disk(error))
                self._process.kill()


def _is_disk(error: BaseException) -> bool:
    """Whether everything in a group of errors comes from a failed disk."""
    causes = list(leaves(error))
    return all(isinstance(cause, StorageError | StartRefused | OSError) for cause in causes)
