"""The results of `topics describe`, `topics offsets` and `topics delete-records`, combined from several responses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sordini.admin.cluster_client import ClusterClient
from sordini.admin.config_requests import DEFAULT, TOPIC, Resource, describe_configs
from sordini.admin.partition_offsets import LARGEST_TIMESTAMP, offset_ranges, offsets_for_times
from sordini.admin.selections import PartitionSelection, selected_partitions
from sordini.admin.topics.topic_requests import UP_TO_HIGH_WATERMARK, delete_records
from sordini.protocol.messages.metadata import MetadataResponseTopic
from sordini.protocol.types import NO_TOPIC_ID, TopicId, TopicPartition, topic_id_text


async def partitions_of(cluster: ClusterClient, wanted: Sequence[PartitionSelection]) -> list[TopicPartition]:
    """The selected partitions; their topics must exist."""
    found = await cluster.retry(lambda: cluster.topics(topic for topic, _ in wanted))
    return selected_partitions(wanted, {topic.name or "": len(topic.partitions) for topic in found})


async def describe_topics(cluster: ClusterClient, names: Sequence[str]) -> list[dict[str, Any]]:
    """The full description of some topics."""
    found = await cluster.retry(lambda: cluster.topics(names))
    own = await describe_configs(cluster, [Resource(TOPIC, topic.name or "") for topic in found])
    described = []
    for topic, configs in zip(found, own, strict=True):
        described.append(
            {
                "topic": topic.name,
                "topic_id": None if topic.topic_id == NO_TOPIC_ID else topic_id_text(TopicId(topic.topic_id)),
                "internal": topic.is_internal,
                "configs": {row["key"]: row["value"] for row in configs if row["source"] != DEFAULT},
                "partitions": await _described_partitions(cluster, topic),
            }
        )
    return described


async def _described_partitions(cluster: ClusterClient, topic: MetadataResponseTopic) -> list[dict[str, Any]]:
    """One row per partition; the offsets of a partition without a leader are None."""
    rows = sorted(topic.partitions, key=lambda row: row.partition_index)
    led = [TopicPartition(topic.name or "", row.partition_index) for row in rows if row.leader_id >= 0]
    ends = await offset_ranges(cluster, led)
    described = []
    for row in rows:
        end = ends.get(TopicPartition(topic.name or "", row.partition_index))
        described.append(
            {
                "partition": row.partition_index,
                "leader": row.leader_id if row.leader_id >= 0 else None,
                "leader_epoch": row.leader_epoch if row.leader_epoch >= 0 else None,
                "replicas": list(row.replica_nodes),
                "in_sync_replicas": list(row.isr_nodes),
                "offline_replicas": list(row.offline_replicas),
                "earliest_offset": end.earliest if end else None,
                "latest_offset": end.latest if end else None,
            }
        )
    return described


async def topic_offsets(
    cluster: ClusterClient, wanted: Sequence[PartitionSelection], at_ms: int | None, *, largest_timestamp: bool
) -> list[dict[str, Any]]:
    """The first and end offsets of partitions, and the offset for a time."""
    partitions = await partitions_of(cluster, wanted)
    ends = await offset_ranges(cluster, partitions)
    rows: list[dict[str, Any]] = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "earliest_offset": ends[partition].earliest,
            "latest_offset": ends[partition].latest,
        }
        for partition in partitions
    ]
    timestamp = LARGEST_TIMESTAMP if largest_timestamp else at_ms
    if timestamp is not None:
        found = await offsets_for_times(cluster, dict.fromkeys(partitions, timestamp))
        for partition, row in zip(partitions, rows, strict=True):
            row.update(found[partition]._asdict())
    return rows


async def delete_records_before(
    cluster: ClusterClient, wanted: PartitionSelection, before: int | None, before_ms: int | None
) -> list[dict[str, Any]]:
    """Delete records before an offset, or a time, or all (both None); the new log start offsets."""
    partitions = await partitions_of(cluster, [wanted])
    limits = dict.fromkeys(partitions, UP_TO_HIGH_WATERMARK if before is None else before)
    if before_ms is not None:
        found = await offsets_for_times(cluster, dict.fromkeys(partitions, before_ms))
        # No record is at or after the time: all of them are older.
        limits = {
            partition: UP_TO_HIGH_WATERMARK if (offset := found[partition].offset) is None else offset
            for partition in partitions
        }
    starts = await delete_records(cluster, limits)
    return [
        {"topic": partition.topic, "partition": partition.partition, "earliest_offset": starts[partition]}
        for partition in partitions
    ]
