"""The report of a failed test: what was done to its brokers, and what they logged, since the test began."""

from __future__ import annotations

from collections.abc import Sequence

from sordini.testing.cluster import Cluster
from sordini.testing.faults.script import Rule
from sordini.testing.node_handle import NodeHandle


class Report:
    """Of one cluster, which may outlive a test."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._began_s = 0.0
        self._earlier: set[Rule] = set()
        """Rules that were undone before the test began."""

    def begin(self) -> None:
        """A test begins."""
        self._began_s = self._cluster.elapsed_s()
        self._earlier = set(self._cluster.script.removed)

    def faults(self, brokers: Sequence[NodeHandle]) -> str:
        """The faults and what they did; empty without any."""
        script = self._cluster.script
        rules = [one for one in [*script.removed, *script.rules] if one not in self._earlier]
        lines = [f"{one.text()}, {one.use()}" for one in rules]
        lines += [str(note) for broker in brokers for note in broker.notes if note.time_s >= self._began_s]
        lines += [str(one) for one in self._cluster.requests() if one.fault and one.time_s >= self._began_s]
        return "\n".join(["Faults that were injected:", *(f"  {line}" for line in lines)]) if lines else ""

    def log(self, count: int) -> str:
        """The last lines that brokers have logged."""
        return "\n".join(self._cluster.log_lines(count, self._began_s))
