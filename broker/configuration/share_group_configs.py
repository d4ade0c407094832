"""What is in force for each share group: its own settings before the broker's, within the broker's bounds (KIP-932).

Both rooms of share groups read it: the group's coordinator, and the leaders of its partitions.
"""

from __future__ import annotations

from sordini.broker.configuration.config import Config
from sordini.broker.configuration.dynamic import DynamicConfig
from sordini.broker.configuration.group_config import (
    DEAD_LETTER_COPIES,
    DEAD_LETTER_TOPIC,
    ISOLATION_LEVEL,
    OFFSET_RESET,
    READ_COMMITTED,
    RENEWAL,
    GroupConfig,
)
from sordini.broker.configuration.group_configs import GroupConfigs
from sordini.broker.configuration.keys.share_group_keys import (
    DELIVERY_COUNT_LIMIT,
    PARTITION_RECORD_LOCKS,
    RECORD_LOCK_DURATION,
    SHARE_ASSIGNMENT_INTERVAL,
    SHARE_HEARTBEAT_INTERVAL,
    SHARE_SESSION_TIMEOUT,
)
from sordini.broker.configuration.offset_reset import OffsetReset, read_offset_reset
from sordini.system.named_tuple import NamedTuple


class ShareLimits(NamedTuple):
    """Of one group, now."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int
    members_max: int
    delivery_count_limit: int
    record_lock_duration_ms: int
    partition_record_locks_max: int
    """Records of one partition that are locked or not yet finished."""
    offset_reset: OffsetReset
    """Where the group begins to read a partition that is new to it."""
    is_read_committed: bool
    allows_renewal: bool
    """Whether a member may renew a record lock."""
    dead_letter_topic: str | None
    copies_dead_letters: bool
    """Whether a dead letter has the record, not only headers that name it."""


class ShareGroupLimits:
    """By group id. What is returned is a value of now: a lookup is cheap, so make one at each use."""

    def __init__(self, dynamic: DynamicConfig, group_configs: GroupConfigs) -> None:
        self._dynamic = dynamic
        self._group_configs = group_configs
        self._limits: dict[str | None, ShareLimits] = {}
        """By the ids of groups that have settings of their own; None stands for the others."""
        dynamic.on_change(self._forget_all)
        group_configs.on_change(self._forget)

    def of(self, group_id: str) -> ShareLimits:
        key = group_id if self._group_configs.has_own(group_id) else None
        found = self._limits.get(key)
        if found is None:
            found = self._limits[key] = _limits(self._dynamic.config, self._group_configs.config_of(group_id))
        return found

    def is_offloaded(self) -> bool:
        """Whether a target that takes long is computed beside the loop's other work."""
        return self._dynamic.config.group_share_assignor_offload_enable

    def _forget(self, group_id: str) -> None:
        self._limits.pop(group_id, None)

    def _forget_all(self, _: Config) -> None:
        self._limits.clear()


def _limits(config: Config, group: GroupConfig) -> ShareLimits:
    return ShareLimits(
        session_timeout_ms=group.in_force(SHARE_SESSION_TIMEOUT.group_key),
        heartbeat_interval_ms=group.in_force(SHARE_HEARTBEAT_INTERVAL.group_key),
        assignment_interval_ms=group.in_force(SHARE_ASSIGNMENT_INTERVAL.group_key),
        members_max=config.group_share_max_size,
        delivery_count_limit=group.in_force(DELIVERY_COUNT_LIMIT.group_key),
        record_lock_duration_ms=group.in_force(RECORD_LOCK_DURATION.group_key),
        partition_record_locks_max=group.in_force(PARTITION_RECORD_LOCKS.group_key),
        offset_reset=read_offset_reset(group.in_force(OFFSET_RESET)),
        is_read_committed=group.in_force(ISOLATION_LEVEL) == READ_COMMITTED,
        allows_renewal=group.in_force(RENEWAL),
        dead_letter_topic=group.in_force(DEAD_LETTER_TOPIC) or None,
        copies_dead_letters=group.in_force(DEAD_LETTER_COPIES),
    )
