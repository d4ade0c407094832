"""Whether the partitions of a cluster have leaders that serve, as a broker that has just started sees it."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sordini.broker.topics.metadata_cache import MetadataCache
    from sordini.protocol.types import BrokerId
    from sordini.replication.replica_set import ReplicaSet


def are_led(metadata: MetadataCache, replicas: ReplicaSet, broker_id: BrokerId, live: AbstractSet[int]) -> bool:
    """Whether every partition with a live in-sync replica has a leader, and this broker leads those that it should.

    The others have no leader until a broker that does not run starts. A broker has the command to lead a partition
    before the metadata that names it.
    """
    for name, topic in metadata.topics.items():
        for index, known in topic.partitions.items():
            if known.leader in live:
                partition = replicas.get(name, index) if known.leader == broker_id else None
                if known.leader == broker_id and (partition is None or partition.leader is None):
                    return False
            elif not live.isdisjoint(known.in_sync_replicas):
                return False
    return True
