"""The rule by which all members of a group agree on who consumes which partitions. Pure.

The unit is the stream: member `g_host-1` with two streams has the threads `g_host-1-0` and `g_host-1-1`, and the node
of a partition's owner holds such a name. For each topic, with the words of the documents:

    PT: the partitions of the topic, sorted     CG: the threads of all members that consume it, sorted
    i: the index of a thread in CG              N = size(PT) / size(CG)
    partitions from i*N to (i+1)*N - 1 belong to thread i

The documents leave the remainder open; as in Apache Kafka, the first threads have one partition more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sordini.protocol.types import TopicPartition


class Member(NamedTuple):
    """A consumer of the group, and its number of streams for each topic that it consumes."""

    consumer_id: str
    streams: Mapping[str, int]


def threads_of(consumer_id: str, streams: int) -> list[str]:
    return [f"{consumer_id}-{number}" for number in range(streams)]


def assign(members: Sequence[Member], partitions: Mapping[str, Sequence[int]]) -> dict[TopicPartition, str]:
    """The thread for each partition; `partitions` has those of each topic, sorted."""
    owners = {}
    for topic, numbers in partitions.items():
        threads = sorted(name for one in members for name in threads_of(one.consumer_id, one.streams.get(topic, 0)))
        each, extra = divmod(len(numbers), len(threads)) if threads else (0, 0)
        for index, thread in enumerate(threads):
            start = each * index + min(index, extra)
            for number in numbers[start : start + each + (index < extra)]:
                owners[TopicPartition(topic, number)] = thread
    return owners
