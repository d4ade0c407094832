"""The keys of consumer groups: their limits, and the topic that keeps their offsets."""

from __future__ import annotations

import dataclasses

from sordini.broker.configuration.settings import integer, long, setting, short


@dataclasses.dataclass(frozen=True)
class GroupSettings:
    """What the group coordinator is told. Defaults are Apache Kafka's."""

    group_min_session_timeout_ms: int = setting(
        "group.min.session.timeout.ms", integer(), 6000, "The shortest session timeout a member may ask for."
    )
    group_max_session_timeout_ms: int = setting(
        "group.max.session.timeout.ms", integer(), 1800000, "The longest session timeout a member may ask for."
    )
    group_initial_rebalance_delay_ms: int = setting(
        "group.initial.rebalance.delay.ms",
        integer(0),
        3000,
        "How long an empty group waits for more members after the first.",
    )
    group_max_size: int = setting("group.max.size", integer(1), 2147483647, "Members that one group may have.")
    group_memory_bytes_max: int = setting(
        "sordini.group.memory.bytes.max",
        long(1),
        1024 * 1024 * 1024,
        "Memory for the members and offsets of all groups of this broker; newcomers past it are refused.",
    )
    offset_metadata_max_bytes: int = setting(
        "offset.metadata.max.bytes", integer(), 4096, "The longest note that may be committed with an offset."
    )
    offsets_retention_minutes: int = setting(
        "offsets.retention.minutes",
        integer(1),
        10080,
        "How long offsets are kept once their group is empty or no longer subscribes to the topic.",
    )
    offsets_retention_check_interval_ms: int = setting(
        "offsets.retention.check.interval.ms", long(1), 600000, "How often offsets to be forgotten are looked for."
    )
    offsets_commit_timeout_ms: int = setting(
        "offsets.commit.timeout.ms", integer(1), 5000, "How long a commit may take to reach its replicas."
    )
    offsets_load_buffer_size: int = setting(
        "offsets.load.buffer.size", integer(1), 5242880, "Bytes read at once when offsets are loaded."
    )
    offsets_topic_num_partitions: int = setting(
        "offsets.topic.num.partitions", integer(1), 50, "Partitions of __consumer_offsets when it is made."
    )
    offsets_topic_replication_factor: int = setting(
        "offsets.topic.replication.factor",
        short(1),
        3,
        "Replicas of __consumer_offsets when it is made; with embedded coordination no more than there are brokers.",
    )
    offsets_topic_segment_bytes: int = setting(
        "offsets.topic.segment.bytes", integer(1), 104857600, "The segment size of __consumer_offsets when it is made."
    )
    offsets_topic_compression_codec: int = setting(
        "offsets.topic.compression.codec",
        integer(0, 4),
        0,
        "Codec of what the coordinator writes: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
    )
