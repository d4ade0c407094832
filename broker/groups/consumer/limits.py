"""The limits of consumer groups: those of the broker, and the timings that a single group may have of its own."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Final

from sordini.broker.configuration.config import Config
from sordini.broker.configuration.dynamic import DynamicConfig
from sordini.broker.configuration.group_config import GroupTimings
from sordini.broker.configuration.group_configs import GroupConfigs
from sordini.broker.groups.consumer.machine.events import ConsumerLimits

KEPT_MAX: Final = 1_000
"""Different limits that are kept. Groups of equal timings share theirs, so there are few."""


class ConsumerGroupLimits:
    """By group id. Only the timings may change while the broker runs."""

    def __init__(self, dynamic: DynamicConfig, group_configs: GroupConfigs) -> None:
        self._dynamic = dynamic
        self._group_configs = group_configs
        self._limits = lru_cache(KEPT_MAX)(partial(_limits, dynamic.config))

    def of(self, group_id: str) -> ConsumerLimits:
        return self._limits(self._group_configs.timings_of(group_id))

    def is_offloaded(self) -> bool:
        """Whether a target that takes long is computed beside the loop's other work."""
        return self._dynamic.config.group_consumer_assignor_offload_enable


def _limits(config: Config, timings: GroupTimings) -> ConsumerLimits:
    return ConsumerLimits(
        *timings,
        config.group_consumer_max_size,
        config.group_consumer_regex_refresh_interval_ms,
        config.consumer_assignors,
        config.group_min_session_timeout_ms,
        config.group_max_session_timeout_ms,
        config.group_consumer_migration_policy.allows_upgrade,
        config.group_consumer_migration_policy.allows_downgrade,
    )
