"""The clock of a test's brokers."""

from __future__ import annotations

from typing import Final

from sordini.testing.arguments import number
from sordini.testing.cluster import Cluster

ADVANCE_S_MAX: Final = 366 * 86_400
"""A clock moves forward only, and by a year at once."""


class KafkaClock:
    """The clock of the brokers; clients keep the machine's."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def advance(self, seconds: float) -> None:
        """Move it forward. What becomes due meanwhile happens in its order: retention, timeouts, sessions of groups."""
        self._cluster.advance(number("seconds", seconds, 0, ADVANCE_S_MAX))

    def now_ms(self) -> int:
        """The time of day by it, in milliseconds since 1970."""
        return self._cluster.now_ms()
