"""What the members of a group subscribe to, and the rule by which all agree on who consumes which partitions. Pure.

The node of a member's id holds its subscription as JSON, in Apache Kafka's form:

    {"version":1,"subscription":{"orders":2},"pattern":"static","timestamp":"1416000000000"}
    {"version":1,"subscription":{"orders|sales":1},"pattern":"white_list","timestamp":"1416000000000"}

The unit is the stream: member `g_host-1` with two streams has the threads `g_host-1-0` and `g_host-1-1`, and the node
of a partition's owner holds such a name. For each topic, with the words of the documents:

    PT: the partitions of the topic, sorted     CG: the threads of all members that consume it, sorted
    i: the index of a thread in CG              N = size(PT) / size(CG)
    partitions from i*N to (i+1)*N - 1 belong to thread i

The documents leave the remainder open; as in Apache Kafka, the first threads have one partition more.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from examples.heritage.errors import ConfigError
from sordini.protocol.types import TopicPartition

INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state"})


class TopicFilter(NamedTuple):
    """Topics whose whole names match a regular expression (a white list), or do not; commas in it mean `|`."""

    regex: str
    is_white: bool = True

    def subscription(self, streams: int) -> Subscription:
        """Raises ConfigError when it is no regular expression."""
        regex = self.regex.strip().replace(",", "|").replace(" ", "").strip("\"'")
        try:
            re.compile(regex)
        except re.error as error:
            raise ConfigError(f"{self.regex!r} is no regular expression: {error}") from None
        return Subscription("white_list" if self.is_white else "black_list", {regex: streams})


class Subscription(NamedTuple):
    """The content of an id's node: streams by topic, or by the one regular expression of a filter."""

    pattern: str
    """static, white_list or black_list."""
    streams: Mapping[str, int]

    def encode(self, now_ms: int) -> bytes:
        value = {"version": 1, "subscription": dict(self.streams), "pattern": self.pattern, "timestamp": str(now_ms)}
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()

    @classmethod
    def decode(cls, data: bytes) -> Subscription:
        """Raises ValueError for anything else."""
        try:
            value = json.loads(data)
            streams = {str(topic): int(count) for topic, count in value["subscription"].items()}
            return cls(str(value.get("pattern", "static")), streams)
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"no subscription: {error!r}") from None

    def topics(self, all_topics: Iterable[str]) -> dict[str, int]:
        """The number of streams for each topic. Filters leave internal topics out."""
        if self.pattern == "static":
            return dict(self.streams)
        ((regex, count),) = self.streams.items()
        names = (name for name in all_topics if name not in INTERNAL_TOPICS)
        is_white = self.pattern == "white_list"
        return {name: count for name in names if (re.fullmatch(regex, name) is not None) == is_white}


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
