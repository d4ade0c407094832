"""Requests that name one thing again and again: a few bytes each, answered with all that is known of it each time.

Apache Kafka answers every mention. Nobody needs more than a few, and a megabyte of them would be gigabytes of answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable

from sordini.protocol.errors import BrokerError, ErrorCode

MENTIONS_MAX = 10


def check_mentions(names: Iterable[Hashable]) -> None:
    """Raise BrokerError INVALID_REQUEST when one of the names is there more than MENTIONS_MAX times."""
    mentions = Counter(names)
    if mentions and max(mentions.values()) > MENTIONS_MAX:
        raise BrokerError(ErrorCode.INVALID_REQUEST, f"one request may name each thing {MENTIONS_MAX} times at most")
