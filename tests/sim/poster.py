"""A producer for the groups that read: a record now and then, and a partition more at times."""

from __future__ import annotations

import asyncio
import random

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from sordini.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from sordini.protocol.records.batch import Record, build_batch
from sordini.testing.simulation.simulated_network import Address, SimNetwork
from tests.sim.client import Connection
from tests.sim.group_client import TIMEOUT_S, TryAgain, partition_counts
from tests.sim.history import History

POSTS_TOPIC = "posts"
PARTITIONS_MAX = 5
GAP_S = 0.3
GROWS_CHANCE = 0.02


class Poster:
    """Writes with acks=all; a record without an answer is not written again."""

    def __init__(self, network: SimNetwork, address: Address, history: History, seed: int) -> None:
        self._network = network
        self._loop = network.loop
        self._address = address
        self._history = history
        self._random = random.Random(f"poster {seed}")
        self.connection: Connection | None = None

    async def run(self, until: float) -> None:
        while self._loop.time() < until:
            try:
                self.connection = await Connection.open(self._network, self._address, "poster")
                while self._loop.time() < until:
                    await asyncio.sleep(self._random.expovariate(1 / GAP_S))
                    await self._post(self.connection)
            except (OSError, TryAgain, TimeoutError):
                await asyncio.sleep(GAP_S)
            finally:
                if self.connection is not None:
                    self.connection.close()
                    self.connection = None

    async def _post(self, connection: Connection) -> None:
        count = (await partition_counts(connection, [POSTS_TOPIC]))[POSTS_TOPIC]
        if count < PARTITIONS_MAX and self._random.random() < GROWS_CHANCE:
            topic = CreatePartitionsTopic(name=POSTS_TOPIC, count=count + 1, assignments=None)
            request = CreatePartitionsRequest(topics=[topic], timeout_ms=3_000)
            async with asyncio.timeout(TIMEOUT_S):
                await connection.request(ApiKey.CREATE_PARTITIONS, 3, request)
            return
        value = f"post-{len(self._history.attempted)}"
        self._history.attempted.add(value)
        batch = memoryview(build_batch([Record(0, 1, b"", value.encode())]))
        data = PartitionProduceData(index=self._random.randrange(count), records=batch)
        produce = ProduceRequest(
            acks=-1, timeout_ms=2_000, topic_data=[TopicProduceData(name=POSTS_TOPIC, partition_data=[data])]
        )
        async with asyncio.timeout(TIMEOUT_S):
            await connection.request(ApiKey.PRODUCE, 9, produce)
