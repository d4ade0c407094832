"""The order in which Java iterates a hash table of member ids, topic ids or partitions.

Apache Kafka's assignors consider members, topics and partitions in that order. The lower bits of a key's folded hash
are the number of its bucket, and the number of buckets is a power of two. Keys of one bucket are in the order of their
insertion, which is not known here: they are sorted. A table that has grown key by key and one that was copied from a
collection have different sizes. The generators yield the steps made.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable
from typing import Final, TypeVar

from sordini.protocol.types import TopicId

K = TypeVar("K", str, TopicId)
H = TypeVar("H")
_BUCKETS_MIN: Final = 16


def member_id_order(member_ids: Collection[str]) -> Generator[int, None, list[str]]:
    """Member ids as the keys of a table that has grown."""
    return _in_order(member_ids, string_hash, _grown_buckets(len(member_ids)))


def target_topic_order(topic_ids: Collection[TopicId]) -> Generator[int, None, list[TopicId]]:
    """Topics of a member's target assignment: a table that has grown."""
    return _in_order(topic_ids, topic_id_hash, _grown_buckets(len(topic_ids)))


def subscribed_topic_order(topic_ids: Collection[TopicId]) -> Generator[int, None, list[TopicId]]:
    """Topics of a subscription: a table that was copied."""
    return _in_order(topic_ids, topic_id_hash, _copied_buckets(len(topic_ids)))


def hash_table_buckets(count: int, *, for_elements: int | None = None) -> int:
    """The buckets of a table with this many keys, which was made for so many elements, or for none in particular."""
    buckets = _BUCKETS_MIN if for_elements is None else 1 << (int((for_elements + 1) / 0.75 + 1) - 1).bit_length()
    while 4 * count > 3 * buckets:
        buckets *= 2
    return buckets


def hash_order(keys: Iterable[H], hash_of: Callable[[H], int], buckets: int) -> list[H]:
    """Keys in the order of their buckets; those of one bucket in the order given, which is that of their insertion."""
    return sorted(keys, key=lambda key: _folded(hash_of(key)) & (buckets - 1))


def partition_order(partitions: frozenset[int]) -> list[int]:
    """Partitions of one topic in a target assignment: a table that was copied. The hash of an integer is itself."""
    ordered = sorted(partitions)
    buckets = _copied_buckets(len(ordered))
    if not ordered or ordered[-1] < buckets:
        return ordered
    return sorted(ordered, key=lambda partition: _folded(partition) & (buckets - 1))


def string_hash(text: str) -> int:
    """Java's hash of a string: a polynomial of 31 over its UTF-16 code units."""
    units = text.encode("utf-16-be", "surrogatepass")
    result = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        result = 31 * result + (high << 8 | low) & 0xFFFFFFFF
    return result


def topic_id_hash(topic_id: TopicId) -> int:
    """The hash of Apache Kafka's class of ids: its four words of 32 bits, exclusive or."""
    halves = int.from_bytes(topic_id[:8], "big") ^ int.from_bytes(topic_id[8:], "big")
    return halves >> 32 ^ halves & 0xFFFFFFFF


def _in_order(keys: Collection[K], hash_of: Callable[[K], int], buckets: int) -> Generator[int, None, list[K]]:
    bucket_of: dict[K, int] = {}
    for key in keys:
        bucket_of[key] = _folded(hash_of(key)) & (buckets - 1)
        yield 1
    return sorted(sorted(bucket_of), key=bucket_of.__getitem__)


def _folded(key_hash: int) -> int:
    return key_hash ^ key_hash >> 16


def _grown_buckets(count: int) -> int:
    """A table doubles when it is filled by more than three quarters."""
    buckets = _BUCKETS_MIN
    while 4 * count > 3 * buckets:
        buckets *= 2
    return buckets


def _copied_buckets(count: int) -> int:
    """A copy begins with the power of two that is enough for a third more than it holds, and one."""
    return max(1 << (4 * count // 3).bit_length(), _BUCKETS_MIN)
