"""The simulated cluster: brokers with real elections over one coordination store in memory, and the faults of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from sordini.broker.configuration.config import build_config
from sordini.coordination_store.embedded import EmbeddedStore
from sordini.testing.brokers.store_session import store_in_memory
from sordini.testing.simulation.app_loop import AppLoop
from sordini.testing.simulation.broker import PORT, SharedParts, SimBroker
from sordini.testing.simulation.cluster_network import ClusterNetwork
from sordini.testing.simulation.simulated_pipe import LinkRules
from sordini.testing.simulation.trace import Trace
from sordini.testing.simulation.transcript import Transcript
from sordini.testing.simulation.virtual_loop import SimClock

T = TypeVar("T")
START_S_MAX: Final = 60.0
RULES: Final = LinkRules(short_chance=0.05)


class ClusterFailed(Exception):
    """The simulated cluster did not come up; the text says what its brokers did."""


class SimCluster:
    """One to nine brokers."""

    def __init__(
        self, count: int, entries: Mapping[str, str], loop: AppLoop, trace: Trace, transcript: Transcript, seed: int
    ) -> None:
        self.network = loop.network = ClusterNetwork(loop, trace, seed, RULES)
        self.brokers: dict[int, SimBroker] = {}
        self._count = count
        self._entries = {**defaults(count), **entries}
        _, unknown = build_config(self._entries)
        if unknown:
            raise ValueError(f"{unknown[0]!r} is not a key of a broker: see docs/configuration.md")
        self._loop = loop
        self._trace = trace
        self._transcript = transcript
        self._seed = seed
        self._store: EmbeddedStore | None = None

    @property
    def bootstrap_servers(self) -> str:
        """All addresses, as clients take them."""
        return ",".join(f"broker-{number}:{PORT}" for number in range(1, self._count + 1))

    @property
    def bugs(self) -> list[str]:
        """Mistakes of the brokers themselves."""
        return [text for broker in self.brokers.values() for text in broker.bugs]

    async def start(self) -> None:
        """Start all, and wait until each knows the others. Raises ClusterFailed."""
        self._store = await store_in_memory(SimClock(self._loop))
        shared = SharedParts(self._loop, self.network, self._store, self._trace, self._transcript, self._seed)
        for number in range(1, self._count + 1):
            self.brokers[number] = SimBroker(number, self._entries, shared)
        # The first one founds the cluster, which the others then join.
        first, *others = self.brokers.values()
        first.start()
        await self._until(lambda: self._knows(first, 1), "the first broker serves")
        for broker in others:
            broker.start()
        await self._until(self.is_whole, "all brokers know each other")

    def is_whole(self) -> bool:
        """Whether every broker runs and knows all others."""
        return all(self._knows(broker, self._count) for broker in self.brokers.values())

    async def close(self) -> None:
        """Close the store; the brokers are ended with the loop."""
        if self._store is not None:
            await self._store.close()

    @staticmethod
    def _knows(broker: SimBroker, count: int) -> bool:
        server = broker.server
        return (
            broker.process.alive
            and server is not None
            and server.metadata is not None
            and len(server.metadata.brokers) == count
        )

    async def _until(self, holds: Callable[[], bool], awaited: str) -> None:
        end = self._loop.time() + START_S_MAX
        while not holds():
            if self._loop.time() > end:
                doing = "; ".join(
                    f"{broker.host}: {'not begun' if broker.server is None else broker.server.activity}"
                    for broker in self.brokers.values()
                )
                raise ClusterFailed(f"not so after {START_S_MAX:g} s: {awaited}. {doing}. {'; '.join(self.bugs)}")
            await asyncio.sleep(0.05)


def defaults(count: int) -> dict[str, str]:
    """Settings of a cluster of production, with the timeouts of a run of minutes."""
    replicas, in_sync = str(min(count, 3)), str(2 if count >= 3 else 1)
    return {
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        # Apache Kafka's default of 50 each would be 150 logs before the first group is served.
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync,
        "share.coordinator.state.topic.num.partitions": "1",
        "group.initial.rebalance.delay.ms": "500",
        "group.min.session.timeout.ms": "100",
        "num.network.threads": "1",
        # A thread that watches the loop would read the machine's clock.
        "sordini.stall.threshold.ms": "-1",
        "replica.lag.time.max.ms": "10000",
        # A follower at the log's end is answered at the next record; an idle one costs virtual time nothing.
        "replica.fetch.wait.max.ms": "4000",
        "replica.fetch.backoff.ms": "300",
        "replica.socket.timeout.ms": "8000",
        "controller.socket.timeout.ms": "3000",
        "request.timeout.ms": "3000",
        "controlled.shutdown.retry.backoff.ms": "300",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "2000",
    }
