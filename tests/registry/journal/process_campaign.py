"""The campaign with brokers that are processes of their own, with ZooKeeper: kill -9, stops of seconds, orderly ends."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, TopicPartition

from tests.cluster.cluster import OURS, Cluster
from tests.outside.java import ZooKeeperProcess
from tests.outside.processes import BrokerProcess
from tests.registry.journal.campaign import REST, TOPIC, Campaign, Fault, Stored

BROKERS: Final = (1, 2, 3)
PROTOCOL: Final = "2.7"
CLIENT_SECONDS_MAX: Final = 60
SETTINGS: Final = {"group.min.session.timeout.ms": 500, "offsets.topic.replication.factor": 3}


@contextmanager
def brokers_in_processes(directory: Path) -> Iterator[Cluster]:
    """Three brokers of ours."""
    with ZooKeeperProcess(directory / "zookeeper") as zookeeper:
        cluster = Cluster(directory / "brokers", zookeeper.connect, PROTOCOL)
        try:
            cluster.start(dict.fromkeys(BROKERS, OURS), SETTINGS)
            yield cluster
        finally:
            cluster.close()


class ProcessCampaign(Campaign):
    """With `sordini registry` and brokers in processes."""

    def __init__(self, cluster: Cluster, directory: Path, seed: int, seconds: float) -> None:
        self._brokers = list(cluster.brokers.values())
        self._bootstrap = cluster.bootstrap
        super().__init__(cluster.bootstrap, directory, seed, seconds, REST)

    def broker_faults(self) -> list[Fault]:
        return [
            ("broker killed", self._kill),
            ("broker killed", self._kill),
            ("all brokers killed", self._kill_all),
            ("broker stopped for seconds", self._stop),
            ("broker ended", self._end),
        ]

    def heal(self) -> None:
        for broker in self._brokers:
            assert broker.is_running, broker.tail()

    def stored(self) -> list[Stored]:
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": "judge",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
            }
        )
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        found = list[Stored]()
        while True:
            message = consumer.poll(CLIENT_SECONDS_MAX)
            assert message is not None, "the end of the topic was not reached"
            if message.error() is not None:
                consumer.close()
                return found
            found.append((message.key(), message.value()))

    async def _kill(self) -> None:
        await self._killed([self.some(self._brokers)])

    async def _kill_all(self) -> None:
        await self._killed(self._brokers)

    async def _killed(self, brokers: list[BrokerProcess]) -> None:
        for broker in brokers:
            broker.kill()
        await self.pause(0, 2)
        for broker in brokers:
            broker.launch()
        for broker in brokers:
            await asyncio.to_thread(broker.wait_until, broker.is_ready, CLIENT_SECONDS_MAX, "be ready")

    async def _stop(self) -> None:
        """Longer than its session with ZooKeeper, sometimes: it continues as a former leader."""
        process = self.some(self._brokers)
        os.kill(process.pid, signal.SIGSTOP)
        await self.pause(0.5, 9)
        os.kill(process.pid, signal.SIGCONT)

    async def _end(self) -> None:
        broker = self.some(self._brokers)
        await asyncio.to_thread(broker.stop)
        await asyncio.to_thread(broker.start)
