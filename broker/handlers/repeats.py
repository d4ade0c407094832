"""Requests that name one thing again and again: a few bytes each, answered with all that is known of it each time.

Apache Kafka answers every mention. Nobody needs more than a few, and a megabyte of them would be gigabytes of answer.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from sordini.broker.requests.slice_scheduler import Work
from sordini.protocol.errors import BrokerError, ErrorCode

MENTIONS_MAX = 10
NAMES_PER_STEP = 10
LETTERS_PER_STEP = 256
"""Of a group id, whose partition is found by looking at each of its letters."""


def check_mentions(names: Iterable[Hashable]) -> Work[None]:
    """Raise BrokerError INVALID_REQUEST when one of the names is there more than MENTIONS_MAX times."""
    mentions: dict[Hashable, int] = {}
    for looked_at, name in enumerate(names):
        count = mentions[name] = mentions.get(name, 0) + 1
        if count > MENTIONS_MAX:
            raise BrokerError(
                ErrorCode.INVALID_REQUEST, f"one request may name each thing {MENTIONS_MAX} times at most"
            )
        if not looked_at % NAMES_PER_STEP:
            yield 1
