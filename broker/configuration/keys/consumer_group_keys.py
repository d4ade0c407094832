"""The keys of groups whose coordinator assigns the partitions (KIP-848).

Session timeout, heartbeat interval and assignment interval have bounds, which apply to the values that single groups
have (`group_config.py`), too. The bounds themselves are bounded only by 0 or 1, so tests can have short intervals.
"""

from __future__ import annotations

import dataclasses
from enum import StrEnum
from typing import Final

from sordini.broker.configuration.keys.bounded_values import BoundedValue, check_bounded
from sordini.broker.configuration.settings import ValueKind, ValueRule, boolean, integer, setting

UNIFORM, RANGE = "uniform", "range"
_CLASSES: Final = {
    f"org.apache.kafka.coordinator.group.assignor.{name.title()}Assignor": name for name in (UNIFORM, RANGE)
}
"""Apache Kafka 3.9 has the classes of its assignors as the default."""


class MigrationPolicy(StrEnum):
    """Which conversions of groups with members are allowed; an empty group is always converted."""

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    DISABLED = "disabled"

    @property
    def allows_upgrade(self) -> bool:
        """Whether a classic group may become a consumer group."""
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE)

    @property
    def allows_downgrade(self) -> bool:
        """Whether a consumer group may become a classic group."""
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE)


def _parse_assignors(text: str) -> str:
    spelled = dict.fromkeys(part.strip() for part in text.split(","))
    found = [_CLASSES.get(part, part) for part in spelled]
    if not set(found) <= {UNIFORM, RANGE} or len(set(found)) != len(found):
        raise ValueError(text)
    return ",".join(found)


def _parse_protocols(text: str) -> str:
    spelled = dict.fromkeys(part.strip() for part in text.split(","))
    if "classic" not in spelled or not set(spelled) <= set(_PROTOCOLS):
        raise ValueError(text)
    return ",".join(spelled)


_PROTOCOLS: Final = ("classic", "consumer", "share", "streams")
_protocols = ValueRule(
    ValueKind.LIST,
    f"a comma-separated list of {', '.join(_PROTOCOLS)} that has classic; share and streams have no effect",
    _parse_protocols,
)
_assignors = ValueRule(
    ValueKind.LIST, f"a comma-separated list of {UNIFORM} and {RANGE}: no other assignors are loaded", _parse_assignors
)
_policy = ValueRule(
    ValueKind.STRING, "one of " + ", ".join(MigrationPolicy), lambda text: MigrationPolicy(text.lower())
)


@dataclasses.dataclass(frozen=True, init=False, repr=False, eq=False)
class ConsumerGroupSettings:
    """The settings of consumer groups. Defaults are those of Apache Kafka 4.4."""

    group_consumer_session_timeout_ms: int = setting(
        "group.consumer.session.timeout.ms",
        integer(1),
        45000,
        "How long the coordinator of a consumer group waits for a member's heartbeat before it removes the member.",
    )
    group_consumer_min_session_timeout_ms: int = setting(
        "group.consumer.min.session.timeout.ms", integer(1), 45000, "Minimum session timeout of a consumer group."
    )
    group_consumer_max_session_timeout_ms: int = setting(
        "group.consumer.max.session.timeout.ms", integer(1), 60000, "Maximum session timeout of a consumer group."
    )
    group_consumer_heartbeat_interval_ms: int = setting(
        "group.consumer.heartbeat.interval.ms",
        integer(1),
        5000,
        "The heartbeat interval that members of a consumer group are sent.",
    )
    group_consumer_min_heartbeat_interval_ms: int = setting(
        "group.consumer.min.heartbeat.interval.ms", integer(1), 5000, "Minimum heartbeat interval of a consumer group."
    )
    group_consumer_max_heartbeat_interval_ms: int = setting(
        "group.consumer.max.heartbeat.interval.ms", integer(1), 15000, "Maximum heartbeat interval of a consumer group."
    )
    group_consumer_assignment_interval_ms: int = setting(
        "group.consumer.assignment.interval.ms",
        integer(0),
        1000,
        "Minimum time between two assignments of a consumer group; changes in between are assigned together.",
        dynamic=True,
    )
    group_consumer_min_assignment_interval_ms: int = setting(
        "group.consumer.min.assignment.interval.ms", integer(0), 0, "Minimum assignment interval of a consumer group."
    )
    group_consumer_max_assignment_interval_ms: int = setting(
        "group.consumer.max.assignment.interval.ms",
        integer(0),
        15000,
        "Maximum assignment interval of a consumer group.",
    )
    group_consumer_assignors: str = setting(
        "group.consumer.assignors",
        _assignors,
        f"{UNIFORM},{RANGE}",
        "The assignors of consumer groups; the first one assigns where members request none.",
    )
    group_consumer_assignor_offload_enable: bool = setting(
        "group.consumer.assignor.offload.enable",
        boolean,
        True,
        "Whether an assignment that takes long is computed beside the event loop.",
        dynamic=True,
    )
    group_consumer_max_size: int = setting(
        "group.consumer.max.size", integer(1), 2147483647, "Maximum members of a consumer group."
    )
    group_consumer_migration_policy: MigrationPolicy = setting(  # noqa: RUF009 - a constant, as the others'
        "group.consumer.migration.policy",
        _policy,
        MigrationPolicy.BIDIRECTIONAL,
        "Which groups with members are converted: classic groups to consumer groups (upgrade), consumer groups to "
        "classic groups (downgrade), both (bidirectional) or none (disabled).",
    )
    group_consumer_regex_refresh_interval_ms: int = setting(
        "group.consumer.regex.refresh.interval.ms",
        integer(10000),
        600000,
        "How often the topics that match the regular expressions of a consumer group are determined again.",
    )

    group_coordinator_rebalance_protocols: str = setting(
        "group.coordinator.rebalance.protocols",
        _protocols,
        "classic,consumer,streams",
        "The protocols of groups. Without consumer, members with group.protocol=consumer are refused.",
    )

    @property
    def serves_consumer_groups(self) -> bool:
        """Whether members of the protocol of KIP-848 are served."""
        return "consumer" in self.group_coordinator_rebalance_protocols.split(",")

    @property
    def consumer_assignors(self) -> tuple[str, ...]:
        """The names of the assignors, the default first."""
        return tuple(self.group_consumer_assignors.split(","))


SESSION_TIMEOUT: Final = BoundedValue("consumer", "session.timeout.ms")
HEARTBEAT_INTERVAL: Final = BoundedValue("consumer", "heartbeat.interval.ms")
ASSIGNMENT_INTERVAL: Final = BoundedValue("consumer", "assignment.interval.ms")
BOUNDED: Final = (SESSION_TIMEOUT, HEARTBEAT_INTERVAL, ASSIGNMENT_INTERVAL)


def check_consumer_groups(settings: ConsumerGroupSettings) -> None:
    """Raise ConfigError for values outside of their bounds, and for a session that is no longer than a heartbeat."""
    check_bounded(settings, BOUNDED, SESSION_TIMEOUT, HEARTBEAT_INTERVAL)
