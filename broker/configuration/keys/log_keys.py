"""The keys of logs: directories, segments, retention, messages.

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
    names,
    one_of,
    setting,
    some_of,
    string,
)


@dataclasses.dataclass(frozen=True, init=False, repr=False, eq=False)
class LogSettings:
    """Settings of storage and of produced batches, also the defaults of topics."""

    # Storage. Apache Kafka's default is in /tmp, which many systems clear.
    log_dir: str = setting("log.dir", string, "data", "The directory of the logs, when log.dirs is not set.")
    log_dirs: str | None = setting(
        "log.dirs", string, None, "Directories of the logs, comma-separated; unset uses log.dir."
    )
    cordoned_log_dirs: str = setting(
        "cordoned.log.dirs",
        names,
        "",
        "Log directories that get no new partitions, comma-separated (KIP-1066); not all of them.",
        dynamic=True,
    )
    log_segment_bytes: int = setting(
        "log.segment.bytes", integer(14), 1073741824, "A segment larger than this is rolled.", dynamic=True
    )
    log_roll_hours: int = setting("log.roll.hours", integer(1), 168, "A segment older than this is rolled.")
    log_roll_ms: int | None = setting(
        "log.roll.ms", long(1), None, "As log.roll.hours, in milliseconds; takes precedence.", dynamic=True
    )
    log_roll_jitter_hours: int = setting(
        "log.roll.jitter.hours", integer(0), 0, "Random time subtracted from log.roll.hours."
    )
    log_roll_jitter_ms: int | None = setting(
        "log.roll.jitter.ms",
        long(0),
        None,
        "As log.roll.jitter.hours, in milliseconds; takes precedence.",
        dynamic=True,
    )
    log_retention_hours: int = setting(
        "log.retention.hours", integer(-1), 168, "Age at which segments are deleted; -1 keeps them."
    )
    log_retention_minutes: int | None = setting(
        "log.retention.minutes", integer(-1), None, "As log.retention.hours, in minutes; takes precedence over it."
    )
    log_retention_ms: int | None = setting(
        "log.retention.ms", long(-1), None, "As log.retention.hours, in milliseconds; takes precedence.", dynamic=True
    )
    log_retention_bytes: int = setting(
        "log.retention.bytes",
        long(-1),
        -1,
        "Size of each partition above which old segments are deleted; -1 is no limit.",
        dynamic=True,
    )
    log_retention_check_interval_ms: int = setting(
        "log.retention.check.interval.ms", long(1), 300000, "How often retention is checked."
    )
    log_delete_policy: str = setting(
        "sordini.log.delete.policy",
        string,
        "time,size",
        "Policies that delete old segments: time, size, and entry points of the group sordini.delete_policies.",
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
        "Messages after which a log is flushed to disk.",
        dynamic=True,
    )
    log_flush_interval_ms: int | None = setting(
        "log.flush.interval.ms",
        long(0),
        None,
        "Time after which a log is flushed to disk; unset leaves it to the operating system.",
        dynamic=True,
    )
    log_flush_scheduler_interval_ms: int = setting(
        "log.flush.scheduler.interval.ms",
        long(1),
        INT64_MAX,
        "How often logs are checked for a flush that is due by time.",
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
        "Preallocate a segment's disk space, up to an eighth of the free space.",
        dynamic=True,
    )
    open_segments_max: int = setting(
        "sordini.open.segments.max", integer(16), 4096, "Segment files kept open, in addition to those being read."
    )
    producer_id_expiration_ms: int = setting(
        "producer.id.expiration.ms",
        integer(1),
        86400000,
        "Idle time after which the state of a producer id is removed.",
        dynamic=True,
    )
    partition_producers_max: int = setting(
        "sordini.partition.producers.max",
        integer(16),
        20000,
        "Producer ids that one partition keeps; beyond it a new one is refused until another has been idle for ten "
        "minutes.",
    )

    # Messages.
    message_max_bytes: int = setting(
        "message.max.bytes", integer(0), 1048588, "Maximum size of a record batch.", dynamic=True
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
        "Whether a record has the producer's time or the time of the append.",
        dynamic=True,
    )
    log_message_timestamp_difference_max_ms: int = setting(
        "log.message.timestamp.difference.max.ms",
        long(0),
        INT64_MAX,
        "Maximum difference between a record's timestamp and the broker's clock.",
        dynamic=True,
    )
    log_message_timestamp_before_max_ms: int = setting(
        "log.message.timestamp.before.max.ms",
        long(0),
        INT64_MAX,
        "Maximum age of a record's timestamp.",
        dynamic=True,
    )
    log_message_timestamp_after_max_ms: int = setting(
        "log.message.timestamp.after.max.ms",
        long(0),
        INT64_MAX,
        "How far a record's timestamp may be in the future.",
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
        "The codec of stored batches; producer keeps the producer's codec.",
        dynamic=True,
    )
    compression_gzip_level: int = setting(
        "compression.gzip.level", integer(-1, 9), -1, "Level for gzip; -1 is the library's default.", dynamic=True
    )
    compression_lz4_level: int = setting("compression.lz4.level", integer(1, 17), 9, "Level for lz4.", dynamic=True)
    compression_zstd_level: int = setting(
        "compression.zstd.level", integer(-131072, 22), 3, "Level for zstd.", dynamic=True
    )
    validate_compressed: bool = setting(
        "sordini.validate.compressed",
        boolean,
        False,
        "Decompress every batch to validate its records.",
        dynamic=True,
    )
    expanded_bytes_max: int = setting(
        "sordini.expanded.bytes.max",
        integer(1024),
        67108864,
        "Maximum size of a compressed batch after decompression, where it is decompressed.",
        dynamic=True,
    )
    record_workers: int = setting(
        "sordini.record.workers",
        integer(1, 64),
        2,
        "Maximum child processes that decompress, validate and convert large batches; started on demand. "
        "With two or more, one client address cannot occupy all of them.",
        dynamic=True,
    )
    record_workers_queue_bytes_max: int = setting(
        "sordini.record.workers.queue.bytes.max",
        long(1),
        67108864,
        "Bytes of records queued for or held by these processes; further requests get a retriable error.",
        dynamic=True,
    )
    schema_topic: str = setting(
        "sordini.schema.topic",
        string,
        "_schemas",
        "The topic with a schema registry's records, for topics that have sordini.schema.validate.",
    )
    fetch_converted_bytes_max: int = setting(
        "sordini.fetch.converted.bytes.max",
        integer(1024),
        4194304,
        "Bytes of a response to Fetch v0 to v3 that are down-converted, beyond the first batch.",
    )
