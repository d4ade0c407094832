"""Which partition of an internal topic a key (a group id, a transactional id) belongs to."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from sordini.protocol.java_hash import partition_of, text_hash

KEYS_CACHED: Final = 4096
"""A client's requests name the same key again and again."""


@lru_cache(KEYS_CACHED)
def partition_for(key: str, partitions: int) -> int:
    """As Apache Kafka computes it, by Java's hash of the key."""
    return partition_of(text_hash(key), partitions)
