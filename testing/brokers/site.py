"""The brokers of one test, on a loop in a thread of their own, with the coordination store that they share.

    test's thread ── call(work) ──► loop ── Node 1, 2, 3 ── sockets of 127.0.0.1 ── clients of the test
                                     └── coordination store in memory

The thread is a daemon, and without a directory everything is in memory: nothing is left of it when the test's process
ends, however it does.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from sordini.broker.process.dev_cluster import open_shared_store
from sordini.broker.topics.leaderships import are_led
from sordini.coordination_store.embedded import EmbeddedStore
from sordini.protocol.types import BrokerId
from sordini.replication.ports import Logger
from sordini.storage.disk import SystemDisk
from sordini.testing.brokers.broker_loop import BrokerClock, BrokerLoop
from sordini.testing.brokers.event_log import Lines
from sordini.testing.brokers.loop_processes import unwind
from sordini.testing.brokers.network import Cuts
from sordini.testing.brokers.node import BROKERS, CLIENTS, Node, SharedParts, SiteOptions
from sordini.testing.brokers.store_session import store_in_memory
from sordini.testing.cluster import Address, BrokerState
from sordini.testing.faults.interposer import Interposer
from sordini.testing.faults.script import Script
from sordini.testing.faults.seen import SeenRequest, SeenRequests

T = TypeVar("T")
RESTART_S: Final = 5.0
"""Bound of the start of one broker of several."""
SETTLE_S: Final = 20.0
LEADERS_S: Final = 5.0
"""Bound of what is waited for between brokers."""


class SiteFailed(Exception):
    """The brokers could not be started, or did not come to what was waited for; the text says why."""


class Site:
    """One to nine brokers; implements `Cluster`. All methods are called from outside of the loop's thread."""

    def __init__(
        self,
        brokers: int,
        entries: Mapping[str, str],
        seed: int,
        options: SiteOptions = SiteOptions(),  # noqa: B008 - immutable.
        log: Logger | None = None,
    ) -> None:
        """`entries` are the configuration of all brokers; what they log is also written to `log`."""
        self.began_s = time.monotonic()
        self.seen = SeenRequests()
        self.lines = Lines(self.elapsed_s, log)
        self.script = Script(self.run)
        self.nodes: dict[int, Node] = {}
        self._count = brokers
        self.listeners = dict(options.listeners or {CLIENTS: "PLAINTEXT"})
        protocols = ",".join(
            f"{name}:{protocol}" for name, protocol in {**self.listeners, BROKERS: "PLAINTEXT"}.items()
        )
        self._entries = {**_defaults(brokers), "listener.security.protocol.map": protocols, **entries}
        self._seed = seed
        self._options = options
        self._cuts = Cuts()
        self._loop = BrokerLoop()
        self._calls: set[Future[Any]] = set()
        self._closing = threading.Lock()
        self._thread = threading.Thread(target=self._run_loop, name="sordini-brokers", daemon=True)
        self._store: EmbeddedStore | None = None

    def elapsed_s(self) -> float:
        """Seconds since the site was made."""
        return time.monotonic() - self.began_s

    def now_ms(self) -> int:
        """The brokers' time of day, in milliseconds since 1970."""
        return int((time.time() + self._loop.ahead_s) * 1000)

    def start(self) -> None:
        """As `Cluster.start`. Raises StartRefused and StoreUnusable, too."""
        self._thread.start()
        try:
            self.call(self._start(), self._options.start_s)
        except TimeoutError:
            doing = "; ".join(f"broker {number}: {what}" for number, what in self.activities().items())
            self.close()
            raise SiteFailed(f"not all brokers serve after {self._options.start_s:g} s: {doing}") from None
        except BaseException:  # Raised again - no thread is left behind.
            self.close()
            raise

    def close(self) -> None:
        """End all at once; nothing is flushed. Calls of other threads end with CancelledError."""
        with self._closing:
            if self._thread.is_alive():
                for future in list(self._calls):
                    future.cancel()
                self.call(self._end(), SETTLE_S)
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._thread.join()

    def call(self, work: Coroutine[Any, Any, T], timeout_s: float | None = SETTLE_S) -> T:
        """Run a coroutine on the loop and wait for it. Raises what it raises, TimeoutError, SiteFailed once closed."""
        if not self._thread.is_alive():
            work.close()
            raise SiteFailed("the cluster is closed")
        future: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        self._calls.add(future)
        try:
            return future.result(timeout_s)
        except TimeoutError:
            future.cancel()
            raise
        finally:
            self._calls.discard(future)

    def run(self, function: Callable[[], T]) -> T:
        """Call a function on the loop and wait for it."""

        async def called() -> T:
            return function()

        return self.call(called())

    @property
    def running(self) -> list[Node]:
        """The brokers that have a process."""
        return [node for node in self.nodes.values() if node.is_running]

    def states(self) -> list[BrokerState]:
        """As `Cluster.states`."""
        return [node.state(self._cuts.of(number)) for number, node in self.nodes.items()]

    def start_broker(self, number: int) -> None:
        """As `Cluster.start_broker`. Raises StartRefused."""
        self.call(self._start_nodes([self.nodes[number]]), RESTART_S + SETTLE_S)

    def kill(self, number: int) -> None:
        """As `Cluster.kill`."""
        self.call(self.nodes[number].kill())

    def stop(self, number: int) -> None:
        """As `Cluster.stop`."""
        self.call(self.nodes[number].stop())

    def pause(self, number: int, *, detected: bool) -> None:
        """As `Cluster.pause`."""
        node = self.nodes[number]
        self.run(node.pause)
        if detected:
            self.call(node.expire_session())

    def resume(self, number: int) -> None:
        """As `Cluster.resume`."""
        self.run(self.nodes[number].resume)

    def set_disk(self, number: int, *, full: bool | None = None, slow_ms: float | None = None) -> None:
        """As `Cluster.set_disk`."""
        files = self.nodes[number].files
        if full is not None:
            files.is_full = full
        if slow_ms is not None:
            files.delay_s = slow_ms / 1000

    def load(self, path: str, names: Mapping[str, str], *, keeps_offsets: bool) -> None:
        """As `Cluster.load`."""
        from sordini.testing.brokers.pack_appends import load_pack  # Few tests need it.

        load_pack(self, path, names, keeps_offsets=keeps_offsets)

    def requests(self) -> list[SeenRequest]:
        """As `Cluster.requests`."""
        return self.run(self.seen.all)

    def forget_requests(self) -> None:
        """As `Cluster.forget_requests`."""
        self.run(self.seen.clear)

    def log_lines(self, count: int, since_s: float = 0.0) -> list[str]:
        """As `Cluster.log_lines`."""
        return self.lines.last(count, since_s)

    def stop_all(self) -> None:
        """Stop all brokers as an operator does, one after the other; without a bound.

        At once, each would wait for others to take its leaderships that are about to stop, too.
        """

        async def stopped() -> None:
            for node in self.running:
                node.resume()
            for node in reversed(self.running):  # The first one founded the cluster: it is the controller by default.
                await node.stop()

        self.script.clear()  # A broker that stops waits for the responses that are held.
        self.lines.is_stopping = True
        self.call(stopped(), None)

    @property
    def cluster_id(self) -> str:
        """Of a site that was started."""
        identity = next(node.server.identity for node in self.nodes.values() if node.server is not None)
        assert identity is not None
        return str(identity.cluster_id)

    def activities(self) -> dict[int, str]:
        """What each broker does now, by its id."""
        return {number: _activity(node) for number, node in self.nodes.items()}

    def advance(self, seconds: float) -> None:
        """Move the brokers' clock forward. What is due by it afterwards, retention has removed."""
        self.call(self._advance(seconds), 120.0)

    def cut(self, number: int, others: set[int]) -> None:
        """As `Cluster.cut`."""

        def cut() -> None:
            self._cuts.cut(number, others)
            ends = {self.nodes[other].addresses[BROKERS] for other in others}
            mine = self.nodes[number].addresses[BROKERS]
            self.nodes[number].reset(lambda socket: socket.peer_address in ends)
            for other in others:
                self.nodes[other].reset(lambda socket: socket.peer_address == mine)

        self.run(cut)

    def heal(self, number: int) -> None:
        """As `Cluster.heal`."""
        self._cuts.heal(number)

    async def until(self, holds: Callable[[], bool], awaited: str, timeout_s: float = SETTLE_S) -> None:
        """Wait on the loop until something holds. Raises SiteFailed naming `awaited`."""
        end = time.monotonic() + timeout_s
        while not holds():
            if time.monotonic() > end:
                raise SiteFailed(f"not so after {timeout_s:g} s: {awaited}")
            await asyncio.sleep(0.002)

    async def _start(self) -> None:
        loop = self._loop
        self._store = await self._opened_store()
        shared = SharedParts(loop, self._store, self.lines, self._seed, self._options)
        for number in range(1, self._count + 1):
            interposer = Interposer(number, BROKERS, self.script, self.seen, self.elapsed_s)
            self.nodes[number] = Node(
                number, self._entries, shared, interposer, self._is_cut_from(number), tuple(self.listeners)
            )
        await self._start_nodes(list(self.nodes.values()))
        with contextlib.suppress(SiteFailed):  # Files of an earlier run may be damaged: their topics say so themselves.
            await self.until(self._all_led, "every partition has a leader", LEADERS_S)

    async def _advance(self, seconds: float) -> None:
        await self._loop.advance(seconds)
        # By themselves brokers check it every five minutes of the clock: a test would see older records until then.
        await asyncio.gather(*(node.apply_retention() for node in self.running))

    async def _opened_store(self) -> EmbeddedStore:
        directory = self._options.directory
        if directory is None:
            return await store_in_memory(BrokerClock(self._loop))
        directories = [f"{directory}/broker-{number}" for number in range(1, self._count + 1)]
        return await open_shared_store(SystemDisk(), directory, directories, BrokerClock(self._loop))

    async def _start_nodes(self, nodes: list[Node]) -> None:
        stopped = [node for node in nodes if not node.is_running]
        for node in stopped[:1]:  # The first one founds the cluster, which the others then join side by side.
            await node.start()
        await asyncio.gather(*(node.start() for node in stopped[1:]))
        await self.until(self._all_know_all, "every broker knows every other one")

    def _all_know_all(self) -> bool:
        running = [node for node in self.running if not self._loop.is_paused(node.process)]
        numbers = {node.number for node in running}
        return all(
            node.server is not None
            and node.server.metadata is not None
            and numbers <= {int(number) for number in node.server.metadata.brokers}
            for node in running
        )

    def _all_led(self) -> bool:
        """Whether topics of an earlier run, in a directory that was kept, have leaders."""
        numbers = {node.number for node in self.running}
        return all(
            node.server is not None
            and node.server.metadata is not None
            and node.server.replicas is not None
            and are_led(node.server.metadata, node.server.replicas, BrokerId(node.number), numbers)
            for node in self.running
        )

    def _is_cut_from(self, number: int) -> Callable[[Address], bool]:
        def is_cut(address: Address) -> bool:
            other = next((one.number for one in self.nodes.values() if one.addresses.get(BROKERS) == address), None)
            return other is not None and self._cuts.are_apart(number, other)

        return is_cut

    async def _end(self) -> None:
        unwind(list(self._loop.processes))
        self._loop.processes.clear()
        for node in self.nodes.values():
            await node.released()

    async def _store_closed(self) -> None:
        if self._store is not None:
            await self._store.close()

    def _run_loop(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.run_until_complete(self._store_closed())
            self._loop.close()


def _activity(node: Node) -> str:
    return "not begun" if node.server is None else node.server.activity


def _defaults(count: int) -> dict[str, str]:
    """Settings of brokers that live for a test."""
    replicas = str(min(count, 3))
    return {
        "default.replication.factor": replicas,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": "1",
        # Apache Kafka's default of 50 each would be 150 logs before the first group is served.
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": "1",
        "share.coordinator.state.topic.num.partitions": "1",
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "100",
        # A consumer group (KIP-848) moves partitions with the heartbeats of its members, for which a test waits.
        "group.consumer.heartbeat.interval.ms": "200",
        "group.consumer.min.heartbeat.interval.ms": "10",
        "group.consumer.min.session.timeout.ms": "100",
        "group.consumer.assignment.interval.ms": "0",
        "num.network.threads": "1",
        # It is cheap, and retention follows a clock that was moved.
        "offsets.retention.check.interval.ms": "1000",
        # The clock of the kit jumps.
        "sordini.stall.threshold.ms": "-1",
        # Sessions would hide the topics of later fetches from the script.
        "max.incremental.fetch.session.cache.slots": "0",
        "controlled.shutdown.retry.backoff.ms": "50",
        "replica.fetch.backoff.ms": "50",
    }
