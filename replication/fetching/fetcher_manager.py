"""The fetchers of a broker: `num.replica.fetchers` for each leader, made and ended as partitions come and go.

Which of a leader's fetchers has a partition follows from its name alone, so a partition that is followed anew in
another term of the same leader stays where it is, and so does its place in the leader's fetch session.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Coroutine
from typing import Any

from sordini.protocol.types import BrokerId, TopicPartition
from sordini.replication.fetching.replica_fetcher import FetcherDeps, ReplicaFetcher
from sordini.replication.partition import Partition
from sordini.replication.ports import Links

Spawn = Callable[[Coroutine[Any, Any, None]], object]


class ReplicaFetcherManager:
    """Fetches what this broker follows: the port `Fetching`."""

    def __init__(self, around: FetcherDeps, links: Links, spawn: Spawn, *, per_leader: int = 1) -> None:
        """`spawn` owns the tasks; `per_leader` is num.replica.fetchers."""
        self._around = around
        self._links = links
        self._spawn = spawn
        self._per_leader = per_leader
        self._loops: dict[tuple[BrokerId, int], ReplicaFetcher] = {}
        self._places: dict[TopicPartition, ReplicaFetcher] = {}

    def __len__(self) -> int:
        """How many fetchers there are."""
        return len(self._loops)

    def follow(self, partition: Partition) -> None:
        """Fetch this partition from its leader (`partition.follower` says who), from now on."""
        follower = partition.follower
        assert follower is not None, f"{partition.name} follows nobody"
        key = follower.leader_id, fetcher_of(partition.name, self._per_leader)
        loop = self._loops.get(key)
        old = self._places.get(partition.name)
        if old is not None and old is not loop:
            old.remove(partition.name)
        if loop is None:
            loop = self._begin(*key)
        self._places[partition.name] = loop
        loop.add(partition)

    def unfollow(self, partition: Partition) -> None:
        """Fetch it no longer; harmless for one that is not fetched."""
        loop = self._places.get(partition.name)
        if loop is not None:
            loop.remove(partition.name, partition)
            if not loop.fetches(partition.name):
                del self._places[partition.name]

    def resize(self, per_leader: int) -> None:
        """num.replica.fetchers has changed: deal the partitions out anew."""
        if per_leader == self._per_leader:
            return
        self._per_leader = per_leader
        for loop in list(self._loops.values()):
            for partition in loop.partitions:
                if partition.follower is None:
                    self.unfollow(partition)
                else:
                    self.follow(partition)

    def _begin(self, leader_id: BrokerId, number: int) -> ReplicaFetcher:
        link = self._links.link(leader_id, f"broker-{self._around.broker_id}-fetcher-{number}")

        def ended() -> None:
            del self._loops[leader_id, number]

        loop = self._loops[leader_id, number] = ReplicaFetcher(leader_id, link, self._around, ended)
        self._spawn(loop.run())
        return loop


def fetcher_of(name: TopicPartition, count: int) -> int:
    """Which of a leader's fetchers a partition belongs to: the same in every life of the broker."""
    return zlib.crc32(f"{name.topic}-{name.partition}".encode()) % count
