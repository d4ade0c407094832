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

STATIC: Final = "static"
WHITE_LIST: Final = "white_list"
BLACK_LIST: Final = "black_list"
INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state"})


class TopicFilter:
    """A regular expression that whole names of topics match, with commas for `|`; see the subclasses."""

    pattern = ""

    def __init__(self, raw: str) -> None:
        """Raises ConfigError when it is no regular expression."""
        self.regex = raw.strip().replace(",", "|").replace(" ", "").strip("\"'")
        try:
            self._compiled = re.compile(self.regex)
        except re.error as error:
            raise ConfigError(f"{raw!r} is no regular expression: {error}") from None

    def allows(self, topic: str, *, exclude_internal: bool) -> bool:
        matches = self._compiled.fullmatch(topic) is not None
        return matches == (self.pattern == WHITE_LIST) and not (exclude_internal and topic in INTERNAL_TOPICS)


class Whitelist(TopicFilter):
    """Topics that match."""

    pattern = WHITE_LIST


class Blacklist(TopicFilter):
    """Topics that do not match."""

    pattern = BLACK_LIST


class Subscription(NamedTuple):
    """The content of an id's node: streams by topic, or by the one regular expression of a filter."""

    pattern: str
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
            return cls(str(value.get("pattern", STATIC)), streams)
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"no subscription: {error!r}") from None

    def topics(self, all_topics: Iterable[str], *, exclude_internal: bool) -> dict[str, int]:
        """The number of streams for each topic."""
        if self.pattern == STATIC:
            return dict(self.streams)
        ((regex, count),) = self.streams.items()
        chosen = (Whitelist if self.pattern == WHITE_LIST else Blacklist)(regex)
        return {topic: count for topic in all_topics if chosen.allows(topic, exclude_internal=exclude_internal)}
