"""The verification of a Produce request's transactional batches before they are appended (KIP-890).

The errors are those that producers of each version understand, as Apache Kafka's: what may pass is NOT_ENOUGH_REPLICAS,
at which they resend without another look at the metadata; that a transaction can only be aborted has a code of its own
from version 11 on. Producers of transaction.version 2 know CONCURRENT_TRANSACTIONS: their last transaction is being
completed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Final

from sordini.broker.coordinators.journal import TransactionalProducer
from sordini.broker.requests.call import Call
from sordini.broker.transactions.verification import RETRIABLE, Batch, TransactionGate, Verification
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.produce import ProduceRequest
from sordini.protocol.records.batch import BatchHeader
from sordini.protocol.records.peek import first_header
from sordini.protocol.types import TopicId
from sordini.replication.partition import Partition
from sordini.replication.replica_set import ReplicaSet

FIRST_WITH_ABORTABLE: Final = 11
"""The first version of Produce that knows TRANSACTION_ABORTABLE."""
FIRST_WITH_ADDITION: Final = 12
"""The first version of producers of transaction.version 2, which leave it to the leader to add partitions."""
FIRST_WITH_TOPIC_IDS: Final = 13

VERIFIED_AT_ONCE: Final = 200
"""Partitions of one request that are looked at before the loop serves other requests."""


class SlicedVerification:
    """A request with so many partitions that they are looked at in slices."""

    def __init__(self, steps: Generator[None, None, Verification | None]) -> None:
        self._steps = steps

    async def rest(self) -> Verification | None:
        while True:
            try:
                next(self._steps)
            except StopIteration as end:
                found: Verification | None = end.value
                return found
            await asyncio.sleep(0)


class ProduceVerification:
    """Verifies the batches of requests, and checks each before its append."""

    def __init__(self, replicas: ReplicaSet, gate: TransactionGate) -> None:
        self._replicas = replicas
        self._gate = gate

    def begin(self, call: Call) -> Verification | SlicedVerification | None:
        """Ask the coordinator for what has to be verified in a request; None where there is nothing.

        Raises BrokerError INVALID_PRODUCER_ID_MAPPING for batches of several producers.
        """
        steps = self._steps(call)
        try:
            next(steps)
        except StopIteration as end:
            found: Verification | None = end.value
            return found
        return SlicedVerification(steps)

    def _steps(self, call: Call) -> Generator[None, None, Verification | None]:
        """Yields after each VERIFIED_AT_ONCE partitions."""
        request: ProduceRequest = call.body
        producer: TransactionalProducer | None = None
        batches: list[Batch] = []
        seen = 0
        for topic in request.topic_data:
            for data in topic.partition_data:
                seen += 1
                if not seen % VERIFIED_AT_ONCE:
                    yield
                header = first_header(data.records)
                if header is None or not header.is_transactional:
                    continue
                sender = TransactionalProducer(header.producer_id, header.producer_epoch)
                if sender != (producer or sender):
                    raise BrokerError(
                        ErrorCode.INVALID_PRODUCER_ID_MAPPING, "a request has transactional batches of one producer"
                    )
                producer = sender
                partition = self._led(call.version, topic.name, topic.topic_id, data.index)
                if partition is not None:
                    batches.append(Batch(partition, header.base_sequence))
        if producer is None or request.transactional_id is None:
            return None
        adds = self._gate.adds_for(call.version, FIRST_WITH_ADDITION)
        return self._gate.begin(request.transactional_id, producer, batches, adds=adds)

    def check(self, call: Call, partition: Partition, header: BatchHeader, verification: Verification | None) -> None:
        """Check a transactional batch right before its append. Raises BrokerError, with a code for this version."""
        # First, as nothing was verified where this broker does not lead: the producer has to find the leader.
        partition.require_leader()
        batch = Batch(partition, header.base_sequence)
        producer = TransactionalProducer(header.producer_id, header.producer_epoch)
        adds = self._gate.adds_for(call.version, FIRST_WITH_ADDITION)
        try:
            self._gate.check(batch, call.body.transactional_id, producer, verification, adds=adds)
            _refuse_reused_sequences(partition, header)
        except BrokerError as error:
            code = _code_for_version(error.code, call.version, adds=adds)
            if code == error.code:
                raise
            raise BrokerError(code, str(error)) from None

    def _led(self, version: int, topic: str, topic_id: bytes, index: int) -> Partition | None:
        """The partition, where this broker leads it: batches for others are refused without a verification."""
        try:
            if version >= FIRST_WITH_TOPIC_IDS:
                partition = self._replicas.partition_by_id(TopicId(topic_id), index)
            else:
                partition = self._replicas.partition(topic, index)
        except BrokerError:
            return None
        return None if partition.leader is None or partition.is_internal else partition


def _refuse_reused_sequences(partition: Partition, header: BatchHeader) -> None:
    """Raises BrokerError TRANSACTION_ABORTABLE for a first batch that has the sequences of one before the last marker.

    A producer receives the response to every batch before it commits, so this is no repetition that counts. Either it
    comes too late, or the producer has given up a batch that is in the log, aborted, and numbered new records alike
    (librdkafka 2.16): acknowledged as a duplicate, they would be missing from a committed transaction.
    """
    producers = partition.log.producers
    if producers.has_open(header.producer_id, header.producer_epoch):
        return
    try:
        sent = producers.check(header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence)
    except BrokerError:
        return  # The append refuses it with this error.
    if sent is not None:
        raise BrokerError(
            ErrorCode.TRANSACTION_ABORTABLE,
            f"producer {header.producer_id} sent sequence {header.base_sequence} before its transaction began here",
        )


def _code_for_version(code: ErrorCode, version: int, *, adds: bool) -> ErrorCode:
    if code is ErrorCode.CONCURRENT_TRANSACTIONS and adds:
        return code
    if code in RETRIABLE:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    if code == ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code == ErrorCode.TRANSACTION_ABORTABLE and version < FIRST_WITH_ABORTABLE:
        return ErrorCode.INVALID_TXN_STATE
    return code


async def finish(verification: Verification | SlicedVerification | None) -> Verification | None:
    """Do what `begin` has left to do, and wait until the coordinator has answered.

    Raises BrokerError as `begin`.
    """
    if isinstance(verification, SlicedVerification):
        verification = await verification.rest()
    if verification is not None and not verification.is_done:
        answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def on_done() -> None:
            if not answered.done():
                answered.set_result(None)

        verification.on_done = on_done
        await answered
    return verification
