"""The order in which Apache Kafka lists a transaction's partitions: that of a Scala hash set.

It is needed only so that our text of a transaction equals Apache Kafka's. The set is a table of chains, each sorted by
hash. It grows to fit when several elements are added at once, and when one is added while it is three quarters full.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from sordini.protocol.types import TopicPartition

_FIRST_TABLE = 16
_SMALL_SET = 4
"""Scala's immutable sets up to this size are not tables; their elements are added one by one."""


def set_order(partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
    """The partitions in that order, without duplicates; they were added topic by topic."""
    size = _table_size(partitions)
    hashes = {partition: _improved(_java_hash(partition)) for partition in partitions}
    return sorted(hashes, key=lambda partition: (hashes[partition] & size - 1, hashes[partition]))


def _table_size(partitions: Sequence[TopicPartition]) -> int:
    size, held = _FIRST_TABLE, 0
    for _, added in groupby(partitions, key=lambda partition: partition.topic):
        count = len(set(added))
        size = max(size, _at_least((count + 1) * 4 // 3))
        if count > _SMALL_SET:
            held += count
            continue
        for _ in range(count):
            if held + 1 >= size * 3 // 4:
                size *= 2
            held += 1
    return size


def _at_least(capacity: int) -> int:
    """The next power of two from 8 on."""
    return 1 << max(capacity - 1, 4).bit_length()


def _java_hash(partition: TopicPartition) -> int:
    """`hashCode` of a TopicPartition: 32 bits with a sign, as Java counts."""
    hashed = 0
    for unit in memoryview(partition.topic.encode("utf-16-le", "surrogatepass")).cast("H"):
        hashed = 31 * hashed + unit
    return _signed(31 * (31 + partition.partition) + hashed)


def _improved(hashed: int) -> int:
    """Scala's table uses the lower bits, so the upper ones are folded in."""
    return _signed(hashed ^ (hashed & 0xFFFF_FFFF) >> 16)


def _signed(number: int) -> int:
    return (number + 2**31) % 2**32 - 2**31
