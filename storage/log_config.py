"""What a topic's configuration means to its logs. Every name is Apache Kafka's, units last."""

from __future__ import annotations

from typing import NamedTuple

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
    """Age past which a segment goes; `UNLIMITED` keeps all."""
    retention_bytes: int = UNLIMITED
    file_delete_delay_ms: int = 60_000
    preallocate: bool = False
    """Whether the disk's room for a whole segment is taken when it is begun."""
    flush_messages: int = NEVER
    """So many records may be unsynced; the append that reaches the number is synced before it is answered."""
    flush_ms: int = NEVER
    cleanup_delete: bool = True
    """Whether age and size delete segments; a topic that is only compacted keeps them."""
    cleanup_compact: bool = False
    """Whether records may be missing between two others, which elsewhere means that they were lost."""
    log_append_time: bool = False
    producer_expiration_ms: int = 86_400_000
    producers_max: int = 20_000
    """Producers that one partition remembers."""
    min_cleanable_dirty_ratio: float = 0.5
    """The share of a compacted log that has to be dirty before it is cleaned."""
    min_compaction_lag_ms: int = 0
    """A segment with a younger record is not cleaned."""
    max_compaction_lag_ms: int = NEVER
    """A log with an older dirty record is cleaned whatever its dirty ratio."""
    delete_retention_ms: int = 86_400_000
    """How long a tombstone stays once all it deletes is gone."""
