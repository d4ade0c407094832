"""A simulated producer: numbered batches, several in flight, sent again after a lost connection.

The idempotent kind keeps every batch until it is answered and sends all unanswered ones again, in order and with
their old sequences, over the next connection. Requests of the old connection may still reach the broker after
that: the broker has to tell them apart. The other kind never sends anything twice; a batch without a response is
recorded as not known.
"""

from __future__ import annotations

import asyncio
import dataclasses
import random
from collections import deque

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.init_producer_id import InitProducerIdRequest
from sordini.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from sordini.protocol.records.batch import Record, build_batch
from sordini.protocol.types import NO_TOPIC_ID, TopicId, TopicPartition
from sordini.testing.simulation.simulated_network import Address
from sordini.testing.simulation.virtual_loop import SimClock
from tests.sim.client import ClientNetwork, Connection
from tests.sim.history import History, Outcome, Send

REQUEST_TIMEOUT_S = 3.0
BACKOFF_S = 0.1
IN_FLIGHT_MAX = 5
SEQUENCES = 2**31
STATE_LOST = (
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.INVALID_PRODUCER_EPOCH,
)
APPENDED = (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
NEW_EPOCH_CHANCE = 0.01
"""Of each batch sent while nothing is open: the producer begins a new epoch of its own, as KIP-360 lets it."""


@dataclasses.dataclass(frozen=True, slots=True)
class ProducerRules:
    """What kind of producer this is."""

    idempotent: bool = True
    acks: int = -1
    version: int = 9
    in_flight: int = IN_FLIGHT_MAX
    gap_mean_s: float = 0.05
    records_max: int = 5
    padding_max: int = 400
    codec_chance: float = 0.2
    zombie_chance: float = 0.0
    """After the first batch of a new epoch: send one of the old epoch, too, which must be refused."""


@dataclasses.dataclass(slots=True)
class _Batch:
    partition: TopicPartition
    values: tuple[str, ...]
    encoded: bytes
    sequence: int
    began: float


class _TryAgain(Exception):
    """This connection is unusable; the unanswered batches are sent over another."""


class Producer:
    """One producer; `run` returns when its time is over and every batch has an outcome."""

    def __init__(
        self,
        name: str,
        network: ClientNetwork,
        address: Address,
        topics: dict[TopicPartition, TopicId],
        history: History,
        rules: ProducerRules,
        seed: int,
    ) -> None:
        self._name = name
        self._network = network
        self._loop = network.loop
        self._clock = SimClock(network.loop)
        self._address = address
        self._topics = topics
        self._partitions = sorted(topics)
        self._history = history
        self._rules = rules
        self._random = random.Random(f"{name} {seed}")
        self._count = 0
        self._producer_id = -1
        self._producer_epoch = -1
        self._sequences: dict[TopicPartition, int] = {}
        self._past: dict[TopicPartition, tuple[int, int]] = {}
        self._unanswered: deque[_Batch] = deque()
        self.connection: Connection | None = None
        self.last_acknowledged = 0.0
        self.acknowledged = 0

    async def run(self, until: float, give_up: float) -> None:
        """Produce until one moment and wait for answers until another (seconds of the loop's time)."""
        while self._loop.time() < until or (self._unanswered and self._loop.time() < give_up):
            try:
                await self._use_connection(until, give_up)
            except (OSError, _TryAgain, TimeoutError):
                self._leave_connection()
                await asyncio.sleep(BACKOFF_S * (0.5 + self._random.random()))
        self._leave_connection()
        self._settle_all("info")

    async def _use_connection(self, until: float, give_up: float) -> None:
        connection = await Connection.open(self._network, self._address, self._name)
        self.connection = connection
        if self._rules.idempotent and self._producer_id < 0:
            await self._learn_id(connection)
        answers = deque((batch, self._send(connection, batch)) for batch in self._unanswered)
        next_batch = self._loop.time()
        while self._loop.time() < until or (answers and self._loop.time() < give_up):
            if not answers and self._rules.idempotent and self._random.random() < NEW_EPOCH_CHANCE:
                self._begin_epoch()
            if self._loop.time() < until and len(answers) < self._rules.in_flight:
                batch = self._new_batch()
                answer = self._send(connection, batch)
                next_batch = self._loop.time() + self._random.expovariate(1 / self._rules.gap_mean_s)
                if self._rules.acks == 0:
                    self._settle(batch, "info", -1)
                else:
                    answers.append((batch, answer))
            await self._collect(answers, next_batch if self._loop.time() < until else None)

    async def _collect(
        self, answers: deque[tuple[_Batch, asyncio.Future[ProduceResponse] | None]], next_batch: float | None
    ) -> None:
        """Take answers until it is time for the next batch; when none may follow now, wait for one answer."""
        while answers and (next_batch is None or len(answers) >= self._rules.in_flight or _is_done(answers[0][1])):
            batch, answer = answers[0]
            assert answer is not None
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                response = await answer
            answers.popleft()
            self._take(batch, response.responses[0].partition_responses[0])
        if next_batch is not None:
            await self._pause(answers, max(0.0, next_batch - self._loop.time()))

    async def _pause(self, answers: deque[tuple[_Batch, asyncio.Future[ProduceResponse] | None]], pause: float) -> None:
        """Let the time pass; answers that come meanwhile are taken."""
        ends = self._loop.time() + pause
        while self._loop.time() < ends:
            oldest = answers[0][1] if answers else None
            if oldest is None:
                await asyncio.sleep(ends - self._loop.time())
                return
            await asyncio.wait([oldest], timeout=ends - self._loop.time())
            if oldest.done():
                batch, _ = answers.popleft()
                self._take(batch, (await oldest).responses[0].partition_responses[0])

    def _take(self, batch: _Batch, answer: PartitionProduceResponse) -> None:
        code = ErrorCode(answer.error_code)
        if code in APPENDED:
            self._settle(batch, "ok", answer.base_offset if code == ErrorCode.NONE else -1)
            past = self._past.pop(batch.partition, None)
            if past is not None and self._random.random() < self._rules.zombie_chance:
                self._send_from_the_past(batch.partition, *past)
        elif not self._rules.idempotent:
            self._settle(batch, "info", -1)
        elif code in STATE_LOST and batch is self._unanswered[0]:
            # Nothing before it is open, so the broker has forgotten this producer: honest after a power loss only.
            who = f"{self._name} in {batch.partition} ({code.name})"
            self._history.forgotten_producers.append((self._loop.time(), batch.partition.topic, who))
            self._settle_all("info")
            self._producer_id = -1
            self._sequences.clear()
            self._past.clear()
            raise _TryAgain(code.name)
        else:
            raise _TryAgain(code.name)

    async def _learn_id(self, connection: Connection) -> None:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        async with asyncio.timeout(REQUEST_TIMEOUT_S):
            answer = await connection.request(ApiKey.INIT_PRODUCER_ID, 4, request)
        if answer.error_code:
            raise _TryAgain(ErrorCode(answer.error_code).name)
        self._producer_id, self._producer_epoch = answer.producer_id, answer.producer_epoch

    def _begin_epoch(self) -> None:
        """Nothing is open: count from 0 again under the next epoch."""
        self._past.update((tp, (self._producer_epoch, sequence)) for tp, sequence in self._sequences.items())
        self._producer_epoch += 1
        self._sequences.clear()

    def _send_from_the_past(self, partition: TopicPartition, epoch: int, sequence: int) -> None:
        """A batch that was under way when its producer moved on. Its value is not among the attempted ones."""
        connection = self.connection
        if connection is None or self._rules.acks == 0:
            return
        record = Record(0, self._clock.now_ms(), b"", f"{self._name} of epoch {epoch}".encode())
        # The next one of the old epoch, or the first one once more: neither may count as the new epoch's.
        sequence = self._random.choice((0, sequence))
        encoded = build_batch([record], producer_id=self._producer_id, producer_epoch=epoch, base_sequence=sequence)
        answer = self._send(connection, _Batch(partition, (), encoded, sequence, self._loop.time()))
        if answer is not None:
            answer.add_done_callback(self._judge_past)

    def _judge_past(self, answer: asyncio.Future[ProduceResponse]) -> None:
        if answer.cancelled() or answer.exception() is not None:
            return
        code = answer.result().responses[0].partition_responses[0].error_code
        if code in (ErrorCode.NONE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
            self._history.fenced_in.append((self._loop.time(), self._name))
        elif code == ErrorCode.INVALID_PRODUCER_EPOCH:
            self._history.fenced += 1

    def _new_batch(self) -> _Batch:
        partition = self._random.choice(self._partitions)
        count = self._random.randint(1, self._rules.records_max)
        values = tuple(f"{self._name}-{self._count + index}" for index in range(count))
        self._count += count
        sequence = self._sequences.get(partition, 0) if self._rules.idempotent else -1
        if self._rules.idempotent:
            self._sequences[partition] = (sequence + count) % SEQUENCES
        now = self._clock.now_ms()
        records = [Record(index, now, self._padding(), value.encode()) for index, value in enumerate(values)]
        encoded = build_batch(
            records,
            codec=1 if self._random.random() < self._rules.codec_chance else 0,
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            base_sequence=sequence,
        )
        self._history.attempted.update(values)
        batch = _Batch(partition, values, encoded, sequence, self._loop.time())
        self._unanswered.append(batch)
        return batch

    def _padding(self) -> bytes:
        return bytes(self._random.randint(0, self._rules.padding_max))

    def _send(self, connection: Connection, batch: _Batch) -> asyncio.Future[ProduceResponse] | None:
        by_id = self._rules.version >= 13
        topic = TopicProduceData(
            name="" if by_id else batch.partition.topic,
            topic_id=self._topics[batch.partition] if by_id else NO_TOPIC_ID,
            partition_data=[PartitionProduceData(index=batch.partition.partition, records=batch.encoded)],
        )
        request = ProduceRequest(acks=self._rules.acks, timeout_ms=2_000, topic_data=[topic])
        if self._rules.acks == 0:
            connection.send_unanswered(ApiKey.PRODUCE, self._rules.version, request)
            return None
        return connection.request(ApiKey.PRODUCE, self._rules.version, request)

    def _leave_connection(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None
        if not self._rules.idempotent:
            self._settle_all("info")

    def _settle_all(self, outcome: Outcome) -> None:
        while self._unanswered:
            self._settle(self._unanswered[0], outcome, -1)

    def _settle(self, batch: _Batch, outcome: Outcome, base_offset: int) -> None:
        self._unanswered.remove(batch)
        now = self._loop.time()
        if outcome == "ok":
            self.last_acknowledged = now
            self.acknowledged += len(batch.values)
        self._network.trace.note(self._name, outcome, batch.partition, batch.values[0], base_offset)
        self._history.sends.append(
            Send(
                producer=self._name,
                partition=batch.partition,
                values=batch.values,
                began=batch.began,
                ended=now,
                outcome=outcome,
                base_offset=base_offset,
                producer_id=self._producer_id if self._rules.idempotent else -1,
                producer_epoch=self._producer_epoch,
                sequence=batch.sequence,
            )
        )


def _is_done(answer: asyncio.Future[ProduceResponse] | None) -> bool:
    return answer is not None and answer.done()
