"""Requests of a transactional producer to one broker, which coordinates its transactions, for a `UnitBroker`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from sordini.broker.groups.offsets_topic import OFFSETS_TOPIC
from sordini.broker.network.ports import DelayedResponse
from sordini.broker.transactions.records import TRANSACTIONS_TOPIC
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from sordini.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from sordini.protocol.messages.end_txn import EndTxnRequest
from sordini.protocol.messages.init_producer_id import InitProducerIdRequest
from sordini.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from sordini.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from sordini.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from sordini.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from sordini.testing.simulation.forgetful_disk import ForgetfulDisk
from tests.support.builders import an_idempotent_batch
from tests.support.group_requests import ONE_PARTITION, codes
from tests.support.unit_broker import UnitBroker, a_broker, answer_of, read_answer

INTERNAL = {
    **ONE_PARTITION,
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.min.isr": "1",
    "inter.broker.protocol.version": "2.8",  # Producer ids come from the store: no controller runs here.
}
UNVERIFIED = {"transaction.partition.verification.enable": "false"}


class Producer(NamedTuple):
    transactional_id: str
    producer_id: int
    epoch: int = 0


@asynccontextmanager
async def a_cluster_of_one(
    entries: Mapping[str, str] | None = None, disk: ForgetfulDisk | None = None, epoch: int = 0
) -> AsyncIterator[UnitBroker]:
    """A broker that leads `orders`, and coordinates groups and transactions."""
    async with a_broker({**INTERNAL, **(entries or {})}, disk) as broker:
        await broker.lead("orders", 3, epoch=epoch)
        await broker.lead(OFFSETS_TOPIC, epoch=epoch)
        await broker.lead(TRANSACTIONS_TOPIC, epoch=epoch)
        await broker.settled()
        yield broker


async def init(broker: UnitBroker, transactional_id: str = "t") -> Producer:
    """A producer that is ready for its first transaction."""
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
    for _ in range(2):  # CONCURRENT_TRANSACTIONS while a former producer's transaction is aborted.
        served = broker.serve(ApiKey.INIT_PRODUCER_ID, 4, request)
        await broker.settled()
        if isinstance(served, DelayedResponse):
            answer = answer_of(served, ApiKey.INIT_PRODUCER_ID, 4)
        else:
            assert served is not None
            answer = read_answer(ApiKey.INIT_PRODUCER_ID, 4, served)
        if answer.error_code != ErrorCode.CONCURRENT_TRANSACTIONS:
            break
    assert answer.error_code == 0
    return Producer(transactional_id, answer.producer_id, answer.producer_epoch)


def add_partitions(broker: UnitBroker, producer: Producer, *indexes: int, topic: str = "orders") -> list[int]:
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=producer.transactional_id,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=list(indexes))],
    )
    answer = broker.ask(ApiKey.ADD_PARTITIONS_TO_TXN, 3, request)
    return [
        row.partition_error_code
        for result in answer.results_by_topic_v3_and_below
        for row in result.results_by_partition
    ]


def add_offsets(broker: UnitBroker, producer: Producer, group_id: str = "g") -> int:
    request = AddOffsetsToTxnRequest(
        transactional_id=producer.transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        group_id=group_id,
    )
    code: int = broker.ask(ApiKey.ADD_OFFSETS_TO_TXN, 3, request).error_code
    return code


def end(broker: UnitBroker, producer: Producer, *, commit: bool) -> int:
    request = EndTxnRequest(
        transactional_id=producer.transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        committed=commit,
    )
    code: int = broker.ask(ApiKey.END_TXN, 3, request).error_code
    return code


def txn_commit_request(
    producer: Producer, offsets: Mapping[int, int], group_id: str = "g", topic: str = "orders", **fields: Any
) -> TxnOffsetCommitRequest:
    rows = [
        TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
        for index, offset in offsets.items()
    ]
    return TxnOffsetCommitRequest(
        transactional_id=producer.transactional_id,
        group_id=group_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=rows)],
        **fields,
    )


def txn_commit(
    broker: UnitBroker, producer: Producer, offsets: Mapping[int, int], version: int = 3, **fields: Any
) -> list[int]:
    request = txn_commit_request(producer, offsets, **fields)
    return codes(broker.ask(ApiKey.TXN_OFFSET_COMMIT, version, request))


def mark(
    broker: UnitBroker, producer_id: int, *, commit: bool, topic: str = OFFSETS_TOPIC, epoch: int = 0, index: int = 0
) -> int:
    """Write a marker as a coordinator on another broker does."""
    marker = WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_result=commit,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[index])],
    )
    answer = broker.ask(ApiKey.WRITE_TXN_MARKERS, 1, WriteTxnMarkersRequest(markers=[marker]))
    code: int = answer.markers[0].topics[0].partitions[0].error_code
    return code


def stable_fetch(broker: UnitBroker, *indexes: int, group_id: str = "g") -> dict[int, tuple[int, int]]:
    """By each partition its offset and error code, as a consumer of committed records gets them."""
    topics = [OffsetFetchRequestTopics(name="orders", partition_indexes=list(indexes))] if indexes else None
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group_id, topics=topics)], require_stable=True
    )
    [group] = broker.ask(ApiKey.OFFSET_FETCH, 8, request).groups
    assert group.error_code == 0
    return {
        row.partition_index: (row.committed_offset, row.error_code)
        for topic in group.topics
        for row in topic.partitions
    }


def produce_request(
    producer: Producer, sequences: Mapping[int, int], *, records: int = 1, topic: str = "orders", acks: int = -1
) -> ProduceRequest:
    """One transactional batch for each partition, with this base sequence."""
    rows = [
        PartitionProduceData(
            index=index,
            records=memoryview(
                bytearray(
                    an_idempotent_batch(
                        records,
                        producer_id=producer.producer_id,
                        producer_epoch=producer.epoch,
                        sequence=sequence,
                        transactional=True,
                    )
                )
            ),
        )
        for index, sequence in sequences.items()
    ]
    return ProduceRequest(
        transactional_id=producer.transactional_id,
        acks=acks,
        timeout_ms=1_000,
        topic_data=[TopicProduceData(name=topic, partition_data=rows)],
    )


def produced(answer: Any) -> dict[int, int]:
    """Error codes by partition."""
    return {row.index: row.error_code for topic in answer.responses for row in topic.partition_responses}
