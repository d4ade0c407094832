"""Transactions of one transactional id, for one thread: what a driver needs to write a batch exactly once.

    producer = TransactionalProducer(pool, topics, Session("alerts", timeout_ms=60_000))
    producer.open()                       # fences every earlier producer of this id, and ends what it left open
    producer.add(partitions)
    producer.send({partition: batch})     # one batch for each partition; returns when all are acknowledged
    producer.add_offsets("alerts", {partition: GroupOffset(17, "...")})
    producer.commit()

A request that has no answer is sent again with the same sequences, so that nothing is appended twice; an end is
requested again until the coordinator answers. Methods raise Fenced once a later producer was opened, or once the
coordinator has aborted the transaction because it took too long.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from sordini.client.addresses import Address
from sordini.client.blocking_link import OpenLink
from sordini.client.errors import ClientError, Refused
from sordini.client.group_offsets import FETCHES, fetch_request, group_in, partitions_in
from sordini.client.record_requests import PRODUCE_BY_NAME, produce_request, produced_partitions
from sordini.client.routing import coordinator_in, transaction_coordinator_request
from sordini.client.transaction_requests import (
    ADDS,
    ADDS_OF_OFFSETS,
    COMMITS_OF_OFFSETS,
    ENDS,
    INITS,
    GroupOffset,
    Producer,
    add_offsets_request,
    add_request,
    added_partitions,
    commit_offsets_request,
    end_request,
    init_request,
)
from sordini.pipeline.errors import Fenced
from sordini.pipeline.source.client.connection_pool import RETRIABLE, ConnectionPool
from sordini.pipeline.source.client.groups import coordinator
from sordini.pipeline.source.client.topics import Topics
from sordini.protocol.errors import ErrorCode
from sordini.protocol.records.batch import INT32_MAX, read_header, stamp_producer
from sordini.protocol.types import TopicPartition

Batches = Mapping[TopicPartition, bytearray]
"""One record batch for each partition, without a producer."""

_FENCED: Final = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)


class Session:
    """A session of a transactional id, which outlives connections: its producer id and epoch, and its sequences."""

    def __init__(self, transactional_id: str, timeout_ms: int) -> None:
        """The coordinator aborts a transaction that takes longer than `timeout_ms`."""
        self.timeout_ms = timeout_ms
        self.producer = Producer(transactional_id, -1, -1)
        self.sequences: dict[TopicPartition, int] = {}

    @property
    def is_open(self) -> bool:
        """Whether it has begun."""
        return self.producer.producer_id >= 0

    def begin(self, producer: Producer) -> None:
        """Take a new producer id and epoch, whose sequences begin at 0."""
        self.producer = producer
        self.sequences = {}

    def forget(self) -> None:
        """Not to be used any more; another one may begin."""
        self.begin(Producer(self.producer.transactional_id, -1, -1))


class TransactionalProducer:
    """Writes under a session; `open` begins it."""

    def __init__(self, pool: ConnectionPool, topics: Topics, session: Session) -> None:
        self._pool = pool
        self._topics = topics
        self._session = session
        self._id = session.producer.transactional_id

    @property
    def _producer(self) -> Producer:
        return self._session.producer

    def open(self) -> None:
        """Begin a session. Transactions of earlier ones are over then: committed if that was decided, else aborted."""

        def attempt() -> Producer:
            answer = self._pool.ask(init_request(self._id, self._session.timeout_ms), self._coordinator(), **INITS)
            self._check(answer.error_code, f"opening transactional id '{self._id}'")
            return Producer(self._id, answer.producer_id, answer.producer_epoch)

        self._session.begin(self._pool.retry(attempt))

    def add(self, partitions: Iterable[TopicPartition]) -> None:
        """Partitions that the transaction is about to write to."""
        request = add_request(self._producer, partitions)

        def attempt() -> None:
            answer = self._pool.ask(request, self._coordinator(), **ADDS)
            for partition, code in added_partitions(answer):
                # The others were not tried because of it.
                if code != ErrorCode.OPERATION_NOT_ATTEMPTED:
                    self._check(code, f"adding {partition} to a transaction of '{self._id}'")

        self._pool.retry(attempt)

    def send(self, batches: Batches) -> None:
        """Write one batch for each partition, all of them added before."""
        for partition, batch in batches.items():
            sequence = self._session.sequences.get(partition, 0)
            self._session.sequences[partition] = sequence + read_header(batch).record_count & INT32_MAX
            stamp_producer(batch, self._producer.producer_id, self._producer.epoch, sequence, transactional=True)
        missing = dict(batches)
        self._pool.retry(lambda: self._attempt_to_send(missing))

    def add_offsets(self, group: str, offsets: Mapping[TopicPartition, GroupOffset]) -> None:
        """Commit offsets of a group without members, with the transaction."""

        def announce() -> None:
            answer = self._pool.ask(add_offsets_request(self._producer, group), self._coordinator(), **ADDS_OF_OFFSETS)
            self._check(answer.error_code, f"adding group '{group}' to a transaction of '{self._id}'")

        def commit() -> None:
            request = commit_offsets_request(self._producer, group, offsets)
            answer = self._pool.ask(request, coordinator(self._pool, group), **COMMITS_OF_OFFSETS)
            for partition, row in partitions_in(answer):
                self._check(row.error_code, f"committing group '{group}' in {partition}")

        self._pool.retry(announce)
        self._pool.retry(commit)

    def commit(self) -> None:
        """End the transaction: all of it is visible to readers of committed records, or will be in a moment.

        After any other error than Fenced it may be committed or not; a later session finds it decided.
        """
        self._end(committed=True)

    def abort(self) -> None:
        """End the transaction without its records."""
        self._end(committed=False)

    def _end(self, *, committed: bool) -> None:
        def attempt() -> None:
            answer = self._pool.ask(end_request(self._producer, committed=committed), self._coordinator(), **ENDS)
            self._check(answer.error_code, f"ending a transaction of '{self._id}'")

        self._pool.retry(attempt)

    def _attempt_to_send(self, missing: dict[TopicPartition, bytearray]) -> None:
        """Send to all leaders, and remove from `missing` what is acknowledged."""
        led: dict[Address, dict[TopicPartition, bytearray]] = {}
        for partition, batch in missing.items():
            led.setdefault(self._topics.leader(partition)[0], {})[partition] = batch
        links: list[OpenLink] = []
        try:
            for address, batches in led.items():
                link = self._pool.borrow(address)
                links.append(link)
                timeout_ms = self._pool.settings.limits.request_ms
                link.send(produce_request(batches, timeout_ms, transactional_id=self._id), **PRODUCE_BY_NAME)
            for link in links:
                self._take(link, missing)
        except ClientError:
            for partition in missing:
                self._topics.mark_stale(partition.topic)
            raise
        finally:
            for link in links:
                self._pool.give_back(link)

    def _take(self, link: OpenLink, missing: dict[TopicPartition, bytearray]) -> None:
        retriable = None
        for partition, row in produced_partitions(link.receive()):
            if row.error_code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                missing.pop(partition, None)
            elif row.error_code in RETRIABLE:
                retriable = row.error_code, partition, row.error_message
            else:
                self._check(row.error_code, f"writing to {partition}", row.error_message)
        if retriable is not None:
            self._check(retriable[0], f"writing to {retriable[1]}", retriable[2])

    def _coordinator(self) -> Address:
        found = coordinator_in(self._pool.ask(transaction_coordinator_request(self._id), at_least=1))
        self._check(found.error_code, f"the coordinator of transactional id '{self._id}'", found.error_message)
        return found.address

    def _check(self, code: int, subject: str, reason: str | None = None) -> None:
        if code in _FENCED:
            raise Fenced(self._id, self._session.timeout_ms, Refused(subject, code).code.name)
        self._pool.check(code, subject, reason)


def notes(pool: ConnectionPool, group: str) -> dict[TopicPartition, str]:
    """The metadata of all offsets that a group has committed, once no transaction is pending; one attempt."""
    answer = pool.ask(fetch_request(group, is_stable=True), coordinator(pool, group), **FETCHES)
    found = group_in(answer)
    pool.check(found.error_code, f"the offsets of group '{group}'")
    texts = {}
    for partition, row in partitions_in(found):
        pool.check(row.error_code, f"the offset of group '{group}' in {partition}")
        if row.committed_offset >= 0:
            texts[partition] = row.metadata or ""
    return texts
