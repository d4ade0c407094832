"""A topic's configuration as its logs use it. Every name is Apache Kafka's, units last."""

from __future__ import annotations

from sordini.system.named_tuple import NamedTuple

UNLIMITED = -1
NEVER = 2**63 - 1


class LogConfig(NamedTuple):
    """One partition's settings; the defaults are Apache Kafka's."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 3_600_000
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 * 1024 * 1024
    index_interval_bytes: int = 4096
    retention_ms: int = 7 * 24 * 3_600_000
    """Age after which a segment is deleted; `UNLIMITED` keeps all."""
    retention_bytes: int = UNLIMITED
    file_delete_delay_ms: int = 60_000
    preallocate: bool = False
    """Whether disk space for a whole segment is reserved when it is created."""
    flush_messages: int = NEVER
    """The append that reaches this number of unsynced records is synced before its response."""
    flush_ms: int = NEVER
    cleanup_delete: bool = True
    """Whether segments are deleted by age and size; a topic that is only compacted keeps them."""
    cleanup_compact: bool = False
    """Whether compaction may leave gaps between offsets; in other logs a gap means lost records."""
    log_append_time: bool = False
    producer_expiration_ms: int = 86_400_000
    producers_max: int = 20_000
    """The maximum number of producers in one partition's state."""
    min_cleanable_dirty_ratio: float = 0.5
    """A compacted log is cleaned when its dirty share is above this."""
    min_compaction_lag_ms: int = 0
    """A segment with a younger record is not cleaned."""
    max_compaction_lag_ms: int = NEVER
    """A log with an older dirty record is cleaned whatever its dirty ratio."""
    delete_retention_ms: int = 86_400_000
    """How long a tombstone is kept after the records that it deletes are removed."""
