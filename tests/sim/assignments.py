"""The consumer protocol's subscription and assignment, as every client encodes them.

subscription   int16 version | topics: [string]                        | user data: int32 length or -1
assignment     int16 version | partitions: [string topic, [int32]]     | user data: int32 length or -1
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence

from sordini.protocol.types import TopicPartition

NO_USER_DATA = struct.pack(">i", -1)


def subscription(topics: Sequence[str]) -> bytes:
    return struct.pack(">hi", 0, len(topics)) + b"".join(map(_string, topics)) + NO_USER_DATA


def subscribed(data: bytes) -> list[str]:
    count, position = struct.unpack_from(">i", data, 2)[0], 6
    topics = []
    for _ in range(count):
        topic, position = _string_at(data, position)
        topics.append(topic)
    return topics


def assignment(partitions: Iterable[TopicPartition]) -> bytes:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    body = b"".join(
        _string(topic) + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers) for topic, numbers in topics.items()
    )
    return struct.pack(">hi", 0, len(topics)) + body + NO_USER_DATA


def assigned(data: bytes) -> frozenset[TopicPartition]:
    count, position = struct.unpack_from(">i", data, 2)[0], 6
    partitions = set[TopicPartition]()
    for _ in range(count):
        topic, position = _string_at(data, position)
        size = struct.unpack_from(">i", data, position)[0]
        numbers = struct.unpack_from(f">{size}i", data, position + 4)
        position += 4 + 4 * size
        partitions.update(TopicPartition(topic, number) for number in numbers)
    return frozenset(partitions)


def share_out(members: Mapping[str, Sequence[str]], counts: Mapping[str, int]) -> dict[str, list[TopicPartition]]:
    """Assign every partition to a subscriber of its topic, round robin."""
    shares: dict[str, list[TopicPartition]] = {member_id: [] for member_id in members}
    for topic, count in sorted(counts.items()):
        takers = sorted(member_id for member_id, topics in members.items() if topic in topics)
        for number in range(count if takers else 0):
            shares[takers[number % len(takers)]].append(TopicPartition(topic, number))
    return shares


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def _string_at(data: bytes, position: int) -> tuple[str, int]:
    end = position + 2 + struct.unpack_from(">h", data, position)[0]
    return data[position + 2 : end].decode(), end
