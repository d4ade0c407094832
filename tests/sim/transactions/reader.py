"""Readers of committed records and committed offsets, and what they ask when the run is over."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from sordini.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from sordini.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from sordini.protocol.records.batch import HEADER_SIZE, BatchHeader, crc_is_right, read_header, read_records
from sordini.protocol.records.control import COMMIT, read_marker
from sordini.protocol.types import TopicPartition
from sordini.testing.simulation.simulated_network import Address
from tests.sim.client import ClientNetwork, Connection, ProtocolViolation
from tests.sim.cluster.clients import Mark
from tests.sim.cluster.leaders import Leaders
from tests.sim.history import Seen
from tests.sim.records import seen_in
from tests.sim.transactions.client import Coordinator
from tests.sim.transactions.history import CommittedOffset, CommittedPoll, TransactionHistory

READ_COMMITTED = 1
LATEST = -1
TIMEOUT_S = 2.0
BACKOFF_S = 0.1
LATEST_CHANCE = 0.2
GROUP = 0


class CommittedReader:
    """A read_committed consumer of one partition, in `version` of Fetch: from its leader, with the leader epoch."""

    def __init__(
        self,
        name: str,
        network: ClientNetwork,
        addresses: list[Address],
        partition: TopicPartition,
        history: TransactionHistory,
        version: int,
        seed: int,
    ) -> None:
        self.position = 0
        self._name = name
        self._network = network
        self._loop = network.loop
        self.partition = partition
        self._history = history
        self._version = version
        self._random = random.Random(f"{name} {seed}")
        self._leaders = Leaders(network, addresses, partition, f"{name} {seed}")
        self._address: Address = ("", 0)

    async def run(self, until: float) -> None:
        """Read until a time."""
        while self._loop.time() < until:
            await self._read_some(until, self._history.polls)

    async def read_all(self, give_up: float) -> bool:
        """Read from the beginning; whether the last stable offset is the end of the log, and was reached."""
        while self._loop.time() < give_up:
            self.position, polls = 0, list[CommittedPoll]()
            ends = await self._read_some(give_up, polls, is_final=True)
            self._history.final = [poll for poll in self._history.final if poll.partition != self.partition] + polls
            if ends is not None and ends[0] == ends[1] == self.position:
                return True
            await asyncio.sleep(BACKOFF_S)
        return False

    async def _read_some(
        self, until: float, polls: list[CommittedPoll], *, is_final: bool = False
    ) -> tuple[int, int] | None:
        """Read over one connection; in the end the last stable offset and the high watermark, where it is asked for."""
        connection = None
        try:
            self._address = await self._leaders.find()
            connection = await Connection.open(self._network, self._address, self._name)
            if is_final:
                ends = await self._latest(connection, READ_COMMITTED), await self._latest(connection, 0)
                while self.position < ends[0] and self._loop.time() < until:
                    polls.append(await self._fetch(connection))
                return ends
            while self._loop.time() < until:
                if self._random.random() < LATEST_CHANCE:
                    await self._latest(connection, READ_COMMITTED)
                polls.append(await self._fetch(connection))
        except (OSError, TimeoutError):
            await asyncio.sleep(BACKOFF_S * (0.5 + self._random.random()))
        finally:
            if connection is not None:
                connection.close()
        return None

    async def _fetch(self, connection: Connection) -> CommittedPoll:
        began, asked = self._loop.time(), self.position
        row = FetchPartition(
            partition=self.partition.partition,
            current_leader_epoch=self._leaders.epoch,
            fetch_offset=asked,
            partition_max_bytes=20_000,
        )
        request = FetchRequest(
            max_wait_ms=300,
            min_bytes=1,
            max_bytes=20_000,
            isolation_level=READ_COMMITTED,
            session_epoch=-1,
            topics=[FetchTopic(topic=self.partition.topic, partitions=[row])],
        )
        async with asyncio.timeout(TIMEOUT_S):
            answer = await connection.request(ApiKey.FETCH, self._version, request)
        data = answer.responses[0].partitions[0]
        if answer.error_code or data.error_code:
            raise ConnectionError(ErrorCode(answer.error_code or data.error_code).name)
        seen, self.position = _committed(str(self.partition), data, asked)
        stable, high_watermark = data.last_stable_offset, data.high_watermark
        self._network.trace.note(self._name, "committed", self.partition, asked, self.position, stable, high_watermark)
        self._mark(stable, began, is_latest=False)
        return CommittedPoll(
            self._name, self.partition, began, self._loop.time(), asked, self.position, seen, stable, high_watermark
        )

    async def _latest(self, connection: Connection, isolation_level: int) -> int:
        began = self._loop.time()
        row = ListOffsetsPartition(
            partition_index=self.partition.partition, current_leader_epoch=self._leaders.epoch, timestamp=LATEST
        )
        topic = ListOffsetsTopic(name=self.partition.topic, partitions=[row])
        request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation_level, topics=[topic])
        async with asyncio.timeout(TIMEOUT_S):
            answer = await connection.request(ApiKey.LIST_OFFSETS, 5, request)
        data = answer.topics[0].partitions[0]
        if data.error_code:
            raise ConnectionError(ErrorCode(data.error_code).name)
        if isolation_level == READ_COMMITTED:
            self._mark(data.offset, began, is_latest=True)
        offset: int = data.offset
        return offset

    def _mark(self, stable: int, began: float, *, is_latest: bool) -> None:
        epoch, now = self._leaders.epoch, self._loop.time()
        self._history.marks.append(Mark(self.partition, self._address, epoch, is_latest, stable, began, now))


def _committed(where: str, data: PartitionData, asked: int) -> tuple[tuple[Seen, ...], int]:
    """The records that a client hands out, by the list of aborted transactions, and the next offset."""
    begins = sorted(data.aborted_transactions or [], key=lambda aborted: aborted.first_offset)
    aborting: set[int] = set()
    seen, position = list[Seen](), asked
    for batch, header in _batches(where, memoryview(data.records or b"")):
        while begins and begins[0].first_offset <= header.last_offset:
            aborting.add(begins.pop(0).producer_id)
        position = max(position, header.next_offset)
        if header.is_control:
            if next(read_marker(record).kind for record in read_records(batch, header)) != COMMIT:
                aborting.discard(header.producer_id)
        elif not header.is_transactional or header.producer_id not in aborting:
            seen += (record for record in seen_in(batch, header) if record.offset >= asked)
    return tuple(seen), position


def _batches(where: str, buffer: memoryview) -> Iterator[tuple[memoryview, BatchHeader]]:
    """Whole batches with a right CRC."""
    position = 0
    while len(buffer) - position >= HEADER_SIZE:
        header = read_header(buffer, position)
        if header.size < HEADER_SIZE:
            raise ProtocolViolation(f"{where} has a batch of {header.size} bytes at {position}")
        if len(buffer) - position < header.size:
            return
        if not crc_is_right(buffer, position, header):
            raise ProtocolViolation(f"{where}@{header.base_offset} has a wrong checksum")
        yield buffer[position : position + header.size], header
        position += header.size


class OffsetsReader:
    """Fetches the committed offset of one group and partition now and then, stable offsets required (KIP-447)."""

    def __init__(
        self,
        name: str,
        network: ClientNetwork,
        addresses: list[Address],
        group_id: str,
        partition: TopicPartition,
        history: TransactionHistory,
        seed: int,
    ) -> None:
        self._network = network
        self._loop = network.loop
        self._group_id = group_id
        self._partition = partition
        self._history = history
        self._random = random.Random(f"{name} {seed}")
        self._coordinator = Coordinator(network, addresses, group_id, GROUP, f"{name} {seed}")

    async def run(self, until: float) -> None:
        while self._loop.time() < until:
            await asyncio.sleep(self._random.uniform(0.1, 0.6))
            await self.read(until)

    async def read(self, give_up: float) -> bool:
        """Fetch once; whether there was an answer before `give_up`."""
        topic = OffsetFetchRequestTopic(name=self._partition.topic, partition_indexes=[self._partition.partition])
        request = OffsetFetchRequest(group_id=self._group_id, topics=[topic], require_stable=True)
        while self._loop.time() < give_up:
            began = self._loop.time()
            try:
                address = await self._coordinator.find()
                connection = await Connection.open(self._network, address, "offsets")
                try:
                    async with asyncio.timeout(TIMEOUT_S):
                        answer = await connection.request(ApiKey.OFFSET_FETCH, 7, request)
                finally:
                    connection.close()
            except (OSError, TimeoutError):
                answer = None
            if answer is not None and not answer.error_code:
                row = answer.topics[0].partitions[0]
                if not row.error_code:
                    self._network.trace.note("offset", self._group_id, row.committed_offset, row.metadata)
                    self._history.offsets.append(
                        CommittedOffset(self._group_id, row.metadata or "", began, self._loop.time(), address)
                    )
                    return True
            await asyncio.sleep(BACKOFF_S)
        return False
