"""The fetchers of a broker: `num.replica.fetchers` for each leader, started and stopped as partitions come and go.

Which of a leader's fetchers has a partition follows from the partition's name alone. So a partition in a new term of
the same leader stays with its fetcher, and in the leader's fetch session.
"""

from __future__ import annotations

import zlib

from sordini.protocol.types import BrokerId, TopicPartition
from sordini.replication.fetching.fetcher_deps import FetcherDeps
from sordini.replication.fetching.replica_fetcher import ReplicaFetcher
from sordini.replication.partition import Partition
from sordini.replication.ports import BrokerLinks, Spawn


class ReplicaFetcherManager:
    """Fetches the partitions that this broker follows: the port `FetcherManager`."""

    def __init__(self, deps: FetcherDeps, links: BrokerLinks, spawn: Spawn, *, per_leader: int = 1) -> None:
        """`per_leader` is num.replica.fetchers."""
        self._deps = deps
        self._links = links
        self._spawn = spawn
        self._per_leader = per_leader
        self._fetchers: dict[tuple[BrokerId, int], ReplicaFetcher] = {}
        self._fetcher_of: dict[TopicPartition, ReplicaFetcher] = {}

    def __len__(self) -> int:
        """The number of fetchers."""
        return len(self._fetchers)

    def add_partition(self, partition: Partition) -> None:
        """Fetch this partition from its leader (`partition.follower`)."""
        follower = partition.follower
        assert follower is not None, f"{partition.name} has no leader to fetch from"
        key = follower.leader_id, fetcher_number(partition.name, self._per_leader)
        fetcher = self._fetchers.get(key)
        old = self._fetcher_of.get(partition.name)
        if old is not None and old is not fetcher:
            old.remove(partition.name)
        if fetcher is None:
            fetcher = self._start(*key)
        self._fetcher_of[partition.name] = fetcher
        fetcher.add(partition)

    def remove_partition(self, partition: Partition) -> None:
        """Stop fetching this partition, if it is fetched."""
        fetcher = self._fetcher_of.get(partition.name)
        if fetcher is not None:
            fetcher.remove(partition.name, partition)
            if not fetcher.fetches(partition.name):
                del self._fetcher_of[partition.name]

    def resize(self, per_leader: int) -> None:
        """num.replica.fetchers has changed: distribute the partitions again."""
        if per_leader == self._per_leader:
            return
        self._per_leader = per_leader
        for fetcher in list(self._fetchers.values()):
            for partition in fetcher.partitions:
                if partition.follower is None:
                    self.remove_partition(partition)
                else:
                    self.add_partition(partition)

    def _start(self, leader_id: BrokerId, number: int) -> ReplicaFetcher:
        link = self._links.link(leader_id, f"broker-{self._deps.broker_id}-fetcher-{number}")

        def on_done() -> None:
            del self._fetchers[leader_id, number]

        fetcher = self._fetchers[leader_id, number] = ReplicaFetcher(leader_id, link, self._deps, on_done)
        self._spawn(fetcher.run())
        return fetcher


def fetcher_number(name: TopicPartition, count: int) -> int:
    """Which of a leader's fetchers has a partition; the same after every restart."""
    return zlib.crc32(f"{name.topic}-{name.partition}".encode()) % count
