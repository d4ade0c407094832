"""What the shards of the group coordinator share."""

from __future__ import annotations

from collections.abc import Callable

from sordini.broker.coordinators.ports import Ports
from sordini.broker.groups.consumer.groups import ConsumerGroupDeps
from sordini.broker.groups.machine.events import GroupLimits
from sordini.broker.groups.machine.memory_limit import GroupMemoryLimit
from sordini.broker.groups.offset_commits import AcceptedConnections
from sordini.broker.groups.shard_histories import RebalanceTotals
from sordini.broker.groups.share.groups import ShareGroupDeps
from sordini.protocol.types import TopicPartition
from sordini.system.named_tuple import NamedTuple


class GroupShardDeps(NamedTuple):
    """What all shards of the group coordinator share."""

    ports: Ports
    accepted_connections: AcceptedConnections
    limits: GroupLimits
    memory: GroupMemoryLimit
    rebalances: RebalanceTotals
    retention_ms: int
    """offsets.retention.minutes"""
    consumers: ConsumerGroupDeps
    shares: ShareGroupDeps
    delete_offsets_of: Callable[[set[TopicPartition]], None]
    """Deletes the offsets of partitions that no longer exist, in all groups of all shards."""
