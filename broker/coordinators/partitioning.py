"""Which partition of an internal topic a key (a group id, a transactional id) belongs to."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

KEYS_CACHED: Final = 4096
"""A client's requests name the same key again and again."""
_INT32_MIN = -(2**31)


@lru_cache(KEYS_CACHED)
def partition_for(key: str, partitions: int) -> int:
    """As Apache Kafka computes it: Java's hash of the key's UTF-16, without the sign, modulo the partitions."""
    units: Iterable[int] = key.encode("ascii", "replace")
    if not key.isascii():
        wide = key.encode("utf-16-be", "surrogatepass")
        units = [high << 8 | low for high, low in zip(wide[::2], wide[1::2], strict=True)]
    hashed = 0
    for unit in units:
        hashed = 31 * hashed + unit & 0xFFFF_FFFF
    signed = hashed - 2**32 if hashed >= 2**31 else hashed
    # The smallest 32-bit number has no absolute value; as in Apache Kafka it becomes 0.
    return 0 if signed == _INT32_MIN else abs(signed) % partitions
