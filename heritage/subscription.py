"""What a consumer subscribes to: topics with a number of streams each, or a filter over all topics. Pure.

The node of a consumer's id holds it as JSON, in Apache Kafka's form:

    {"version":1,"subscription":{"orders":2},"pattern":"static","timestamp":"1416000000000"}
    {"version":1,"subscription":{"orders|sales":1},"pattern":"white_list","timestamp":"1416000000000"}
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from sordini.heritage.errors import ConfigError

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
