"""The broker's own settings for all of its logs."""

from __future__ import annotations

from sordini.storage.retention import BUILT_IN, DeletePolicy
from sordini.system.named_tuple import NamedTuple


class StoreConfig(NamedTuple):
    """The broker's own settings for its logs; the defaults are Apache Kafka's where it has the key."""

    open_files_max: int = 4096
    retention_check_interval_ms: int = 300_000
    recovery_checkpoint_interval_ms: int = 60_000
    log_start_checkpoint_interval_ms: int = 60_000
    high_watermark_checkpoint_interval_ms: int = 5_000
    producer_check_interval_ms: int = 600_000
    flush_check_interval_ms: int = 0
    """How often `flush.ms` is checked; at most once per `tick`."""
    delete_policies: tuple[DeletePolicy, ...] = tuple(BUILT_IN.values())
