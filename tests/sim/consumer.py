"""A simulated consumer of assigned partitions: a fetch loop, with or without an incremental session.

It checks what any consumer could (whole batches have a right CRC) and records every record that it received.
"""

from __future__ import annotations

import asyncio
import dataclasses
import random
from collections.abc import Iterator

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from sordini.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from sordini.protocol.records.batch import HEADER_SIZE, crc_is_right, read_header
from sordini.protocol.types import NO_TOPIC_ID, TopicId, TopicPartition
from sordini.testing.simulation.simulated_network import Address
from tests.sim.client import ClientNetwork, Connection, ProtocolViolation
from tests.sim.history import History, Poll, Reset, Seen
from tests.sim.records import seen_in

REQUEST_TIMEOUT_S = 5.0
BACKOFF_S = 0.1
EARLIEST = -2
LATEST = -1


@dataclasses.dataclass(frozen=True, slots=True)
class ConsumerRules:
    """How this consumer reads."""

    version: int = 11
    incremental: bool = False
    wait_ms: int = 300
    min_bytes: int = 1
    partition_bytes: int = 4_000
    total_bytes: int = 10_000


class _TryAgain(Exception):
    """The connection is unusable."""


class Consumer:
    """One consumer of some partitions; `positions` are the next offsets to read."""

    def __init__(
        self,
        name: str,
        network: ClientNetwork,
        address: Address,
        topics: dict[TopicPartition, TopicId],
        history: History,
        rules: ConsumerRules,
        seed: int,
    ) -> None:
        self._name = name
        self._network = network
        self._loop = network.loop
        self._address = address
        self._topics = topics
        self._by_id = {(topic_id, tp.partition): tp for tp, topic_id in topics.items()}
        self._history = history
        self._rules = rules
        self._random = random.Random(f"{name} {seed}")
        self._session_id = 0
        self._session_epoch = 0
        self._reported: dict[TopicPartition, int] = {}
        self._resets = dict.fromkeys(topics, 1)
        self.positions = dict.fromkeys(sorted(topics), 0)
        self.high_watermarks = dict.fromkeys(sorted(topics), -1)
        self.connection: Connection | None = None

    async def run(self, until: float) -> None:
        """Read until a moment of the loop's time."""
        await self._run(lambda: self._loop.time() >= until)

    async def run_to(self, ends: dict[TopicPartition, int], give_up: float) -> None:
        """Read until every position has reached its end; raises TimeoutError past `give_up`."""
        await self._run(
            lambda: self._loop.time() > give_up or all(self.positions[tp] >= end for tp, end in ends.items())
        )
        behind = [f"{tp}@{self.positions[tp]} of @{end}" for tp, end in ends.items() if self.positions[tp] < end]
        if behind:
            raise TimeoutError(f"{self._name} is still at {', '.join(behind)}")

    async def ends(self, give_up: float) -> dict[TopicPartition, int]:
        """The end of every partition, however often it takes to ask."""
        while True:
            try:
                connection = await Connection.open(self._network, self._address, self._name)
                try:
                    return {tp: await self._end(connection, tp, LATEST) for tp in self.positions}
                finally:
                    connection.close()
            except (OSError, _TryAgain, TimeoutError):
                if self._loop.time() > give_up:
                    raise
                await asyncio.sleep(BACKOFF_S)

    async def _run(self, is_over: object) -> None:
        assert callable(is_over)
        while not is_over():
            try:
                connection = await Connection.open(self._network, self._address, self._name)
                self.connection = connection
                self._session_id, self._session_epoch = 0, 0
                while not is_over():
                    await self._fetch(connection)
            except (OSError, _TryAgain, TimeoutError):
                await asyncio.sleep(BACKOFF_S * (0.5 + self._random.random()))
            finally:
                self._leave_connection()

    async def _fetch(self, connection: Connection) -> None:
        request, began = self._request(), self._loop.time()
        async with asyncio.timeout(REQUEST_TIMEOUT_S):
            response: FetchResponse = await connection.request(ApiKey.FETCH, self._rules.version, request)
        code = ErrorCode(response.error_code)
        if code in (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH):
            self._session_id, self._session_epoch = 0, 0
            return
        if code:
            raise _TryAgain(code.name)
        if self._rules.incremental and self._rules.version >= 7:
            self._session_id = response.session_id
            self._session_epoch = self._session_epoch + 1 if response.session_id else 0
        for topic in response.responses:
            for data in topic.partitions:
                if self._rules.version >= 13:
                    partition = self._by_id[TopicId(topic.topic_id), data.partition_index]
                else:
                    partition = TopicPartition(topic.topic, data.partition_index)
                await self._take(connection, partition, data, began)

    def _request(self) -> FetchRequest:
        rules = self._rules
        in_session = rules.incremental and self._session_epoch > 0
        if not in_session:
            self._reported.clear()
        topics: dict[str, FetchTopic] = {}
        for partition, position in self.positions.items():
            if self._reported.get(partition) == position:
                continue
            self._reported[partition] = position
            topic = topics.get(partition.topic)
            if topic is None:
                by_id = rules.version >= 13
                topic = topics[partition.topic] = FetchTopic(
                    topic="" if by_id else partition.topic,
                    topic_id=self._topics[partition] if by_id else NO_TOPIC_ID,
                    partitions=[],
                )
            topic.partitions.append(
                FetchPartition(
                    partition=partition.partition,
                    fetch_offset=position,
                    partition_max_bytes=rules.partition_bytes,
                )
            )
        return FetchRequest(
            max_wait_ms=rules.wait_ms,
            min_bytes=rules.min_bytes,
            max_bytes=rules.total_bytes,
            session_id=self._session_id if in_session else 0,
            session_epoch=self._session_epoch if rules.incremental else -1,
            topics=list(topics.values()),
        )

    async def _take(self, connection: Connection, partition: TopicPartition, data: PartitionData, began: float) -> None:
        code = ErrorCode(data.error_code)
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            # ReportedState of only when it is known where the log begins; nothing of the old session is then ever read.
            earliest = await self._end(connection, partition, EARLIEST)
            asked, self.positions[partition] = self.positions[partition], earliest
            self._resets[partition] += 1
            self._history.resets.append(Reset(self._name, partition, self._loop.time(), asked, earliest))
            return
        if code:
            raise _TryAgain(code.name)
        asked = self.positions[partition]
        seen = tuple(record for record in _records(partition, data) if record.offset >= asked)
        self.high_watermarks[partition] = data.high_watermark
        if seen:
            self.positions[partition] = seen[-1].offset + 1
        self._network.trace.note(self._name, "poll", partition, asked, len(seen), data.high_watermark)
        self._history.polls.append(
            Poll(
                consumer=self._name,
                session=self._resets[partition],
                began=began,
                at=self._loop.time(),
                partition=partition,
                asked=asked,
                seen=seen,
                high_watermark=data.high_watermark,
            )
        )

    async def _end(self, connection: Connection, partition: TopicPartition, which: int) -> int:
        asked = ListOffsetsPartition(partition_index=partition.partition, timestamp=which)
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=partition.topic, partitions=[asked])])
        async with asyncio.timeout(REQUEST_TIMEOUT_S):
            response = await connection.request(ApiKey.LIST_OFFSETS, 5, request)
        answer = response.topics[0].partitions[0]
        if answer.error_code:
            raise _TryAgain(ErrorCode(answer.error_code).name)
        offset: int = answer.offset
        return offset

    def _leave_connection(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None


def _records(partition: TopicPartition, data: PartitionData) -> Iterator[Seen]:
    return records_in(str(partition), data.records if data.records is not None else memoryview(b""))


def records_in(where: str, buffer: memoryview) -> Iterator[Seen]:
    """The records of all whole batches; what is left at the end must be the beginning of a batch."""
    position = 0
    while len(buffer) - position >= HEADER_SIZE:
        header = read_header(buffer, position)
        # Zeros are a batch of 12 bytes whose checksum, of nothing, is right.
        if header.size < HEADER_SIZE:
            raise ProtocolViolation(f"{where} has a batch of {header.size} bytes at {position}")
        if len(buffer) - position < header.size:
            return
        if not crc_is_right(buffer, position, header):
            raise ProtocolViolation(f"{where}@{header.base_offset} has a wrong checksum")
        yield from seen_in(buffer[position : position + header.size], header)
        position += header.size
