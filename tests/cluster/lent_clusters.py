"""Clusters lent to one test after the other, and what is done with one that a test has broken."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.cluster.aftermath import judge
from tests.cluster.cluster import Cluster


class Lender:
    """At most one cluster at a time. Who asks for another kind, or after a `discard`, gets a fresh one."""

    def __init__(self, zookeeper: str, new_directory: Callable[[], Path]) -> None:
        self._zookeeper = zookeeper
        self._new_directory = new_directory
        self._protocol = ""
        self._cluster: Cluster | None = None
        self._is_whole = False

    def lend(self, protocol: str, start: Callable[[Cluster], None]) -> Cluster:
        """The cluster there is, or a new one filled by `start`. One of another protocol is judged first."""
        if self._cluster is not None and (self._protocol != protocol or not self._is_whole):
            self.judge()
            self.discard()
        if self._cluster is None:
            self._protocol = protocol
            self._cluster = Cluster(self._new_directory(), self._zookeeper, protocol)
            start(self._cluster)
            self._is_whole = True
        return self._cluster

    def judge(self) -> None:
        """Look at what a cluster leaves behind; one that never stood up is left alone."""
        if self._cluster is not None and self._is_whole:
            self._is_whole = False
            judge(self._cluster)

    def discard(self) -> None:
        """Be rid of the cluster, whatever state it is in."""
        cluster, self._cluster, self._is_whole = self._cluster, None, False
        if cluster is not None:
            cluster.close()

    close = discard
