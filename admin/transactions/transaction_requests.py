"""The requests of `sordini transactions`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from sordini.admin.cluster_client import ClusterClient
from sordini.admin.failure import Failure
from sordini.admin.transactions.hanging import CoordinatedTransaction, OpenTransaction, marker_epoch
from sordini.client.errors import check, only_row
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    TopicRequest,
)
from sordini.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from sordini.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from sordini.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from sordini.protocol.types import TopicPartition
from sordini.system.named_tuple import NamedTuple

NO_OFFSET: Final = -1
FIRST_WITH_DURATION: Final = 1
FIRST_WITH_PATTERN: Final = 2


class Filter(NamedTuple):
    """Which transactional ids are listed; an empty filter lets all through."""

    states: Sequence[str] = ()
    producer_ids: Sequence[int] = ()
    longer_than_ms: int | None = None
    pattern: str | None = None

    @property
    def first_version(self) -> int:
        """The first version of ListTransactions that can express it."""
        if self.pattern is not None:
            return FIRST_WITH_PATTERN
        return 0 if self.longer_than_ms is None else FIRST_WITH_DURATION


async def list_transactions(cluster: ClusterClient, wanted: Filter) -> list[dict[str, Any]]:
    """The transactional ids of all coordinators, by name. Raises Failure for a state that does not exist."""
    request = ListTransactionsRequest(
        state_filters=list(wanted.states),
        producer_id_filters=list(wanted.producer_ids),
        duration_filter=-1 if wanted.longer_than_ms is None else wanted.longer_than_ms,
        transactional_id_pattern=wanted.pattern,
    )

    async def attempt() -> list[dict[str, Any]]:
        found = []
        for broker_id, link in (await cluster.brokers()).items():
            answer: ListTransactionsResponse = await link.ask(request, at_least=wanted.first_version)
            check(f"broker {broker_id}", answer.error_code)
            if answer.unknown_state_filters:
                raise Failure(f"there is no state {', '.join(answer.unknown_state_filters)}; try Ongoing or Empty")
            found += [
                {
                    "transactional_id": row.transactional_id,
                    "producer_id": row.producer_id,
                    "state": row.transaction_state,
                    "coordinator": broker_id,
                }
                for row in answer.transaction_states
            ]
        return sorted(found, key=lambda row: str(row["transactional_id"]))

    return await cluster.retry(attempt)


async def describe_transaction(cluster: ClusterClient, transactional_id: str) -> TransactionState | None:
    """What the coordinator knows of an id; None if it does not exist."""

    async def attempt() -> TransactionState | None:
        link = await cluster.transaction_coordinator(transactional_id)
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        answer: DescribeTransactionsResponse = await link.ask(request)
        subject = f"transactional id '{transactional_id}'"
        found = only_row(answer.transaction_states, subject)
        if found.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            return None
        check(subject, found.error_code)
        return found

    return await cluster.retry(attempt)


async def coordinated_transactions(
    cluster: ClusterClient, producer_ids: Iterable[int]
) -> dict[str, CoordinatedTransaction]:
    """The transactional ids that have these producer ids, with the partitions of their ongoing transactions."""
    wanted = sorted(set(producer_ids))
    found: dict[str, CoordinatedTransaction] = {}
    for row in await list_transactions(cluster, Filter(producer_ids=wanted)) if wanted else ():
        described = await describe_transaction(cluster, row["transactional_id"])
        if described is not None:
            partitions = frozenset(
                TopicPartition(topic.topic, index) for topic in described.topics for index in topic.partitions
            )
            found[row["transactional_id"]] = CoordinatedTransaction(described.producer_id, partitions)
    return found


async def producers_of(
    cluster: ClusterClient, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, PartitionResponse]:
    """What the leader of each partition knows of its producers."""
    wanted = list(partitions)

    async def attempt() -> dict[TopicPartition, PartitionResponse]:
        found: dict[TopicPartition, PartitionResponse] = {}
        for broker_id, led in (await cluster.leaders(wanted)).items():
            link = await cluster.broker(broker_id)
            topics: dict[str, TopicRequest] = {}
            for topic, index in led:
                topics.setdefault(topic, TopicRequest(name=topic)).partition_indexes.append(index)
            answer: DescribeProducersResponse = await link.ask(DescribeProducersRequest(topics=list(topics.values())))
            for described in answer.topics:
                for row in described.partitions:
                    partition = TopicPartition(described.name, row.partition_index)
                    check(f"partition {partition}", row.error_code, row.error_message)
                    found[partition] = row
        return found

    return await cluster.retry(attempt)


async def open_transactions(cluster: ClusterClient, partitions: Iterable[TopicPartition]) -> list[OpenTransaction]:
    """The transactions without a marker in these partitions, by partition and start offset."""
    found = [
        OpenTransaction(
            partition,
            producer.producer_id,
            producer.producer_epoch,
            producer.coordinator_epoch,
            producer.current_txn_start_offset,
            producer.last_timestamp,
        )
        for partition, row in (await producers_of(cluster, partitions)).items()
        for producer in row.active_producers
        if producer.current_txn_start_offset != NO_OFFSET
    ]
    return sorted(found, key=lambda one: (one.partition, one.start_offset))


async def abort(cluster: ClusterClient, transaction: OpenTransaction) -> None:
    """Write the abort marker of one transaction in one partition. Raises Refused."""
    topic, index = transaction.partition
    marker = WritableTxnMarker(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_result=False,
        coordinator_epoch=marker_epoch(transaction),
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[index])],
    )

    async def attempt() -> None:
        for broker_id in await cluster.leaders([transaction.partition]):
            link = await cluster.broker(broker_id)
            answer: WriteTxnMarkersResponse = await link.ask(WriteTxnMarkersRequest(markers=[marker]))
            result = only_row(answer.markers, f"producer {transaction.producer_id}")
            row = only_row(only_row(result.topics, f"topic '{topic}'").partitions, f"partition {transaction.partition}")
            check(f"partition {transaction.partition}", row.error_code, _advice(row.error_code))

    await cluster.retry(attempt)


def _advice(code: int) -> str | None:
    if code != ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        return None
    return "markers are accepted on the listener between brokers only: give its address with --bootstrap"
