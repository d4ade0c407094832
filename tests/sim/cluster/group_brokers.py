"""The brokers of a cluster as a member of a group knows them: its coordinator, and the leaders of its partitions."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.types import TopicPartition
from sordini.testing.simulation.simulated_network import Address
from tests.sim.brokers import FETCH_VERSION, Fetched, fetch_request, fetched
from tests.sim.client import ClientNetwork, Connection
from tests.sim.cluster.leaders import Leaders
from tests.sim.offsets_client import OffsetsClient
from tests.sim.transactions.client import Coordinator
from tests.sim.transactions.producer import GROUP

CONNECT_S = 1.0
PARTITION_BYTES = 16_000
"""Seconds of what producers write: members that fell back catch up."""
FETCH_S = 0.8
"""For one partition, its leader's discovery included: a member must not miss its heartbeats over it."""


class ClusterBrokers:
    """A `Brokers` of one member."""

    def __init__(self, name: str, network: ClientNetwork, addresses: list[Address], group_id: str, seed: int) -> None:
        self.network = network
        self._name = name
        self._addresses = addresses
        self._seed = seed
        self._coordinator = Coordinator(network, addresses, group_id, GROUP, f"{name} {seed}")
        self._leaders: dict[TopicPartition, Leaders] = {}
        self._connections: dict[TopicPartition, Connection] = {}
        """To the leader of each partition."""

    async def coordinator(self, _offsets: OffsetsClient, _source: random.Random) -> Connection:
        address = await self._coordinator.find()
        async with asyncio.timeout(CONNECT_S):
            return await Connection.open(self.network, address, self._name)

    async def fetch(self, _coordinator: Connection, asked: Mapping[TopicPartition, int]) -> Fetched:
        found = await asyncio.gather(*(self._fetch_one(partition, at) for partition, at in sorted(asked.items())))
        return [each for rows in found for each in rows]

    def close(self) -> None:
        for partition in list(self._connections):
            self._drop(partition)

    async def _fetch_one(self, partition: TopicPartition, position: int) -> Fetched:
        try:
            async with asyncio.timeout(FETCH_S):
                connection = await self._leader(partition)
                request = fetch_request({partition: position}, PARTITION_BYTES)
                answer = await connection.request(ApiKey.FETCH, FETCH_VERSION, request)
        except (OSError, TimeoutError):
            self._drop(partition)
            return []
        rows = list(fetched(answer))
        if answer.error_code or any(data.error_code for _, data in rows):
            self._drop(partition)
        return rows

    async def _leader(self, partition: TopicPartition) -> Connection:
        connection = self._connections.get(partition)
        if connection is None or not connection.is_open:
            leaders = self._leaders.get(partition)
            if leaders is None:
                name = f"{self._name} {self._seed}"
                leaders = self._leaders[partition] = Leaders(self.network, self._addresses, partition, name)
            connection = await Connection.open(self.network, await leaders.find(), self._name)
            self._connections[partition] = connection
        return connection

    def _drop(self, partition: TopicPartition) -> None:
        connection = self._connections.pop(partition, None)
        if connection is not None:
            connection.close()
