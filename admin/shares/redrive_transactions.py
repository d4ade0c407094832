"""The transactions of a redrive: copies, and how far the dead letters are done, in one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from sordini.admin.cluster_client import ClusterClient, RetriableRefusal
from sordini.client.errors import check
from sordini.client.record_requests import PRODUCE_BY_NAME, only_partition, produce_request, produced_partitions
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
from sordini.protocol.errors import ErrorCode
from sordini.protocol.records.batch import Record, build_batch
from sordini.protocol.types import TopicPartition

TRANSACTION_TIMEOUT_MS: Final = 60_000
"""After so long without an end its coordinator aborts it."""
PRODUCE_TIMEOUT_MS: Final = 10_000
SEQUENCE_MASK: Final = 2**31 - 1


class RedriveTransactions:
    """The transactions of one transactional id, one after another; a later instance fences this one.

    Every request may be sent again after its response was lost: the producer's sequences and its epoch tell the brokers
    that it is the same.
    """

    def __init__(self, cluster: ClusterClient, transactional_id: str) -> None:
        self._cluster = cluster
        self._producer = Producer(transactional_id, -1, -1)
        self._sequences: dict[TopicPartition, int] = {}

    async def open(self) -> None:
        """Fence earlier instances; what they left open is over when this returns. Raises ClientError."""
        transactional_id = self._producer.transactional_id

        async def attempt() -> None:
            link = await self._cluster.transaction_coordinator(transactional_id)
            answer = await link.ask(init_request(transactional_id, TRANSACTION_TIMEOUT_MS), **INITS)
            _check(f"transactional id '{transactional_id}'", answer.error_code)
            self._producer = Producer(transactional_id, answer.producer_id, answer.producer_epoch)

        await self._cluster.retry(attempt)

    async def write(self, partition: TopicPartition, records: Sequence[Record]) -> None:
        """Append records to a partition, in the transaction. Raises ClientError."""
        await self._add([partition])
        sequence = self._sequences.get(partition, 0)
        batch = build_batch(
            records,
            producer_id=self._producer.producer_id,
            producer_epoch=self._producer.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        transactional_id = self._producer.transactional_id
        request = produce_request({partition: batch}, PRODUCE_TIMEOUT_MS, transactional_id=transactional_id)

        async def attempt() -> None:
            (leader,) = await self._cluster.leaders([partition])
            link = await self._cluster.broker(leader)
            row = only_partition(
                produced_partitions(await link.ask(request, **PRODUCE_BY_NAME)), f"partition {partition}"
            )
            _check(f"partition {partition}", row.error_code, row.error_message)

        await self._cluster.retry(attempt)
        self._sequences[partition] = (sequence + len(records)) & SEQUENCE_MASK

    async def commit(self, group: str, offsets: Mapping[TopicPartition, GroupOffset]) -> None:
        """End the transaction with offsets of a group. Raises ClientError."""

        async def attempt_offsets() -> None:
            link = await self._cluster.transaction_coordinator(self._producer.transactional_id)
            answer = await link.ask(add_offsets_request(self._producer, group), **ADDS_OF_OFFSETS)
            _check(f"group '{group}'", answer.error_code)
            coordinator = await self._cluster.coordinator(group)
            committed = await coordinator.ask(
                commit_offsets_request(self._producer, group, offsets), **COMMITS_OF_OFFSETS
            )
            for topic in committed.topics:
                for row in topic.partitions:
                    _check(f"the offset of {TopicPartition(topic.name, row.partition_index)}", row.error_code)

        await self._cluster.retry(attempt_offsets)
        await self._end(committed=True)

    async def abort(self) -> None:
        """End the transaction without what was written. Raises ClientError."""
        await self._end(committed=False)

    async def _add(self, partitions: Iterable[TopicPartition]) -> None:
        request = add_request(self._producer, partitions)

        async def attempt() -> None:
            link = await self._cluster.transaction_coordinator(self._producer.transactional_id)
            for partition, code in added_partitions(await link.ask(request, **ADDS)):
                _check(f"partition {partition}", code)

        await self._cluster.retry(attempt)

    async def _end(self, *, committed: bool) -> None:
        async def attempt() -> None:
            link = await self._cluster.transaction_coordinator(self._producer.transactional_id)
            answer = await link.ask(end_request(self._producer, committed=committed), **ENDS)
            _check(f"transactional id '{self._producer.transactional_id}'", answer.error_code)

        await self._cluster.retry(attempt)


def _check(subject: str, code: int, message: str | None = None) -> None:
    """Raises Refused; for a transaction that is about to end, one after which `retry` continues."""
    if code == ErrorCode.CONCURRENT_TRANSACTIONS:
        raise RetriableRefusal(subject, code, "the transaction before it is about to end")
    if code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH):
        message = "another redrive of this topic has begun meanwhile"
    check(subject, code, message)
