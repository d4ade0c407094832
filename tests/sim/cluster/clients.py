"""Producers and consumers of one partition that follow its leader, and an observer of high watermarks.

They send, retry and record as the clients of one broker do (tests/sim), and find the leader here. A consumer sends its
leader epoch, as every client since KIP-320, so that a deposed leader refuses it.
"""

from __future__ import annotations

import asyncio
import random
from typing import NamedTuple

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from sordini.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from sordini.protocol.types import TopicId, TopicPartition
from sordini.testing.simulation.simulated_network import Address
from tests.sim.client import ClientNetwork, Connection
from tests.sim.cluster.leaders import Leaders
from tests.sim.cluster.states import States
from tests.sim.consumer import BACKOFF_S, Consumer, ConsumerRules
from tests.sim.consumer import _TryAgain as _ReadAgain
from tests.sim.history import History
from tests.sim.producer import Producer, ProducerRules

LATEST = -1
OBSERVED_VERSION = 11


class LeaderProducer(Producer):
    """A producer to one partition."""

    def __init__(
        self,
        name: str,
        network: ClientNetwork,
        addresses: list[Address],
        partition: tuple[TopicPartition, TopicId],
        history: History,
        rules: ProducerRules,
        seed: int,
    ) -> None:
        super().__init__(name, network, addresses[0], dict([partition]), history, rules, seed)
        self.name = name
        self.is_answered = rules.acks != 0
        self._leaders = Leaders(network, addresses, partition[0], f"{name} {seed}")

    async def _use_connection(self, until: float, give_up: float) -> None:
        self._address = await self._leaders.find()
        await super()._use_connection(until, give_up)


class LeaderConsumer(Consumer):
    """A consumer of one partition. `reads_anywhere`: of any replica, as with follower fetching (KIP-392)."""

    reads_anywhere = False

    def __init__(
        self,
        name: str,
        network: ClientNetwork,
        addresses: list[Address],
        partition: tuple[TopicPartition, TopicId],
        history: History,
        rules: ConsumerRules,
        seed: int,
    ) -> None:
        super().__init__(name, network, addresses[0], dict([partition]), history, rules, seed)
        self._leaders = Leaders(network, addresses, partition[0], f"{name} {seed}")

    async def _run(self, is_over: object) -> None:
        assert callable(is_over)
        while not is_over():
            try:
                self._address = await self._leaders.find()
                if self.reads_anywhere:
                    self._address = self._random.choice(self._leaders.addresses)
                self.connection = connection = await Connection.open(self._network, self._address, self._name)
                self._session_id, self._session_epoch = 0, 0
                while not is_over():
                    await self._fetch(connection)
            except (OSError, _ReadAgain, TimeoutError):
                await asyncio.sleep(BACKOFF_S * (0.5 + self._random.random()))
            finally:
                self._leave_connection()

    def _request(self) -> FetchRequest:
        request = super()._request()
        for topic in request.topics:
            for partition in topic.partitions:
                partition.current_leader_epoch = self._leaders.epoch
        return request


class Mark(NamedTuple):
    """A high watermark that a leader returned to a request with its leader epoch."""

    partition: TopicPartition
    node: Address
    leader_epoch: int
    is_latest: bool
    """As the latest offset (ListOffsets); else beside records (Fetch)."""
    high_watermark: int
    began: float
    ended: float


class Observer:
    """Requests the high watermarks of leaders, one request after the other, in the epochs of their elections."""

    def __init__(self, network: ClientNetwork, states: States, addresses: dict[int, Address], seed: int) -> None:
        self.marks: list[Mark] = []
        self._network = network
        self._states = states
        self._addresses = addresses
        self._random = random.Random(f"observer {seed}")
        self._connections: dict[Address, Connection] = {}

    async def run(self, until: float) -> None:
        loop = self._network.loop
        while loop.time() < until:
            await asyncio.sleep(self._random.uniform(0.05, 0.35))
            reported = self._random.choice(self._states.all() or [None])
            if reported is None or reported.state.leader is None:
                continue
            address, is_latest, began = self._addresses[reported.state.leader], self._random.random() < 0.5, loop.time()
            ask = self._latest if is_latest else self._fetch
            try:
                async with asyncio.timeout(1.0):
                    found = await ask(await self._connect(address), reported.partition, reported.state.leader_epoch)
            except (OSError, TimeoutError):
                self._drop(address)
                continue
            if found is not None:
                epoch = reported.state.leader_epoch
                self.marks.append(Mark(reported.partition, address, epoch, is_latest, found, began, loop.time()))
        for address in list(self._connections):
            self._drop(address)

    async def _connect(self, address: Address) -> Connection:
        connection = self._connections.get(address)
        if connection is None or not connection.is_open:
            connection = self._connections[address] = await Connection.open(self._network, address, "observer")
        return connection

    def _drop(self, address: Address) -> None:
        connection = self._connections.pop(address, None)
        if connection is not None:
            connection.close()

    async def _fetch(self, connection: Connection, partition: TopicPartition, epoch: int) -> int | None:
        asked = FetchPartition(
            partition=partition.partition, current_leader_epoch=epoch, fetch_offset=0, partition_max_bytes=1
        )
        topics = [FetchTopic(topic=partition.topic, partitions=[asked])]
        request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1, session_epoch=-1, topics=topics)
        answer = await connection.request(ApiKey.FETCH, OBSERVED_VERSION, request)
        data = answer.responses[0].partitions[0]
        return None if data.error_code else int(data.high_watermark)

    async def _latest(self, connection: Connection, partition: TopicPartition, epoch: int) -> int | None:
        asked = ListOffsetsPartition(partition_index=partition.partition, current_leader_epoch=epoch, timestamp=LATEST)
        topics = [ListOffsetsTopic(name=partition.topic, partitions=[asked])]
        answer = await connection.request(ApiKey.LIST_OFFSETS, 5, ListOffsetsRequest(replica_id=-1, topics=topics))
        data = answer.topics[0].partitions[0]
        return None if data.error_code else int(data.offset)
