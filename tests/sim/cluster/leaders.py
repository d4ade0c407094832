"""How clients of the cluster find leaders: by Metadata of any broker that answers; older leader epochs are ignored."""

from __future__ import annotations

import asyncio
import random

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from sordini.protocol.types import TopicPartition
from sordini.testing.simulation.simulated_network import Address
from tests.sim.client import ClientNetwork, Connection

TIMEOUT_S = 1.0
VERSION = 9


class LeaderUnknown(ConnectionError):
    """No leader is known to the broker, or its metadata is older than known already."""


class Leaders:
    """One client's leader of one partition. `epoch` is the highest leader epoch received."""

    def __init__(self, network: ClientNetwork, addresses: list[Address], partition: TopicPartition, name: str) -> None:
        self.epoch = -1
        self._network = network
        self.addresses = addresses
        self._partition = partition
        self._name = name
        self._random = random.Random(f"leaders {name}")

    async def find(self) -> Address:
        """The leader's address; raises OSError or TimeoutError when this attempt did not find it."""
        topic, index = self._partition
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        async with asyncio.timeout(TIMEOUT_S):
            connection = await Connection.open(self._network, self._random.choice(self.addresses), self._name)
            try:
                answer = await connection.request(ApiKey.METADATA, VERSION, request)
            finally:
                connection.close()
        brokers = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        for reported in answer.topics[0].partitions:
            if (
                reported.partition_index == index
                and reported.leader_id in brokers
                and reported.leader_epoch >= self.epoch
            ):
                self.epoch = reported.leader_epoch
                address: Address = brokers[reported.leader_id]
                return address
        raise LeaderUnknown(f"{self._partition} has no known leader")
