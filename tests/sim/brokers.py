"""How a member of a group reaches its coordinator and the leaders of its partitions."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Mapping
from typing import Protocol

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from sordini.protocol.types import TopicPartition
from sordini.testing.simulation.simulated_network import Address
from tests.sim.client import ClientNetwork, Connection
from tests.sim.group_client import TIMEOUT_S
from tests.sim.offsets_client import OffsetsClient

Fetched = list[tuple[TopicPartition, PartitionData]]
FETCH_VERSION = 11
PARTITION_BYTES = 2_000


class Brokers(Protocol):
    """The brokers as one member knows them."""

    @property
    def network(self) -> ClientNetwork: ...

    async def coordinator(self, offsets: OffsetsClient, source: random.Random) -> Connection:
        """A new connection to the group's coordinator. Raises OSError, TimeoutError, TryAgain: not found this time."""

    async def fetch(self, coordinator: Connection, asked: Mapping[TopicPartition, int]) -> Fetched:
        """Fetch each of these partitions from its offset; of some there may be no answer.

        Raises OSError, TimeoutError over the connection to the coordinator.
        """

    def close(self) -> None:
        """Close the connections that are not the caller's."""


class LoneBroker:
    """One broker is all of them, over one connection."""

    def __init__(self, name: str, network: ClientNetwork, address: Address) -> None:
        self.network = network
        self._name = name
        self._address = address

    async def coordinator(self, offsets: OffsetsClient, source: random.Random) -> Connection:
        connection = await Connection.open(self.network, self._address, self._name)
        try:
            await offsets.find_coordinator(connection, source.choice((0, 2, 3, 4, 6)), self._address)
        except BaseException:
            connection.close()
            raise
        return connection

    async def fetch(self, coordinator: Connection, asked: Mapping[TopicPartition, int]) -> Fetched:
        async with asyncio.timeout(TIMEOUT_S):
            return [
                *fetched(await coordinator.request(ApiKey.FETCH, FETCH_VERSION, fetch_request(asked, PARTITION_BYTES)))
            ]

    def close(self) -> None:
        """There are no others."""


def fetch_request(asked: Mapping[TopicPartition, int], partition_bytes: int) -> FetchRequest:
    topics: dict[str, FetchTopic] = {}
    for (topic, number), position in sorted(asked.items()):
        rows = topics.setdefault(topic, FetchTopic(topic=topic, partitions=[])).partitions
        rows.append(FetchPartition(partition=number, fetch_offset=position, partition_max_bytes=partition_bytes))
    return FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=20_000, session_epoch=-1, topics=[*topics.values()])


def fetched(response: FetchResponse) -> Iterator[tuple[TopicPartition, PartitionData]]:
    for topic in response.responses:
        for data in topic.partitions:
            yield TopicPartition(topic.topic, data.partition_index), data
