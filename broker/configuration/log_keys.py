"""The keys of the logs: where they are, how they roll, what they take and how long they keep it.

Most are the broker-wide defaults of topic configurations (see `topic_config`).
"""

from __future__ import annotations

import dataclasses

from sordini.broker.configuration.protocol_version import format_version
from sordini.broker.configuration.settings import (
    INT64_MAX,
    boolean,
    integer,
    long,
    one_of,
    setting,
    some_of,
    string,
)


@dataclasses.dataclass(frozen=True)
class LogSettings:
    """What the store, the checks on produced batches and, by inheritance, every topic are told."""

    # Storage. Apache Kafka keeps its logs in /tmp by default; a broker that is to be trusted must not.
    log_dir: str = setting("log.dir", string, "data", "The directory of the logs, when log.dirs is not set.")
    log_dirs: str | None = setting(
        "log.dirs", string, None, "Directories of the logs, comma-separated; empty takes log.dir."
    )
    log_segment_bytes: int = setting(
        "log.segment.bytes", integer(14), 1073741824, "A segment larger than this is rolled.", dynamic=True
    )
    log_roll_hours: int = setting("log.roll.hours", integer(1), 168, "A segment older than this is rolled.")
    log_roll_ms: int | None = setting(
        "log.roll.ms", long(1), None, "As log.roll.hours, in milliseconds; goes first.", dynamic=True
    )
    log_roll_jitter_hours: int = setting(
        "log.roll.jitter.hours", integer(0), 0, "Random time taken off log.roll.hours."
    )
    log_roll_jitter_ms: int | None = setting(
        "log.roll.jitter.ms", long(0), None, "As log.roll.jitter.hours; goes first.", dynamic=True
    )
    log_retention_hours: int = setting(
        "log.retention.hours", integer(-1), 168, "Older segments are deleted; -1 keeps them."
    )
    log_retention_minutes: int | None = setting(
        "log.retention.minutes", integer(-1), None, "As log.retention.hours, in minutes; goes before it."
    )
    log_retention_ms: int | None = setting(
        "log.retention.ms", long(-1), None, "As log.retention.hours, in milliseconds; goes first.", dynamic=True
    )
    log_retention_bytes: int = setting(
        "log.retention.bytes", long(-1), -1, "Bytes kept of each partition; -1 is no bound.", dynamic=True
    )
    log_retention_check_interval_ms: int = setting(
        "log.retention.check.interval.ms", long(1), 300000, "How often retention is looked at."
    )
    log_delete_policy: str = setting(
        "sordini.log.delete.policy",
        string,
        "time,size",
        "What makes old segments go: time, size, and entry points of the group sordini.delete_policies.",
    )
    log_cleanup_policy: str = setting(
        "log.cleanup.policy", some_of("compact", "delete"), "delete", "What happens to old segments.", dynamic=True
    )
    log_index_size_max_bytes: int = setting(
        "log.index.size.max.bytes", integer(4), 10485760, "The size of an index file.", dynamic=True
    )
    log_index_interval_bytes: int = setting(
        "log.index.interval.bytes", integer(0), 4096, "Bytes of log between two index entries.", dynamic=True
    )
    log_segment_delete_delay_ms: int = setting(
        "log.segment.delete.delay.ms",
        long(0),
        60000,
        "Time between a segment's removal from the log and from the disk.",
        dynamic=True,
    )
    log_flush_interval_messages: int = setting(
        "log.flush.interval.messages",
        long(1),
        INT64_MAX,
        "Messages after which a log is forced to the disk.",
        dynamic=True,
    )
    log_flush_interval_ms: int | None = setting(
        "log.flush.interval.ms",
        long(0),
        None,
        "Time after which a log is forced to the disk; unset leaves it to the system.",
        dynamic=True,
    )
    log_flush_scheduler_interval_ms: int = setting(
        "log.flush.scheduler.interval.ms", long(1), INT64_MAX, "How often logs due by time are looked for."
    )
    log_flush_offset_checkpoint_interval_ms: int = setting(
        "log.flush.offset.checkpoint.interval.ms", integer(0), 60000, "How often recovery points are written."
    )
    log_flush_start_offset_checkpoint_interval_ms: int = setting(
        "log.flush.start.offset.checkpoint.interval.ms",
        integer(0),
        60000,
        "How often log start offsets are written.",
    )
    replica_high_watermark_checkpoint_interval_ms: int = setting(
        "replica.high.watermark.checkpoint.interval.ms",
        long(1),
        5000,
        "How often high watermarks are written.",
    )
    log_preallocate: bool = setting(
        "log.preallocate",
        boolean,
        False,
        "Take a segment's room on the disk at once, up to an eighth of what is free.",
        dynamic=True,
    )
    open_segments_max: int = setting(
        "sordini.open.segments.max", integer(16), 4096, "Segment files open at once, beside those being read."
    )
    producer_id_expiration_ms: int = setting(
        "producer.id.expiration.ms", integer(1), 86400000, "A producer silent for longer is forgotten.", dynamic=True
    )
    partition_producers_max: int = setting(
        "sordini.partition.producers.max",
        integer(16),
        20000,
        "Idempotent producers that one partition remembers; past it a new one waits until another was silent for ten "
        "minutes.",
    )

    # Messages.
    message_max_bytes: int = setting(
        "message.max.bytes", integer(0), 1048588, "The largest record batch taken.", dynamic=True
    )
    log_message_format_version: str = setting(
        "log.message.format.version",
        format_version,
        "3.0-IV1",
        "The message format stored, while inter.broker.protocol.version is below 3.0.",
    )
    log_message_timestamp_type: str = setting(
        "log.message.timestamp.type",
        one_of("CreateTime", "LogAppendTime"),
        "CreateTime",
        "Whose clock dates a record.",
        dynamic=True,
    )
    log_message_timestamp_difference_max_ms: int = setting(
        "log.message.timestamp.difference.max.ms",
        long(0),
        INT64_MAX,
        "Largest distance of a record's date from now.",
        dynamic=True,
    )
    log_message_timestamp_before_max_ms: int = setting(
        "log.message.timestamp.before.max.ms",
        long(0),
        INT64_MAX,
        "How far in the past a record may be dated.",
        dynamic=True,
    )
    log_message_timestamp_after_max_ms: int = setting(
        "log.message.timestamp.after.max.ms",
        long(0),
        INT64_MAX,
        "How far in the future a record may be dated.",
        dynamic=True,
    )
    log_message_downconversion_enable: bool = setting(
        "log.message.downconversion.enable",
        boolean,
        True,
        "Convert records for consumers of old formats.",
        dynamic=True,
    )
    compression_type: str = setting(
        "compression.type",
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        "producer",
        "The codec batches are stored with; producer keeps what came.",
        dynamic=True,
    )
    compression_gzip_level: int = setting(
        "compression.gzip.level", integer(-1, 9), -1, "Level for gzip; -1 is its own.", dynamic=True
    )
    compression_lz4_level: int = setting("compression.lz4.level", integer(1, 17), 9, "Level for lz4.", dynamic=True)
    compression_zstd_level: int = setting(
        "compression.zstd.level", integer(-131072, 22), 3, "Level for zstd.", dynamic=True
    )
    validate_compressed: bool = setting(
        "sordini.validate.compressed",
        boolean,
        False,
        "Open every compressed batch to check the records inside.",
        dynamic=True,
    )
    expanded_bytes_max: int = setting(
        "sordini.expanded.bytes.max",
        integer(1024),
        67108864,
        "Bytes a compressed batch may expand to, where it is opened.",
        dynamic=True,
    )
