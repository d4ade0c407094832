"""One broker of a site: its process, its files and its address. It can be stopped, killed, paused and started again."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from typing import Final

from sordini.broker.configuration.config import build_config
from sordini.broker.configuration.settings import ConfigError
from sordini.broker.coordination_store.embedded import EmbeddedStore
from sordini.broker.network.ports import Socket
from sordini.broker.wiring.deps import Interposer
from sordini.broker.wiring.server import Server
from sordini.broker.wiring.startup import Ports, StartRefused
from sordini.testing.brokers.broker_loop import BrokerClock, BrokerLoop
from sordini.testing.brokers.event_log import BrokerLog, Lines
from sordini.testing.brokers.inline_workers import CleaningHere, RecordsHere
from sordini.testing.brokers.loop_processes import LoopProcess
from sordini.testing.brokers.memory_disk import InMemory, MemoryDisk, Tree
from sordini.testing.brokers.network import BrokerNetwork
from sordini.testing.brokers.store_session import ProcessStore
from sordini.testing.cluster import Address, BrokerState

CLIENTS: Final = "CLIENTS"
"""The listener that tests and their clients use."""
BROKERS: Final = "BROKERS"
"""The listener that brokers and the kit itself use: no fault is injected into its requests."""


class Surroundings:
    """What the brokers of a site share."""

    def __init__(self, loop: BrokerLoop, store: EmbeddedStore, lines: Lines, seed: int) -> None:
        self.loop = loop
        self.clock = BrokerClock(loop)
        self.store = store
        self.lines = lines
        self.seed = seed


class Node:
    """A broker id. Its files outlive its processes."""

    def __init__(
        self,
        number: int,
        entries: Mapping[str, str],
        shared: Surroundings,
        interposer: Interposer,
        is_cut: Callable[[Address], bool],
    ) -> None:
        """`entries` are the broker's configuration, but for what a node sets itself."""
        self.number = number
        self.tree = Tree(shared.clock.now_ms)
        self.process: LoopProcess | None = None
        self.server: Server | None = None
        self.network: BrokerNetwork | None = None
        self.addresses: dict[str, Address] = {}
        """By listener, once it was started for the first time; they stay."""
        self._entries = dict(entries)
        self._shared = shared
        self._interposer = interposer
        self._is_cut = is_cut
        self._starts = 0
        self._store: ProcessStore | None = None
        self._stop = asyncio.Event()
        self._life: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
        """Whether there is a process, paused or not."""
        return self.process is not None and self.process.alive

    def state(self) -> BrokerState:
        """Of a broker that was started once."""
        is_paused = self.process is not None and self._shared.loop.is_paused(self.process)
        return BrokerState(self.number, self.is_running, is_paused, self.addresses[CLIENTS], self.addresses[BROKERS])

    async def start(self) -> None:
        """Start, and wait until the broker serves. Raises StartRefused, ConfigError."""
        assert not self.is_running, f"broker {self.number} runs"
        shared, name = self._shared, f"broker {self.number}"
        self._starts += 1
        config, unknown = build_config(self._configuration())
        if unknown:
            raise ConfigError(
                f"config={unknown[0]!r} is not a key of a broker: allowed are those of docs/configuration.md"
            )
        process = self.process = shared.loop.process(name)
        disk = MemoryDisk(self.tree, process)
        network = self.network = BrokerNetwork(process, self._is_cut)
        store = self._store = ProcessStore(shared.store, process, shared.loop)

        async def open_store() -> ProcessStore:
            return store

        ports = Ports(
            clock=shared.clock,
            randomness=random.Random(f"{shared.seed} {name} {self._starts}"),  # noqa: S311 - repeatable.
            disk=disk,
            network=network,
            page_cache=InMemory(),
            open_store=open_store,
            worker=CleaningHere(disk),
            record_worker=RecordsHere(),
            is_store_shared=True,
            interposer=self._interposer,
        )
        self.server = Server(config, frozenset(self._entries), ports, BrokerLog(shared.lines, name))
        stop, ready = asyncio.Event(), shared.loop.create_future()
        self._stop = stop
        life = self._life = process.spawn(self._live(self.server, process, stop, ready))
        await asyncio.wait([life, ready, process.died], return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            raise (
                life.exception() or StartRefused(f"{name} ended while it started")
                if life.done()
                else StartRefused(f"{name} was killed while it started")
            )
        self.addresses = {end.name: (end.host, end.port) for end in self.server.bound}

    async def stop(self) -> None:
        """Stop as an operator does: leaderships are handed over, files are closed."""
        if self.is_running and self._life is not None:
            self._resume_if_paused()
            self._stop.set()
            await asyncio.wait([self._life])
            self._end()

    async def kill(self) -> None:
        """End the process at once, as SIGKILL does, and let the coordination store notice it."""
        if self.is_running:
            self._end()
            if self._store is not None:
                await self._store.expire()

    def end(self) -> None:
        """End the process at once; nobody notices."""
        if self.is_running:
            self._end()

    def pause(self) -> None:
        """Let nothing of the broker run, as SIGSTOP does."""
        if self.process is not None and not self._shared.loop.is_paused(self.process):
            self._shared.loop.pause(self.process)

    async def expire_session(self) -> None:
        """Expire its session with the coordination store."""
        if self._store is not None:
            await self._store.expire()

    def resume(self) -> None:
        """Let it go on."""
        self._resume_if_paused()

    def reset(self, is_meant: Callable[[Socket], bool]) -> None:
        """Break the connections for which `is_meant` holds."""
        if self.network is not None and self.is_running:
            self.network.reset(is_meant)

    def _resume_if_paused(self) -> None:
        if self.process is not None and self._shared.loop.is_paused(self.process):
            self._shared.loop.resume(self.process, timers_first=False)

    def _end(self) -> None:
        assert self.process is not None
        self.process.kill()

    async def _live(
        self, server: Server, process: LoopProcess, stop: asyncio.Event, ready: asyncio.Future[None]
    ) -> None:
        def is_ready() -> None:
            if not ready.done():
                ready.set_result(None)

        try:
            await server.run(stop, is_ready)
        except Exception as error:
            self._shared.lines.add("error", process.name, "ended by itself", {"reason": error})
            raise
        finally:
            if process.alive and not stop.is_set():
                self._shared.loop.call_soon(process.kill)

    def _configuration(self) -> dict[str, str]:
        listeners = []
        for name in (CLIENTS, BROKERS):
            host, port = self.addresses.get(name, ("127.0.0.1", 0))
            listeners.append(f"{name}://{host}:{port}")
        return {
            **self._entries,
            "broker.id": str(self.number),
            "listeners": ",".join(listeners),
            "inter.broker.listener.name": BROKERS,
            "log.dirs": "/log",
        }
