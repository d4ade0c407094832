"""Hashes of topics, and of all that a group subscribes to, as Apache Kafka 4.4 computes them. Pure.

A group's epoch is raised when the hash in its record is another one. With Apache Kafka's numbers, neither broker raises
the epoch of a group that the other has written (KIP-1101). XXH3 of 64 bits, over these bytes, all little-endian:

    topic   version: int8 = 0 | topic id: int64, int64 | text: name | partitions: int32
            for each partition: int32 index, and for the rack of each replica that has one, sorted: int32 units | text
    group   int64: the hash of each topic that exists, by name
    text    UTF-16 | int32 units
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Sequence
from typing import Final

import xxhash

from sordini.protocol.types import TopicId

NO_TOPICS: Final = 0
"""The hash of a group without any topic that exists."""
RACKS_CACHED_MAX: Final = 1024
"""Of as many combinations of racks the bytes are kept: replicas of most partitions are in the same ones."""
_VERSION: Final = b"\0"
_INT32: Final = struct.Struct("<i")
_UUID: Final = struct.Struct(">QQ")
_UUID_HASHED: Final = struct.Struct("<QQ")


def topic_hash(name: str, topic_id: TopicId, racks: Sequence[tuple[str, ...]]) -> int:
    """The hash of a topic, unsigned. `racks`: by partition, those of its replicas, without the unknown."""
    parts = [_VERSION, _UUID_HASHED.pack(*_UUID.unpack(topic_id)), _text(name), _INT32.pack(len(racks))]
    if not any(racks):
        parts.append(struct.pack(f"<{len(racks)}i", *range(len(racks))))
    else:
        parts.extend(_INT32.pack(index) + _racks(found) for index, found in enumerate(racks))
    return xxhash.xxh3_64_intdigest(b"".join(parts))


def group_hash(topic_hashes: Sequence[int]) -> int:
    """The hash of a group, as its record has it (signed), of those of its topics in the order of their names."""
    if not topic_hashes:
        return NO_TOPICS
    hashed = xxhash.xxh3_64_intdigest(struct.pack(f"<{len(topic_hashes)}Q", *topic_hashes))
    return hashed - (1 << 64) if hashed >> 63 else hashed


@functools.lru_cache(RACKS_CACHED_MAX)
def _racks(found: tuple[str, ...]) -> bytes:
    texts = [_text(rack) for rack in sorted(found, key=_units)]
    return b"".join(text[-_INT32.size :] + text for text in texts)


def _text(value: str) -> bytes:
    data = value.encode("utf-16-le", "surrogatepass")
    return data + _INT32.pack(len(data) // 2)


def _units(value: str) -> bytes:
    """Java compares texts by units of UTF-16."""
    return value.encode("utf-16-be", "surrogatepass")
