"""One simulated world: a loop, a network, a disk, and the broker's successive processes.

The broker comes in as a function that builds it from the ports, so that this file knows nothing of it but
`start` and `stop`. Between two processes the logs are read from the disk without the broker's help, and nobody may
connect before that is done.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from typing import Literal, Protocol

from sordini.broker.coordination.embedded import EmbeddedStore
from sordini.protocol.errors import BrokerError
from sordini.protocol.types import TopicPartition
from tests.sim.client import ProtocolViolation
from tests.sim.consumer import records_in
from tests.sim.disk import SimDisk
from tests.sim.history import Dump, History, Restart, Seen
from tests.sim.loop import SimClock, SimLoop, SimProcess
from tests.sim.network import Address, SimNetwork
from tests.sim.store import DurableNodes, open_store
from tests.sim.trace import Trace, TraceLog

ADDRESS: Address = ("broker", 9092)
LOG_DIRECTORY = "/data"
START_S_MAX = 30.0
STOP_S_MAX = 30.0


class Broker(Protocol):
    """What the world must be able to do with a broker."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


class World:
    """Everything of one run. `build` makes a broker that listens on ADDRESS and keeps its logs in LOG_DIRECTORY."""

    def __init__(self, seed: int, build: Callable[[World], Broker]) -> None:
        self.seed = seed
        self.loop = SimLoop(seed)
        self.trace = Trace(self.loop)
        self.network = SimNetwork(self.loop, self.trace, seed)
        self.clock = SimClock(self.loop)
        self.log = TraceLog(self.trace)
        self.history = History()
        self.coordination = DurableNodes()
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

    async def start(self) -> None:
        """Bring the broker up; raises what its start raises, or TimeoutError."""
        self.network.admits = False
        self._broker = self._build(self)
        async with asyncio.timeout(START_S_MAX):
            await self.process.spawn(self._broker.start())
        self.trace.note("started", self.process.name)

    def admit(self) -> None:
        """Let the clients in."""
        self.network.admits = True

    async def stop(self) -> None:
        """End the broker as an operator does."""
        assert self._broker is not None
        async with asyncio.timeout(STOP_S_MAX):
            await self.process.spawn(self._broker.stop())
        self.process.kill()

    async def restart(self, kind: Literal["stop", "kill", "power"], pause: float) -> None:
        """End the broker in one of three ways, or find it dead, and start the next process after a pause."""
        if kind == "stop" and self.process.alive:
            await self.stop()
        if kind == "power":
            for socket in self.network.connections(self.process):
                socket.cut()
        self.process.kill()
        self.trace.note("ended", self.process.name, kind)
        before, at = self.dumps(), self.loop.time()
        await asyncio.sleep(pause)
        old_disk = self.disk
        self.processes += 1
        self.process = self._new_process()
        if kind == "power":
            self.disk = old_disk.after_power_loss(self.process)
        else:
            self.disk = old_disk.after_kill(self.process)
        await self.start()
        self.history.restarts.append(Restart(kind, at, before, self.dumps()))
        self.admit()

    def dumps(self) -> dict[TopicPartition, Dump]:
        """Every partition's log as the page cache has it, and how much of it is on the disk for certain."""
        visible = _logs(self.disk.visible_tree())
        synced = _logs(self.disk.synced_tree())
        return {
            partition: Dump(self.loop.time(), partition, seen, _end(synced.get(partition, ())))
            for partition, seen in visible.items()
        }

    def _new_process(self) -> SimProcess:
        return self.loop.process(f"broker-{self.processes}")


def _logs(tree: dict[str, bytes]) -> dict[TopicPartition, tuple[Seen, ...]]:
    found: dict[TopicPartition, list[Seen]] = {}
    for path, data in sorted(tree.items()):
        directory, _, name = path.rpartition("/")
        topic, _, number = directory.rpartition("/")[2].rpartition("-")
        if not directory.startswith(LOG_DIRECTORY) or not name.endswith(".log") or not number.isdigit():
            continue
        seen = found.setdefault(TopicPartition(topic, int(number)), [])
        for record in _until_damage(path, data):
            if seen and record.offset != seen[-1].offset + 1:
                break
            seen.append(record)
    return {partition: tuple(seen) for partition, seen in found.items()}


def _until_damage(path: str, data: bytes) -> Iterator[Seen]:
    """The records up to the first byte that is not a right batch: where a recovery would cut."""
    try:
        yield from records_in(path, memoryview(data))
    except (ProtocolViolation, BrokerError):
        return


def _end(seen: tuple[Seen, ...]) -> int:
    return seen[-1].offset + 1 if seen else 0
