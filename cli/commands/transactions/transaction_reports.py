"""The output of `sordini transactions`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sordini.admin.cluster_client import ClusterClient
from sordini.admin.failure import Failure
from sordini.admin.selections import PartitionSelection, selected_partitions
from sordini.admin.transactions.hanging import OpenTransaction, hanging
from sordini.admin.transactions.transaction_requests import (
    NO_OFFSET,
    abort,
    coordinated_transactions,
    describe_transaction,
    open_transactions,
    producers_of,
)
from sordini.protocol.printable import shown
from sordini.protocol.types import TopicPartition
from sordini.system.clock import SystemClock, utc_text

NO_TIMESTAMP: Final = -1

OPEN_COLUMNS: Final = ("TOPIC", "PARTITION", "PRODUCER", "EPOCH", "COORDINATOR EPOCH", "START OFFSET", "LAST WRITE")
PRODUCER_COLUMNS: Final = (
    "TOPIC",
    "PARTITION",
    "PRODUCER",
    "EPOCH",
    "LAST SEQUENCE",
    "LAST WRITE",
    "COORDINATOR EPOCH",
    "TRANSACTION START",
)


async def described(cluster: ClusterClient, transactional_ids: Sequence[str]) -> list[dict[str, Any]]:
    """Transactional ids that must exist."""
    found = []
    for transactional_id in transactional_ids:
        state = await describe_transaction(cluster, transactional_id)
        if state is None:
            raise Failure(
                f"transactional id '{transactional_id}' does not exist; `sordini transactions list` lists them"
            )
        started_ms = state.transaction_start_time_ms
        found.append(
            {
                "transactional_id": transactional_id,
                "state": state.transaction_state,
                "producer_id": state.producer_id,
                "producer_epoch": state.producer_epoch,
                "timeout_ms": state.transaction_timeout_ms,
                "started": None if started_ms == NO_TIMESTAMP else utc_text(started_ms),
                "partitions": [
                    {"topic": topic.topic, "partition": index}
                    for topic in sorted(state.topics, key=lambda topic: str(topic.topic))
                    for index in sorted(topic.partitions)
                ],
            }
        )
    return found


def transaction_text(row: Mapping[str, Any]) -> str:
    """One transactional id as text."""
    lines = [
        f"transactional id {shown(row['transactional_id'])}",
        f"  state       {shown(row['state'])}",
        f"  producer    {row['producer_id']}, epoch {row['producer_epoch']}",
        f"  timeout     {row['timeout_ms']} ms",
        f"  started     {row['started'] or '-'}",
    ]
    partitions = [f"{shown(one['topic'])}-{one['partition']}" for one in row["partitions"]]
    return "\n".join([*lines, f"  partitions  {', '.join(partitions) or '-'}"])


async def producer_rows(cluster: ClusterClient, wanted: Sequence[PartitionSelection]) -> list[dict[str, Any]]:
    """The producers of partitions, one row for each producer and partition."""
    partitions = await _partitions(cluster, wanted)
    return [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "producer_id": producer.producer_id,
            "producer_epoch": producer.producer_epoch,
            "last_sequence": _or_none(producer.last_sequence),
            "last_write": _time(producer.last_timestamp),
            "coordinator_epoch": _or_none(producer.coordinator_epoch),
            "transaction_start_offset": _or_none(producer.current_txn_start_offset),
        }
        for partition, row in sorted((await producers_of(cluster, partitions)).items())
        for producer in sorted(row.active_producers, key=lambda producer: int(producer.producer_id))
    ]


async def hanging_transactions(
    cluster: ClusterClient, wanted: Sequence[PartitionSelection], broker_id: int | None, age_ms: int
) -> list[OpenTransaction]:
    """The transactions that no coordinator ends, in some partitions, in those of one broker, or in all."""
    partitions = await _partitions(cluster, wanted) if wanted else await _all_partitions(cluster)
    if broker_id is not None:
        partitions = (await cluster.leaders(partitions)).get(broker_id, [])
    now_ms = SystemClock().now_ms()
    candidates = [one for one in await open_transactions(cluster, partitions) if one.is_older_than(age_ms, now_ms)]
    coordinated = await coordinated_transactions(cluster, [one.producer_id for one in candidates])
    return hanging(candidates, coordinated)


async def abort_at(cluster: ClusterClient, partition: TopicPartition, start_offset: int) -> OpenTransaction:
    """Abort the transaction that starts at this offset; raises Failure if there is none."""
    for one in await open_transactions(cluster, [partition]):
        if one.start_offset == start_offset:
            await abort(cluster, one)
            return one
    raise Failure(f"partition {partition} has no open transaction that starts at offset {start_offset}")


def open_row(one: OpenTransaction) -> dict[str, Any]:
    """One open transaction for JSON."""
    return {
        "topic": one.partition.topic,
        "partition": one.partition.partition,
        "producer_id": one.producer_id,
        "producer_epoch": one.producer_epoch,
        "coordinator_epoch": _or_none(one.coordinator_epoch),
        "start_offset": one.start_offset,
        "last_write": _time(one.last_timestamp_ms),
    }


async def _partitions(cluster: ClusterClient, wanted: Sequence[PartitionSelection]) -> list[TopicPartition]:
    topics = await cluster.topics(topic for topic, _ in wanted)
    return selected_partitions(wanted, {topic.name or "": len(topic.partitions) for topic in topics})


async def _all_partitions(cluster: ClusterClient) -> list[TopicPartition]:
    """Every partition that has a leader: those without one have no producers that could be described."""
    found = await cluster.metadata(None)
    return [
        TopicPartition(topic.name or "", row.partition_index)
        for topic in found.topics
        for row in topic.partitions
        if row.leader_id >= 0
    ]


def _or_none(value: int) -> int | None:
    return None if value == NO_OFFSET else value


def _time(timestamp_ms: int) -> str | None:
    return None if timestamp_ms == NO_TIMESTAMP else utc_text(timestamp_ms)
