"""The requests of a transactional producer, and the error codes in their answers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from sordini.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from sordini.protocol.messages.end_txn import EndTxnRequest
from sordini.protocol.messages.init_producer_id import InitProducerIdRequest
from sordini.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from sordini.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from sordini.protocol.types import TopicPartition


class Identity(NamedTuple):
    """A producer as it names itself in every request."""

    transactional_id: str
    producer_id: int = -1
    epoch: int = -1


def init(who: Identity, timeout_ms: int) -> InitProducerIdRequest:
    """With a producer id: the producer raises its own epoch (KIP-360)."""
    return InitProducerIdRequest(
        transactional_id=who.transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=who.producer_id,
        producer_epoch=who.epoch,
    )


def add_partition(who: Identity, partition: TopicPartition) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=who.transactional_id,
        v3_and_below_producer_id=who.producer_id,
        v3_and_below_producer_epoch=who.epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=partition.topic, partitions=[partition.partition])],
    )


def produce(who: Identity, partition: TopicPartition, batch: bytes) -> ProduceRequest:
    data = PartitionProduceData(index=partition.partition, records=batch)
    topic = TopicProduceData(name=partition.topic, partition_data=[data])
    return ProduceRequest(transactional_id=who.transactional_id, acks=-1, timeout_ms=2_000, topic_data=[topic])


def add_offsets(who: Identity, group_id: str) -> AddOffsetsToTxnRequest:
    return AddOffsetsToTxnRequest(
        transactional_id=who.transactional_id,
        producer_id=who.producer_id,
        producer_epoch=who.epoch,
        group_id=group_id,
    )


def commit_offset(
    who: Identity, group_id: str, partition: TopicPartition, offset: int, note: str
) -> TxnOffsetCommitRequest:
    row = TxnOffsetCommitRequestPartition(
        partition_index=partition.partition, committed_offset=offset, committed_metadata=note
    )
    return TxnOffsetCommitRequest(
        transactional_id=who.transactional_id,
        group_id=group_id,
        producer_id=who.producer_id,
        producer_epoch=who.epoch,
        topics=[TxnOffsetCommitRequestTopic(name=partition.topic, partitions=[row])],
    )


def end(who: Identity, *, commits: bool) -> EndTxnRequest:
    return EndTxnRequest(
        transactional_id=who.transactional_id,
        producer_id=who.producer_id,
        producer_epoch=who.epoch,
        committed=commits,
    )


def error_of(answer: Any) -> ErrorCode:
    """The first error in an answer, of whichever of the requests above."""
    return next((ErrorCode(code) for code in _codes(answer) if code), ErrorCode.NONE)


def _codes(answer: Any) -> Iterable[int]:
    if hasattr(answer, "responses"):
        return [row.error_code for topic in answer.responses for row in topic.partition_responses]
    if hasattr(answer, "results_by_topic_v3_and_below"):
        rows = [row for topic in answer.results_by_topic_v3_and_below for row in topic.results_by_partition]
        return [row.partition_error_code for row in rows]
    if hasattr(answer, "topics"):
        return [row.error_code for topic in answer.topics for row in topic.partitions]
    return [answer.error_code]
