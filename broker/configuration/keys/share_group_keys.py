"""The keys of share groups (KIP-932), and those of their dead letters (KIP-1191).

Six values have bounds, which apply to the values that single groups have (`group_config.py`), too. Defaults and bounds
are those of Apache Kafka 4.4. Sessions, heartbeats and assignments have bounds that are bounded by 0 or 1 only, so
tests can have short intervals; a record lock lasts at least a second.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from sordini.broker.configuration.keys.bounded_values import BoundedValue, check_bounded
from sordini.broker.configuration.settings import ConfigError, ValueKind, ValueRule, boolean, integer, setting, string

SIMPLE: Final = "simple"
_CLASS: Final = "org.apache.kafka.coordinator.group.assignor.SimpleAssignor"


def _parse_assignor(text: str) -> str:
    if text not in (SIMPLE, _CLASS):
        raise ValueError(text)
    return SIMPLE


_assignor = ValueRule(ValueKind.LIST, f"{SIMPLE}: no other assignor is loaded", _parse_assignor)


@dataclasses.dataclass(frozen=True, init=False, repr=False, eq=False)
class ShareGroupSettings:
    """The settings of share groups."""

    group_share_session_timeout_ms: int = setting(
        "group.share.session.timeout.ms",
        integer(1),
        45000,
        "How long the coordinator of a share group waits for a member's heartbeat before it removes the member.",
    )
    group_share_min_session_timeout_ms: int = setting(
        "group.share.min.session.timeout.ms", integer(1), 45000, "Minimum session timeout of a share group."
    )
    group_share_max_session_timeout_ms: int = setting(
        "group.share.max.session.timeout.ms", integer(1), 60000, "Maximum session timeout of a share group."
    )
    group_share_heartbeat_interval_ms: int = setting(
        "group.share.heartbeat.interval.ms",
        integer(1),
        5000,
        "The heartbeat interval that members of a share group are sent.",
    )
    group_share_min_heartbeat_interval_ms: int = setting(
        "group.share.min.heartbeat.interval.ms", integer(1), 5000, "Minimum heartbeat interval of a share group."
    )
    group_share_max_heartbeat_interval_ms: int = setting(
        "group.share.max.heartbeat.interval.ms", integer(1), 15000, "Maximum heartbeat interval of a share group."
    )
    group_share_assignment_interval_ms: int = setting(
        "group.share.assignment.interval.ms",
        integer(0),
        1000,
        "Minimum time between two assignments of a share group; changes in between are assigned together.",
        dynamic=True,
    )
    group_share_min_assignment_interval_ms: int = setting(
        "group.share.min.assignment.interval.ms", integer(0), 0, "Minimum assignment interval of a share group."
    )
    group_share_max_assignment_interval_ms: int = setting(
        "group.share.max.assignment.interval.ms", integer(0), 15000, "Maximum assignment interval of a share group."
    )
    group_share_assignors: str = setting(
        "group.share.assignors", _assignor, SIMPLE, "The assignor of share groups, exactly one."
    )
    group_share_assignor_offload_enable: bool = setting(
        "group.share.assignor.offload.enable",
        boolean,
        True,
        "Whether an assignment that takes long is computed beside the event loop.",
        dynamic=True,
    )
    group_share_max_size: int = setting(
        "group.share.max.size", integer(1, 1000), 200, "Maximum members of a share group."
    )
    group_share_max_share_sessions: int = setting(
        "group.share.max.share.sessions", integer(1), 2000, "Maximum share sessions of a broker."
    )
    group_share_initialize_retry_interval_ms: int = setting(
        "group.share.initialize.retry.interval.ms",
        integer(1),
        30000,
        "How long the states of partitions that a share group begins with are being initialized before that is tried "
        "again.",
    )

    group_share_delivery_count_limit: int = setting(
        "group.share.delivery.count.limit", integer(2, 10), 5, "How often a record is delivered to a share group."
    )
    group_share_min_delivery_count_limit: int = setting(
        "group.share.min.delivery.count.limit", integer(2, 5), 2, "Minimum delivery count limit of a share group."
    )
    group_share_max_delivery_count_limit: int = setting(
        "group.share.max.delivery.count.limit", integer(5, 25), 10, "Maximum delivery count limit of a share group."
    )
    group_share_record_lock_duration_ms: int = setting(
        "group.share.record.lock.duration.ms",
        integer(1000, 3600000),
        30000,
        "How long a record that was delivered to a member of a share group is locked for it.",
    )
    group_share_min_record_lock_duration_ms: int = setting(
        "group.share.min.record.lock.duration.ms",
        integer(1000, 30000),
        15000,
        "Minimum record lock duration of a share group.",
    )
    group_share_max_record_lock_duration_ms: int = setting(
        "group.share.max.record.lock.duration.ms",
        integer(30000, 3600000),
        60000,
        "Maximum record lock duration of a share group.",
    )
    group_share_partition_max_record_locks: int = setting(
        "group.share.partition.max.record.locks",
        integer(100, 10000),
        2000,
        "How many records of a partition a share group has locked or not yet finished at a time.",
    )
    group_share_min_partition_max_record_locks: int = setting(
        "group.share.min.partition.max.record.locks",
        integer(100, 2000),
        100,
        "Minimum of a share group's record locks.",
    )
    group_share_max_partition_max_record_locks: int = setting(
        "group.share.max.partition.max.record.locks",
        integer(2000, 10000),
        4000,
        "Maximum of a share group's record locks.",
    )

    dead_letter_topics_are_created: bool = setting(
        "errors.deadletterqueue.auto.create.topics.enable",
        boolean,
        False,
        "Whether a dead-letter topic that a share group names, and which does not exist, is created.",
        dynamic=True,
    )
    dead_letter_topic_prefix: str = setting(
        "errors.deadletterqueue.topic.name.prefix",
        string,
        "dlq.",
        "How the names of dead-letter topics begin; empty allows all names.",
        dynamic=True,
    )


SHARE_SESSION_TIMEOUT: Final = BoundedValue("share", "session.timeout.ms")
SHARE_HEARTBEAT_INTERVAL: Final = BoundedValue("share", "heartbeat.interval.ms")
SHARE_ASSIGNMENT_INTERVAL: Final = BoundedValue("share", "assignment.interval.ms")
DELIVERY_COUNT_LIMIT: Final = BoundedValue("share", "delivery.count.limit")
RECORD_LOCK_DURATION: Final = BoundedValue("share", "record.lock.duration.ms")
PARTITION_RECORD_LOCKS: Final = BoundedValue("share", "partition.max.record.locks")
SHARE_BOUNDED: Final = (
    SHARE_SESSION_TIMEOUT,
    SHARE_HEARTBEAT_INTERVAL,
    SHARE_ASSIGNMENT_INTERVAL,
    DELIVERY_COUNT_LIMIT,
    RECORD_LOCK_DURATION,
    PARTITION_RECORD_LOCKS,
)


def check_share_groups(settings: ShareGroupSettings) -> None:
    """Raise ConfigError for values outside of their bounds, and for fewer sessions than one group has members."""
    check_bounded(settings, SHARE_BOUNDED, SHARE_SESSION_TIMEOUT, SHARE_HEARTBEAT_INTERVAL)
    sessions, members = settings.group_share_max_share_sessions, settings.group_share_max_size
    if sessions < members:
        raise ConfigError(
            f"group.share.max.share.sessions={sessions} is not valid: allowed is at least "
            f"group.share.max.size={members}"
        )
