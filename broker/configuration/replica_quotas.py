"""Replication quotas (KIP-73), from the configuration.

The rates are dynamic keys of the broker (`leader.replication.throttled.rate`, `follower.replication.throttled.rate`);
the replicas that they apply to are keys of the topics (`leader.replication.throttled.replicas` and the follower's). A
reassignment tool sets all of them, and removes them at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from sordini.broker.configuration.config import Config
from sordini.broker.configuration.dynamic import DynamicConfig
from sordini.broker.configuration.topic_configs import TopicConfigs
from sordini.protocol.types import BrokerId, TopicPartition
from sordini.replication.replica_throttling import ReplicaQuota
from sordini.system.named_tuple import NamedTuple

ALL = "*"
LISTS_CACHED = 1024


class ReplicaQuotas(NamedTuple):
    """Both directions."""

    leader: ReplicaQuota
    follower: ReplicaQuota


def replica_quotas(broker_id: BrokerId, dynamic: DynamicConfig, topics: TopicConfigs) -> ReplicaQuotas:
    """The quotas of this broker; they follow the configuration."""
    config = dynamic.config

    def listed_under(key: str) -> Callable[[TopicPartition], bool]:
        def is_listed(name: TopicPartition) -> bool:
            return is_throttled(topics.config_of(name.topic)[key], name.partition, broker_id)

        return is_listed

    def quota(key: str) -> ReplicaQuota:
        return ReplicaQuota(
            listed_under(key),
            windows_count=config.replication_quota_window_num,
            window_ms=config.replication_quota_window_size_seconds * 1000,
        )

    quotas = ReplicaQuotas(
        leader=quota("leader.replication.throttled.replicas"),
        follower=quota("follower.replication.throttled.replicas"),
    )

    def take_rates(now: Config) -> None:
        quotas.leader.limit(now.leader_replication_throttled_rate)
        quotas.follower.limit(now.follower_replication_throttled_rate)

    take_rates(config)
    dynamic.on_change(take_rates)
    return quotas


def is_throttled(replicas: str, partition: int, broker_id: BrokerId) -> bool:
    """Whether a list of throttled replicas (`*`, or partition:broker pairs) names this broker's replica."""
    return replicas == ALL or f"{partition}:{broker_id}" in _pairs(replicas)


@lru_cache(LISTS_CACHED)
def _pairs(replicas: str) -> frozenset[str]:
    return frozenset(pair.strip() for pair in replicas.split(","))
