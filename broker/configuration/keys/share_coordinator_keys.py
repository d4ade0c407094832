"""The keys of the share coordinator, and of its topic __share_group_state (KIP-932)."""

from __future__ import annotations

import dataclasses

from sordini.broker.configuration.settings import integer, setting, short


@dataclasses.dataclass(frozen=True, init=False, repr=False, eq=False)
class ShareCoordinatorSettings:
    """The share coordinator's settings. Defaults are Apache Kafka's."""

    share_coordinator_state_topic_num_partitions: int = setting(
        "share.coordinator.state.topic.num.partitions",
        integer(1),
        50,
        "Partitions of __share_group_state when it is created.",
    )
    share_coordinator_state_topic_replication_factor: int = setting(
        "share.coordinator.state.topic.replication.factor",
        short(1),
        3,
        "Replicas of __share_group_state when it is created; with the embedded store at most the number of brokers.",
    )
    share_coordinator_state_topic_min_isr: int = setting(
        "share.coordinator.state.topic.min.isr",
        short(1),
        2,
        "In-sync replicas that a write to __share_group_state needs, at most all of them.",
    )
    share_coordinator_state_topic_segment_bytes: int = setting(
        "share.coordinator.state.topic.segment.bytes",
        integer(1),
        104857600,
        "Segment size of __share_group_state when it is created.",
    )
    share_coordinator_state_topic_compression_codec: int = setting(
        "share.coordinator.state.topic.compression.codec",
        integer(0, 4),
        0,
        "Compression of the records in __share_group_state, by its number: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
    )
    share_coordinator_snapshot_update_records_per_snapshot: int = setting(
        "share.coordinator.snapshot.update.records.per.snapshot",
        integer(0, 500),
        500,
        "Changes of a share partition's state that are written between two snapshots of it.",
    )
    share_coordinator_load_buffer_size: int = setting(
        "share.coordinator.load.buffer.size",
        integer(1),
        5242880,
        "Batch size for reading states when a share coordinator loads them.",
    )
    share_coordinator_write_timeout_ms: int = setting(
        "share.coordinator.write.timeout.ms",
        integer(1),
        5000,
        "How long the share coordinator waits until a write is committed.",
    )
    share_coordinator_state_topic_prune_interval_ms: int = setting(
        "share.coordinator.state.topic.prune.interval.ms",
        integer(1),
        300000,
        "How often records that newer snapshots have made redundant are deleted from __share_group_state.",
    )
    share_coordinator_cold_partition_snapshot_interval_ms: int = setting(
        "share.coordinator.cold.partition.snapshot.interval.ms",
        integer(1),
        300000,
        "When a snapshot is written of a share partition whose state does not change, so that older records can be "
        "deleted.",
    )
