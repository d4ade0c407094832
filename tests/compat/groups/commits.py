"""The commits of a group that its coordinator accepted, in the order in which they were written."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import closing
from typing import NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from tests.compat.groups.members import Partition

OFFSETS_TOPIC = "__consumer_offsets"
POLL_S = 15
_COMMIT_KEYS = (0, 1)


class Commit(NamedTuple):
    """An offset that was written."""

    partition: Partition
    offset: int


def accepted_commits(bootstrap: str, group: str) -> list[Commit]:
    """All of them, from an offsets topic of one partition."""
    return [
        Commit((topic, partition), struct.unpack_from(">q", value, 2)[0])
        for key, value in _records(bootstrap)
        for found, topic, partition in _commit_keys(key)
        if found == group
    ]


def set_back(commits: list[Commit]) -> list[tuple[Commit, int]]:
    """Commits below the greatest offset that was accepted before: of a member whose partition another one had."""
    greatest: dict[Partition, int] = {}
    found = []
    for commit in commits:
        before = greatest.get(commit.partition, 0)
        if commit.offset < before:
            found.append((commit, before))
        greatest[commit.partition] = max(before, commit.offset)
    return found


def _records(bootstrap: str) -> Iterator[tuple[bytes, bytes]]:
    settings = {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.partition.eof": True}
    with closing(Consumer(settings)) as consumer:
        consumer.assign([TopicPartition(OFFSETS_TOPIC, 0, OFFSET_BEGINNING)])
        while True:
            message = consumer.poll(POLL_S)
            assert message is not None, f"{OFFSETS_TOPIC} does not end"
            error = message.error()
            if error is None:
                yield message.key() or b"", message.value() or b""
            elif error.code() == KafkaError._PARTITION_EOF:
                return


def _commit_keys(key: bytes) -> Iterator[tuple[str, str, int]]:
    """Group, topic and partition, if it is the key of a commit."""
    if struct.unpack_from(">h", key)[0] in _COMMIT_KEYS:
        group, topic_start = _string(key, 2)
        topic, end = _string(key, topic_start)
        yield group, topic, struct.unpack_from(">i", key, end)[0]


def _string(data: bytes, start: int) -> tuple[str, int]:
    end = start + 2 + struct.unpack_from(">h", data, start)[0]
    return data[start + 2 : end].decode(), end
