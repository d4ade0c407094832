"""The keys of consumer groups: limits, and the topic __consumer_offsets."""

from __future__ import annotations

import dataclasses

from sordini.broker.configuration.settings import boolean, integer, long, setting, short


@dataclasses.dataclass(frozen=True, init=False, repr=False, eq=False)
class GroupSettings:
    """The group coordinator's settings. Defaults are Apache Kafka's."""

    group_min_session_timeout_ms: int = setting(
        "group.min.session.timeout.ms", integer(), 6000, "Minimum session timeout of a member."
    )
    group_max_session_timeout_ms: int = setting(
        "group.max.session.timeout.ms", integer(), 1800000, "Maximum session timeout of a member."
    )
    group_initial_rebalance_delay_ms: int = setting(
        "group.initial.rebalance.delay.ms",
        integer(0),
        3000,
        "How long the first rebalance of an empty group waits for more members.",
    )
    group_max_size: int = setting("group.max.size", integer(1), 2147483647, "Maximum members of a group.")
    group_memory_bytes_max: int = setting(
        "sordini.group.memory.bytes.max",
        long(1),
        1024 * 1024 * 1024,
        "Memory for members and offsets of all groups of this broker; beyond it new members are refused.",
    )
    group_rebalance_history_max: int = setting(
        "sordini.group.rebalance.history.max",
        integer(0, 1000),
        50,
        "Rebalances that the coordinator remembers of each group, for `sordini groups history`; 0 remembers none.",
    )
    group_consumer_stale_connection_fencing_enable: bool = setting(
        "sordini.group.consumer.stale.connection.fencing.enable",
        boolean,
        True,
        "Refuse heartbeats of a consumer group's member on a connection older than its newest.",
    )
    offset_metadata_max_bytes: int = setting(
        "offset.metadata.max.bytes", integer(), 4096, "Maximum size of the metadata committed with an offset."
    )
    offsets_retention_minutes: int = setting(
        "offsets.retention.minutes",
        integer(1),
        10080,
        "How long offsets are kept after their group is empty or no longer subscribes to the topic.",
    )
    offsets_retention_check_interval_ms: int = setting(
        "offsets.retention.check.interval.ms", long(1), 600000, "How often expired offsets are searched for."
    )
    offsets_commit_timeout_ms: int = setting(
        "offsets.commit.timeout.ms", integer(1), 5000, "How long an offset commit may wait for its replicas."
    )
    offsets_load_buffer_size: int = setting(
        "offsets.load.buffer.size", integer(1), 5242880, "Batch size for reading offsets when a coordinator loads them."
    )
    offsets_topic_num_partitions: int = setting(
        "offsets.topic.num.partitions", integer(1), 50, "Partitions of __consumer_offsets when it is created."
    )
    offsets_topic_replication_factor: int = setting(
        "offsets.topic.replication.factor",
        short(1),
        3,
        "Replicas of __consumer_offsets when it is created; with the embedded store at most the number of brokers.",
    )
    offsets_topic_segment_bytes: int = setting(
        "offsets.topic.segment.bytes", integer(1), 104857600, "Segment size of __consumer_offsets when it is created."
    )
    offsets_topic_compression_codec: int = setting(
        "offsets.topic.compression.codec",
        integer(0, 4),
        0,
        "Codec of the coordinator's records: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
    )
