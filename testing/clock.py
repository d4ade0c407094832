"""The clock of a test's brokers."""

from __future__ import annotations

from sordini.testing.cluster import Cluster


class KafkaClock:
    """The clock of the brokers; clients keep the machine's."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def advance(self, seconds: float) -> None:
        """Move it forward. What becomes due meanwhile happens in its order: retention, timeouts, sessions of groups."""
        if seconds < 0:
            raise ValueError(f"seconds={seconds:g}: a clock moves forward only")
        self._cluster.advance(seconds)

    def now_ms(self) -> int:
        """The time of day by it, in milliseconds since 1970."""
        return self._cluster.now_ms()
