"""Which open transactions hang: no coordinator knows them, so no marker will ever end them (KIP-664). Pure.

A leader reports a transaction that has been open for longer than any may be. It hangs unless the coordinator of its
transactional id has the partition in an ongoing transaction of the same producer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sordini.protocol.types import TopicPartition
from sordini.system.named_tuple import NamedTuple

NO_EPOCH = -1


class OpenTransaction(NamedTuple):
    """A transaction without a marker, as the leader of a partition reports it; times in ms."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    """-1 before the producer's first marker in the partition."""
    start_offset: int
    last_timestamp_ms: int

    def is_older_than(self, age_ms: int, now_ms: int) -> bool:
        """Whether the producer has written nothing for more than `age_ms`."""
        return now_ms - self.last_timestamp_ms > age_ms


class CoordinatedTransaction(NamedTuple):
    """A transactional id as its coordinator describes it."""

    producer_id: int
    partitions: frozenset[TopicPartition]


def hanging(
    candidates: Iterable[OpenTransaction], coordinated: Mapping[str, CoordinatedTransaction]
) -> list[OpenTransaction]:
    """Those of the open transactions that no coordinator ends, in their order; `coordinated` is by transactional id."""
    ended = {
        (transaction.producer_id, partition)
        for transaction in coordinated.values()
        for partition in transaction.partitions
    }
    return [one for one in candidates if (one.producer_id, one.partition) not in ended]


def marker_epoch(transaction: OpenTransaction) -> int:
    """The coordinator epoch for the marker of an operator: any that the leader accepts."""
    return 0 if transaction.coordinator_epoch == NO_EPOCH else transaction.coordinator_epoch
