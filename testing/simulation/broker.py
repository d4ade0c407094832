"""One broker of the simulated cluster: its disk, its successive processes, the production server in each of them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from typing import Final

from sordini.broker.configuration.config import build_config
from sordini.broker.wiring.server import Server
from sordini.broker.wiring.startup import FORESEEN_FAILURES, ServerPorts, StartRefused
from sordini.coordination_store.embedded import EmbeddedStore
from sordini.system.named_tuple import NamedTuple
from sordini.testing.brokers.inline_workers import CleaningHere, RecordsHere
from sordini.testing.brokers.loop_processes import LoopProcess
from sordini.testing.brokers.store_session import ProcessStore
from sordini.testing.simulation.app_loop import AppLoop
from sordini.testing.simulation.cluster_network import ClusterNetwork
from sordini.testing.simulation.simulated_disk import SimDisk, SimPageCache
from sordini.testing.simulation.trace import Trace, TraceLog, leaves
from sordini.testing.simulation.transcript import Transcript
from sordini.testing.simulation.virtual_loop import SimClock

PORT: Final = 9092
SESSION_S: Final = 6.0
"""So long the coordination store waits for a silent broker."""
RESTART_S: Final = 1.0
"""After so long a supervisor starts a broker that ended by itself."""
STOP_S_MAX: Final = 20.0


class SharedParts(NamedTuple):
    """What the brokers of a simulation share."""

    loop: AppLoop
    network: ClusterNetwork
    store: EmbeddedStore
    trace: Trace
    transcript: Transcript
    seed: int


class SimBroker:
    """A broker id with a disk."""

    def __init__(self, number: int, entries: Mapping[str, str], shared: SharedParts) -> None:
        loop, network, store, trace, transcript, seed = shared
        self.number = number
        self.host = f"broker-{number}"
        self.findings: list[str] = []
        """What ended the broker, if that was a bug of it."""
        self._loop = loop
        self._network = network
        self._shared_store = store
        self._trace = trace
        self._transcript = transcript
        self._seed = seed
        self._config, _ = build_config(
            {
                **entries,
                "broker.id": str(number),
                "listeners": f"PLAINTEXT://{self.host}:{PORT}",
                "advertised.listeners": f"PLAINTEXT://{self.host}:{PORT}",
                "log.dirs": "/log",
            }
        )
        self._explicit = frozenset(entries)
        self._log = _Log(trace, transcript, self.host)
        self._incarnation = 1
        self._is_wanted = False
        self.process = loop.process(f"{self.host}.1")
        self.disk = SimDisk(loop, trace, seed, self.process)
        self.server: Server | None = None
        self._store: ProcessStore | None = None
        self._stop = asyncio.Event()
        self._life: asyncio.Task[None] | None = None
        network.hosts.add(self.host)

    @property
    def bugs(self) -> list[str]:
        """What the broker's log calls its own mistakes."""
        return [f"{self.host}: {text}" for text in [*self.findings, *self._log.bugs]]

    def start(self) -> None:
        """Start a process; harmless when one runs."""
        self._is_wanted = True
        if self.server is not None:
            if self.process.alive:
                return
            self._incarnation += 1
            self.process = self._loop.process(f"{self.host}.{self._incarnation}")
            self.disk = self.disk.after_kill(self.process)
        process = self.process
        store = self._store = ProcessStore(self._shared_store, process, self._loop)

        async def open_store() -> ProcessStore:
            return store

        ports = ServerPorts(
            clock=SimClock(self._loop),
            randomness=random.Random(f"broker {self._seed} {process.name}"),
            disk=self.disk,
            network=self._network,
            page_cache=SimPageCache(self.disk, self._seed),
            open_store=open_store,
            worker=CleaningHere(self.disk),
            record_worker=RecordsHere(),
            is_store_shared=True,
        )
        self._stop = asyncio.Event()
        self.server = Server(self._config, self._explicit, ports, self._log)
        self._life = process.spawn(self._live(self.server, self._stop, process))

    def kill(self) -> None:
        """End the process at once; its session expires when the store has waited long enough."""
        self._is_wanted = False
        if self.process.alive:
            self._end()

    async def stop(self) -> None:
        """Stop as an operator does, and kill what has not stopped after a while."""
        self._is_wanted = False
        if self.process.alive and self._life is not None:
            self._stop.set()
            await asyncio.wait([self._life, self.process.died], timeout=STOP_S_MAX, return_when="FIRST_COMPLETED")
        if self.process.alive:
            self._end()

    async def expire_session(self) -> None:
        """Let the store end the session."""
        if self._store is not None:
            await self._store.expire()

    def _end(self) -> None:
        self.process.kill()
        if self._store is not None:
            self._loop.outside_at(self._loop.time() + SESSION_S, self._expire_later, self._store)

    def _expire_later(self, store: ProcessStore) -> None:
        self._loop.create_task(store.expire())

    async def _live(self, server: Server, stop: asyncio.Event, process: LoopProcess) -> None:
        try:
            await server.run(stop, lambda: self._transcript.note(self.host, "serves"))
        except Exception as error:  # noqa: BLE001 - the process ends; what is a bug is reported.
            if process.alive:  # Output of killed code while it unwinds is ignored.
                self._ended(error)
        finally:
            if process.alive:
                self._end()
                if self._is_wanted:
                    self._loop.outside_at(self._loop.time() + RESTART_S, self._start_if_wanted)

    def _ended(self, error: Exception) -> None:
        self._transcript.note(self.host, f"ended by itself: {error!r}")
        causes = list(leaves(error))
        if not all(isinstance(cause, StartRefused | FORESEEN_FAILURES) for cause in causes):
            self.findings.append(f"ended by itself at {self._loop.time():.3f}: {causes[0]!r}")

    def _start_if_wanted(self) -> None:
        if self._is_wanted and not self.process.alive:
            self.start()


class _Log(TraceLog):
    """The broker's log: all of it is traced, and what an operator would read is in the transcript."""

    def __init__(self, trace: Trace, transcript: Transcript, who: str) -> None:
        super().__init__(trace)
        self._transcript = transcript
        self._who = who

    def info(self, event: str, **fields: object) -> None:
        super().info(event, **fields)
        self._shown(event, fields)

    def warning(self, event: str, **fields: object) -> None:
        super().warning(event, **fields)
        self._shown(event, fields)

    def error(self, event: str, **fields: object) -> None:
        super().error(event, **fields)
        self._shown(event, fields)

    def _shown(self, event: str, fields: Mapping[str, object]) -> None:
        self._transcript.note(self._who, " ".join([event, *(f"{name}={value}" for name, value in fields.items())]))
