"""One broker of the cluster: its disk, its successive processes, and the production server in each of them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, Protocol

from sordini.broker.configuration.config import build_config
from sordini.broker.network.tls_handshakes import LoopWorker
from sordini.broker.wiring.server import Server
from sordini.broker.wiring.startup import ServerPorts, StartRefused
from sordini.protocol.types import BrokerId
from sordini.testing.brokers.loop_processes import LoopProcess
from sordini.testing.simulation.simulated_disk import SimDisk, SimPageCache
from sordini.testing.simulation.simulated_network import Address
from sordini.testing.simulation.trace import Trace, TraceLog, escaped, leaves
from sordini.testing.simulation.virtual_loop import SimClock
from tests.sim.cluster import secured
from tests.support.fake_zookeeper_session import SimZkStore
from tests.support.inline_cleaner import CleaningHere
from tests.support.inline_record_jobs import RecordsHere

if TYPE_CHECKING:
    from tests.sim.cluster.world import ClusterWorld

LOG_DIRECTORY = "/data"
PORT = 9092
SESSION_TIMEOUT_MS = 1_500
ENTRIES = {
    "log.dirs": LOG_DIRECTORY,
    "zookeeper.connect": "zk:2181",
    "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "replica.lag.time.max.ms": "2000",
    "replica.fetch.wait.max.ms": "400",
    "replica.fetch.backoff.ms": "150",
    "replica.socket.timeout.ms": "1500",
    "controller.socket.timeout.ms": "1500",
    "request.timeout.ms": "1500",
    "replica.high.watermark.checkpoint.interval.ms": "700",
    "log.flush.offset.checkpoint.interval.ms": "3000",
    "log.retention.check.interval.ms": "5000",
    "controlled.shutdown.retry.backoff.ms": "300",
    "num.network.threads": "1",
    # A thread that watches the loop would read the machine's clock.
    "sordini.stall.threshold.ms": "-1",
}
RESTART_S = 0.3
EndKind = Literal["kill", "power"]


class Node:
    """A broker id with a disk. `start` brings a process up; it comes up again by itself when it ends by itself."""

    def __init__(self, world: ClusterWorld, broker_id: BrokerId) -> None:
        self.broker_id = broker_id
        self.host = f"node{broker_id}"
        self.address: Address = (self.host, PORT)
        self.clock = SimClock(world.loop)
        self.log = _NodeLog(world.trace, self._learned)
        self.incarnation = 1
        self.is_wanted = False
        """Whether it should be up: while False, it is not started again."""
        self.process = self._new_process(world)
        self.disk = SimDisk(world.loop, world.trace, world.seed, self.process)
        self.server: Server | None = None
        self._world = world
        self._has_run = False
        self._stop: asyncio.Event | None = None
        self._life: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the next process of a stopped node, or the first."""
        self.is_wanted = True
        if self._has_run:
            assert not self.process.alive, f"{self.process.name} runs"
            self._next_process(self.disk.after_kill)
        self._has_run = True
        world = self._world
        entries = ENTRIES | {
            "broker.id": str(self.broker_id),
            "listeners": f"{world.listener}://{self.host}:{PORT}",
            "advertised.listeners": f"{world.listener}://{self.host}:{PORT}",
            **world.settings,
            **(secured.node_settings() if world.is_secured else {}),
        }
        config, unknown = build_config(entries)
        assert not unknown, unknown
        ports = ServerPorts(
            clock=self.clock,
            randomness=random.Random(f"broker {world.seed} {self.process.name}"),
            disk=self.disk,
            network=world.network,
            page_cache=SimPageCache(self.disk, world.seed),
            open_store=self._open_store,
            worker=CleaningHere(self.disk),
            record_worker=RecordsHere(),
            handshake_worker=lambda _: LoopWorker(),
        )
        self._stop = asyncio.Event()
        self.server = Server(config, frozenset(entries), ports, self.log)
        world.trace.note("start", self.process.name)
        for leaderships in world.controller.leaderships.values():
            leaderships.started(world.loop.time(), self.broker_id)
        self._life = self.process.spawn(self._live(self.server, self._stop, self.process))

    def end(self, kind: EndKind) -> None:
        """Kill the process, or take its power; it stays down until `start`."""
        self.is_wanted = False
        world = self._world
        world.trace.note("end", self.process.name, kind)
        if kind == "power":
            for socket in world.network.connections(self.process):
                socket.cut()
        self.process.kill()
        if kind == "power":
            self._next_process(self.disk.after_power_loss)
            self.process.kill()

    async def stop(self, seconds_max: float) -> None:
        """End it as an operator does; after `seconds_max` it is killed."""
        self.is_wanted = False
        if self.process.alive and self._stop is not None and self._life is not None:
            self._stop.set()
            await asyncio.wait([self._life, self.process.died], timeout=seconds_max, return_when="FIRST_COMPLETED")
        if self.process.alive:
            self._world.trace.note("did not stop in time", self.process.name)
        self.process.kill()

    def _learned(self, name: str, leader_epoch: int, *, is_leader: bool) -> None:
        partition = next(each for each in self._world.controller.leaderships if str(each) == name)
        leaderships = self._world.controller.leaderships[partition]
        leaderships.learned(self._world.loop.time(), self.broker_id, leader_epoch, is_leader=is_leader)

    async def _open_store(self) -> SimZkStore:
        return SimZkStore(self._world.zk, self.host, SESSION_TIMEOUT_MS / 1_000)

    async def _live(self, server: Server, stop: asyncio.Event, process: LoopProcess) -> None:
        try:
            await server.run(stop, lambda: self._world.trace.note("ready", process.name))
        except Exception as error:  # noqa: BLE001 - the process ends; whether it may is the world's to say.
            if process.alive:  # Output of killed code while it unwinds is ignored.
                self._ended(process, error)
        finally:
            if process.alive:
                process.kill()
                self._start_again()

    def _ended(self, process: LoopProcess, error: Exception) -> None:
        self._world.trace.note("ended by itself", process.name, type(error).__name__, error)
        causes = list(leaves(error))
        if not all(isinstance(cause, StartRefused) for cause in causes):
            at = self._world.loop.time()
            self._world.findings.append(f"{process.name} ended by itself at {at:.3f}: {escaped(causes[0])}")

    def _start_again(self) -> None:
        """As a supervisor does."""
        if self.is_wanted:
            self._world.loop.outside_at(self._world.loop.time() + RESTART_S, self._start_if_wanted)

    def _start_if_wanted(self) -> None:
        if self.is_wanted and not self.process.alive:
            self.start()

    def _next_process(self, disk_of: Callable[[LoopProcess], SimDisk]) -> None:
        self.incarnation += 1
        self.process = self._new_process(self._world)
        self.disk = disk_of(self.process)

    def _new_process(self, world: ClusterWorld) -> LoopProcess:
        return world.loop.process(f"{self.host}.{self.incarnation}")


class _Learned(Protocol):
    def __call__(self, name: str, leader_epoch: int, *, is_leader: bool) -> None: ...


class _NodeLog(TraceLog):
    """Reports the roles of this broker, with their leader epochs."""

    def __init__(self, trace: Trace, learned: _Learned) -> None:
        super().__init__(trace)
        self._learned = learned

    def info(self, event: str, **fields: object) -> None:
        if event in ("became leader", "became follower"):
            partition, leader_epoch = fields["partition"], fields["leader_epoch"]
            assert isinstance(partition, str)
            assert isinstance(leader_epoch, int)
            self._learned(partition, leader_epoch, is_leader=event == "became leader")
        super().info(event, **fields)
