"""One simulated world: a loop, a network, a disk, and the broker's successive processes.

The broker comes in as a function that builds it from the ports, so that this file uses only its `start` and
`stop`. Between two processes the logs are read from the disk without the broker's help; clients connect after that.
"""

from __future__ import annotations

import asyncio
import random
import traceback
from collections.abc import Callable, Coroutine
from typing import Any, Literal, Protocol

from sordini.coordination_store.embedded import EmbeddedStore
from sordini.protocol.types import TopicPartition
from sordini.testing.brokers.loop_processes import LoopProcess
from sordini.testing.simulation.simulated_disk import SimDisk
from sordini.testing.simulation.simulated_network import Address, SimNetwork
from sordini.testing.simulation.trace import LINES_KEPT, Trace, TraceLog
from sordini.testing.simulation.virtual_loop import SimClock, SimLoop
from tests.sim.files import committed_in, dumps_of, partitions_in
from tests.sim.history import Dump, History, Restart
from tests.sim.store import DurableNodes, open_store

OFFSETS_TOPIC = "__consumer_offsets"
ADDRESS: Address = ("broker", 9092)
LOG_DIRECTORIES = ("/data/a", "/data/b")
START_S_MAX = 30.0
STOP_S_MAX = 60.0
STARTS_MAX = 40
EndKind = Literal["stop", "kill", "power"]


class Broker(Protocol):
    """The broker's interface to the world."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


class _Log(TraceLog):
    """The broker's log, from which the history learns when groups are loaded: no request is answered so."""

    def __init__(self, trace: Trace, loop: SimLoop, history: History) -> None:
        super().__init__(trace)
        self._loop = loop
        self._history = history

    def info(self, event: str, **fields: object) -> None:
        super().info(event, **fields)
        if event == "groups loaded":
            index = int(str(fields["partition"]).removeprefix(f"{OFFSETS_TOPIC}-"))
            self._history.groups.loaded[index] = self._loop.time()


class World:
    """Everything of one run. `build` makes a broker that listens on ADDRESS, with its logs in LOG_DIRECTORIES."""

    def __init__(
        self,
        seed: int,
        build: Callable[[World], Broker],
        settings: dict[str, str] | None = None,
        lines_kept: int | None = LINES_KEPT,
    ) -> None:
        self.seed = seed
        self.settings = settings or {}
        self.loop = SimLoop(seed)
        self.trace = Trace(self.loop, lines_kept)
        self.network = SimNetwork(self.loop, self.trace, seed)
        self.clock = SimClock(self.loop)
        self.history = History()
        self.log = _Log(self.trace, self.loop, self.history)
        self.coordination = DurableNodes()
        self.findings: list[str] = []
        self.disk_failed = False
        self.processes = 1
        self.process = self._new_process()
        self.disk = SimDisk(self.loop, self.trace, seed, self.process)
        self._build = build
        self._broker: Broker | None = None

    def randomness(self) -> random.Random:
        """The broker's randomness port, another sequence for each process."""
        return random.Random(f"broker {self.seed} {self.processes}")

    async def open_store(self) -> EmbeddedStore:
        """The coordination store, opened by the process that runs now."""
        return await open_store(self.coordination, self.process, self.disk, self.clock)

    def ended_by_itself(self, process: LoopProcess, error: BaseException, *, is_disk: bool) -> None:
        """A broker's `run` raised. With a failed disk that may happen, otherwise it is a finding."""
        self.trace.note("ended by itself", process.name, type(error).__name__)
        if not (is_disk and self.disk_failed):
            where = "".join(traceback.format_exception(error))
            self.findings.append(f"{process.name} ended by itself at {self.loop.time():.3f}: {where}")

    async def start(self) -> bool:
        """Start the broker; returns whether it serves. Raises TimeoutError when it neither serves nor ends."""
        self.network.admits = False
        self._broker = self._build(self)
        serves = await self._until_death(self._broker.start(), START_S_MAX)
        self.trace.note("started" if serves else "died starting", self.process.name)
        return serves

    def admit(self) -> None:
        """Let the clients in."""
        self.network.admits = True

    async def stop(self) -> None:
        """Stop the broker as an operator does; it may fail meanwhile."""
        assert self._broker is not None
        await self._until_death(self._broker.stop(), STOP_S_MAX)
        self.process.kill()

    async def restart(self, kind: EndKind, pause: float, prepare: Callable[[SimDisk, int], None] | None = None) -> None:
        """End the broker in one of three ways, or find it dead, and start the next process after a pause.

        `prepare` gets each new process's disk, and how many have failed to start, before the process is started.
        """
        if kind == "stop" and self.process.alive:
            await self.stop()
        if kind == "power":
            for socket in self.network.connections(self.process):
                socket.cut()
        self.process.kill()
        self.trace.note("ended", self.process.name, kind)
        before, at = self.dumps(), self.loop.time()
        for failed in range(STARTS_MAX):
            await asyncio.sleep(pause)
            self.history.groups.loaded.clear()
            self._next_process(has_power=kind != "power" or failed > 0)
            if prepare is not None:
                prepare(self.disk, failed)
            if await self.start():
                break
        else:
            raise TimeoutError(f"the broker did not come up in {STARTS_MAX} attempts")
        self.disk.heal()
        self.disk_failed = False
        offsets = committed_in(self.disk.visible_tree())
        after = self.dumps()
        self.history.restarts.append(Restart(kind, at, before, after, offsets, self.loop.time()))
        self.history.groups.to_load = frozenset(
            partition.partition for partition, dump in after.items() if partition.topic == OFFSETS_TOPIC and dump.seen
        )
        self.admit()

    def note_offline(self, disk: SimDisk) -> None:
        """From the first error in a log directory until now nothing may have been acknowledged from it."""
        now = self.loop.time()
        for directory in LOG_DIRECTORIES:
            times = [at for path, at in disk.failed_at.items() if path.startswith(directory)]
            if times:
                for partition in partitions_in(directory, disk.visible_tree()):
                    self.history.offline.append((partition, min(times), now))

    def dumps(self) -> dict[TopicPartition, Dump]:
        """Every partition's log as the page cache has it, and how much of it is on the disk for certain."""
        return dumps_of(self.loop.time(), self.disk.visible_tree(), self.disk.synced_tree())

    def _next_process(self, *, has_power: bool) -> None:
        old_disk = self.disk
        self.processes += 1
        self.process = self._new_process()
        self.disk = old_disk.after_kill(self.process) if has_power else old_disk.after_power_loss(self.process)

    async def _until_death(self, work: Coroutine[Any, Any, None], seconds_max: float) -> bool:
        """Run something in the broker's process; False when the process ended first."""
        process = self.process
        task = process.spawn(work)
        done, _ = await asyncio.wait([task, process.died], timeout=seconds_max, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            raise TimeoutError(f"{process.name} neither finished nor ended within {seconds_max} s")
        if not process.alive:
            return False
        await task
        return True

    def _new_process(self) -> LoopProcess:
        return self.loop.process(f"broker-{self.processes}")
