"""What a transactional producer sends to its coordinators, as messages to send and answers to read (KIP-98). Pure.

    producer = Producer("alerts", *producer_id_in(response))      # response: to init_request(...)
    add_request(producer, partitions)                             # before the first batch of a partition
    add_offsets_request(producer, group), then commit_offsets_request(producer, group, offsets)
    end_request(producer, committed=True)

All but `commit_offsets_request` go to the coordinator of the transactional id
(`routing.transaction_coordinator_request`), that one to the group's. The versions are those of transactions whose
partitions are added beforehand and whose end leaves the epoch as it is, before KIP-890's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from sordini.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from sordini.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from sordini.protocol.messages.end_txn import EndTxnRequest
from sordini.protocol.messages.init_producer_id import InitProducerIdRequest
from sordini.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from sordini.protocol.types import TopicPartition
from sordini.system.named_tuple import NamedTuple

INITS: Final = {"at_most": 5}
"""Versions without two-phase commit."""
ADDS: Final = {"at_most": 3}
"""Versions that clients send; later ones are for brokers."""
ADDS_OF_OFFSETS: Final = {"at_most": 4}
COMMITS_OF_OFFSETS: Final = {"at_most": 4}
"""Versions after an AddOffsetsToTxn, with the names of topics."""
ENDS: Final = {"at_most": 4}
"""Versions that leave the epoch as it is."""


class Producer(NamedTuple):
    """Who writes: a transactional id, and the session that its coordinator gave it."""

    transactional_id: str
    producer_id: int
    epoch: int


class GroupOffset(NamedTuple):
    """An offset to commit, with text of the committer's own."""

    offset: int
    metadata: str = ""


def init_request(transactional_id: str | None, timeout_ms: int) -> InitProducerIdRequest:
    """For a producer id; of a transactional id it fences earlier producers. None: an idempotent producer's."""
    return InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=timeout_ms, producer_id=-1, producer_epoch=-1
    )


def add_request(producer: Producer, partitions: Iterable[TopicPartition]) -> AddPartitionsToTxnRequest:
    """Partitions that the transaction is about to write to."""
    topics: dict[str, list[int]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(partition.partition)
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=producer.transactional_id,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=name, partitions=rows) for name, rows in topics.items()],
    )


def added_partitions(response: AddPartitionsToTxnResponse) -> Iterator[tuple[TopicPartition, int]]:
    """The partitions of a response to `add_request`, and their error codes."""
    for topic in response.results_by_topic_v3_and_below:
        for row in topic.results_by_partition:
            yield TopicPartition(topic.name, row.partition_index), row.partition_error_code


def add_offsets_request(producer: Producer, group: str) -> AddOffsetsToTxnRequest:
    """A group whose offsets the transaction is about to commit."""
    return AddOffsetsToTxnRequest(
        transactional_id=producer.transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        group_id=group,
    )


def commit_offsets_request(
    producer: Producer, group: str, offsets: Mapping[TopicPartition, GroupOffset]
) -> TxnOffsetCommitRequest:
    """Offsets of a group without members, which are committed with the transaction."""
    topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
    for (topic, number), given in offsets.items():
        row = TxnOffsetCommitRequestPartition(
            partition_index=number, committed_offset=given.offset, committed_metadata=given.metadata
        )
        topics.setdefault(topic, []).append(row)
    return TxnOffsetCommitRequest(
        transactional_id=producer.transactional_id,
        group_id=group,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        topics=[TxnOffsetCommitRequestTopic(name=name, partitions=rows) for name, rows in topics.items()],
    )


def end_request(producer: Producer, *, committed: bool) -> EndTxnRequest:
    """The end of the transaction; the same one may be requested again."""
    return EndTxnRequest(
        transactional_id=producer.transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        committed=committed,
    )
