"""One broker of a site: its process, its files and its address. It can be stopped, killed, paused and started again."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from sordini.broker.configuration.config import build_config
from sordini.broker.configuration.settings import ConfigError
from sordini.broker.network.descriptors import Descriptors
from sordini.broker.network.ports import PageCache, Socket
from sordini.broker.process.dev_cluster import with_own_metrics_port
from sordini.broker.wiring.deps import Interposer
from sordini.broker.wiring.server import Server
from sordini.broker.wiring.startup import ServerPorts, StartRefused
from sordini.coordination_store.embedded import EmbeddedStore
from sordini.protocol.errors import BrokerError
from sordini.replication.replica_set import ReplicaSet
from sordini.storage.disk import Disk
from sordini.storage.errors import StorageError
from sordini.system.named_tuple import NamedTuple
from sordini.testing.brokers.broker_loop import BrokerClock, BrokerLoop
from sordini.testing.brokers.event_log import BrokerLog, Lines
from sordini.testing.brokers.inline_workers import CleaningHere, RecordsHere
from sordini.testing.brokers.loop_processes import LoopProcess
from sordini.testing.brokers.memory_disk import Tree
from sordini.testing.brokers.network import BrokerNetwork
from sordini.testing.brokers.real_disk import Directory
from sordini.testing.brokers.store_session import ProcessStore
from sordini.testing.cluster import Address, BrokerState

CLIENTS: Final = "CLIENTS"
"""The listener that tests and their clients use, unless a test names others."""
BROKERS: Final = "BROKERS"
"""The listener that brokers and the kit itself use: no fault is injected into its requests."""


class SiteOptions(NamedTuple):
    """Where the brokers of a site are, and how long they may take to start."""

    directory: str | None = None
    """On the machine's disk; None: everything is in memory."""
    host: str = "127.0.0.1"
    """For clients."""
    port: int = 0
    """Of the first broker, for clients; the others have the next ones. 0 lets the system choose each."""
    descriptors: Descriptors = Descriptors()
    start_s: float | None = 5.0
    """Within this time all brokers serve, or the start fails and says what they did; None: without a bound."""
    listeners: Mapping[str, str] | None = None
    """Protocols by the names of the listeners of clients; None: one of PLAINTEXT."""


class ReleasedDisk(Disk, Protocol):
    """A disk as one process uses it."""

    async def released(self) -> None:
        """Return when nothing of the process, which has ended, uses a file any more."""


class BrokerFiles(Protocol):
    """What is on a broker's disk, with its faults. It outlives the broker's processes."""

    path: str
    """The log directory."""
    is_full: bool
    """Whether everything that needs room fails with ENOSPC."""
    delay_s: float
    """How long each synchronisation and each read beside the loop takes longer."""

    def opened_by(self, process: LoopProcess) -> ReleasedDisk:
        """The disk for one process."""

    def page_cache(self, disk: Any) -> PageCache:
        """Whether its files can be read without waiting; `disk` is what `opened_by` returned."""


class SharedParts:
    """What the brokers of a site share."""

    def __init__(self, loop: BrokerLoop, store: EmbeddedStore, lines: Lines, seed: int, options: SiteOptions) -> None:
        self.loop = loop
        self.clock = BrokerClock(loop)
        self.store = store
        self.lines = lines
        self.seed = seed
        self.options = options

    def files_of(self, number: int) -> BrokerFiles:
        """A broker's disk."""
        directory = self.options.directory
        if directory is None:
            return Tree(self.clock.now_ms)
        return Directory(f"{directory}/broker-{number}", self.clock)


class Node:
    """A broker id. Its files outlive its processes."""

    def __init__(
        self,
        number: int,
        entries: Mapping[str, str],
        shared: SharedParts,
        interposer: Interposer,
        is_cut: Callable[[Address], bool],
        listeners: Sequence[str] = (CLIENTS,),
    ) -> None:
        """`entries` are the broker's configuration but for what a node sets; `listeners` are those of clients."""
        self.number = number
        self.files = shared.files_of(number)
        self.process: LoopProcess | None = None
        self.server: Server | None = None
        self.network: BrokerNetwork | None = None
        self.addresses: dict[str, Address] = {}
        """By listener, once it was started for the first time; they stay."""
        self.advertised: dict[str, Address] = {}
        """What clients are sent."""
        self._disk: ReleasedDisk | None = None
        self._entries = dict(entries)
        self._listeners = (*listeners, BROKERS)
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

    def state(self, cut_from: tuple[int, ...]) -> BrokerState:
        """Of a broker that was started once, and cannot reach some others."""
        is_paused = self.process is not None and self._shared.loop.is_paused(self.process)
        assert self.advertised, f"broker {self.number} was not started"
        return BrokerState(self.number, self.is_running, is_paused, cut_from, self.advertised, self.addresses[BROKERS])

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
        if self._disk is not None:
            await self._disk.released()
        disk = self._disk = self.files.opened_by(process)
        network = self.network = BrokerNetwork(process, self._is_cut)
        store = self._store = ProcessStore(shared.store, process, shared.loop)

        async def open_store() -> ProcessStore:
            return store

        ports = ServerPorts(
            clock=shared.clock,
            randomness=random.Random(f"{shared.seed} {name} {self._starts}"),  # noqa: S311 - repeatable.
            disk=disk,
            network=network,
            page_cache=self.files.page_cache(disk),
            open_store=open_store,
            worker=CleaningHere(disk),
            record_worker=RecordsHere(),
            descriptors=shared.options.descriptors,
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
        self.advertised = {end.name: (end.host, end.port) for end in self.server.advertised if end.name != BROKERS}

    async def stop(self) -> None:
        """Stop as an operator does: leaderships are handed over, files are closed."""
        if self.is_running and self._life is not None:
            self._resume_if_paused()
            assert self.process is not None
            self._stop.set()
            # It may be killed meanwhile.
            await asyncio.wait([self._life, self.process.died], return_when=asyncio.FIRST_COMPLETED)
            self._end()
            await self.released()

    async def kill(self) -> None:
        """End the process at once, as SIGKILL does, and let the coordination store notice it."""
        if self.is_running:
            self._end()
            if self._store is not None:
                await self._store.expire()
            await self.released()

    async def released(self) -> None:
        """Return when nothing of the last process uses a file any more. There may be none."""
        if self._disk is not None and not self.is_running:
            await self._disk.released()

    def end(self) -> None:
        """End the process at once; its session does not end."""
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

    async def apply_retention(self) -> None:
        """Let it remove what its retention does not keep now. A paused or failing broker does not."""
        server, process = self.server, self.process
        if process is None or self._shared.loop.is_paused(process) or server is None or server.replicas is None:
            return
        job = process.spawn(_apply_retention(server.replicas, self._shared.clock.now_ms()))
        await asyncio.wait([job, process.died], return_when=asyncio.FIRST_COMPLETED)

    def resume(self) -> None:
        """Let it continue."""
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
        except Exception as error:  # Raised again - the log has it, too.
            # When it is dead its coroutines are being closed; until it is ready the start fails with the reason.
            if process.alive and ready.done():
                self._shared.lines.add("error", process.name, "ended by itself", {"reason": error})
            raise
        finally:
            if process.alive and not stop.is_set():
                self._shared.loop.call_soon(process.kill)

    def _configuration(self) -> dict[str, str]:
        options = self._shared.options
        ends = {}
        for name in self._listeners:
            is_first = name == self._listeners[0]
            port = options.port + self.number - 1 if is_first and options.port else 0
            ends[name] = self.addresses.get(name, (options.host if is_first else "127.0.0.1", port))
        return {
            **with_own_metrics_port(self._entries, self.number),
            "broker.id": str(self.number),
            "listeners": ",".join(f"{name}://{host}:{port}" for name, (host, port) in ends.items()),
            "inter.broker.listener.name": BROKERS,
            "log.dirs": self.files.path,
        }


async def _apply_retention(replicas: ReplicaSet, now_ms: int) -> None:
    for partition in list(replicas):
        log = partition.log
        if not log.is_closed and log.log_dir.failure is None:
            with contextlib.suppress(StorageError, BrokerError):  # The disk is full, or fails; the broker reports it.
                log.apply_retention(now_ms, log.high_watermark)
