"""A consumer group's configuration: its own settings before the broker's, within the broker's bounds (KIP-848).

    consumer.session.timeout.ms         inherits group.consumer.session.timeout.ms
    consumer.heartbeat.interval.ms               group.consumer.heartbeat.interval.ms
    consumer.assignment.interval.ms              group.consumer.assignment.interval.ms

A setting outside of the bounds is refused when it is changed. The bounds of a broker may be others at its next start:
then a value in force is the nearest one within them, as in Apache Kafka 4.4. Groups need not exist to have settings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, unquote

from sordini.broker.configuration.config import SETTINGS
from sordini.broker.configuration.dynamic import ConfigSource, DynamicConfig, IgnoredEntry, Synonym
from sordini.broker.configuration.keys.consumer_group_keys import (
    ASSIGNMENT_INTERVAL,
    BOUNDED,
    HEARTBEAT_INTERVAL,
    SESSION_TIMEOUT,
    BoundedInterval,
    ConsumerGroupSettings,
)
from sordini.broker.configuration.settings import ConfigError, ValueRule
from sordini.system.named_tuple import NamedTuple

GROUPS: Final = "groups/"
"""Where entity paths of groups begin."""
_OF_OTHER_GROUPS = re.compile(r"share\.[a-z.]+|streams\.[a-z.]+|errors\.deadletterqueue\.[a-z.]+")


class GroupSetting(NamedTuple):
    """One key of a group, and the interval of the broker that it inherits from."""

    key: str
    interval: BoundedInterval

    @property
    def rule(self) -> ValueRule:
        return SETTINGS[self.interval.key][1].rule

    @property
    def meaning(self) -> str:
        return SETTINGS[self.interval.key][1].meaning


GROUP_SETTINGS: Final = {
    declared.key: declared for declared in (GroupSetting(f"consumer.{interval.name}", interval) for interval in BOUNDED)
}


class GroupTimings(NamedTuple):
    """What the coordinator needs of a group's configuration."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int


def group_entity(group_id: str) -> str:
    """A group as config change notifications name it; escaped, since its id may be any text."""
    # No node is named `.` or `..`, and `quote` leaves dots as they are.
    return GROUPS + (group_id.replace(".", "%2E") if group_id in (".", "..") else quote(group_id, safe=""))


def group_of(entity_path: str) -> str:
    """The group's id; undoes `group_entity`."""
    return unquote(entity_path.removeprefix(GROUPS))


def check_group_config(overrides: Mapping[str, str], broker: ConsumerGroupSettings) -> None:
    """Raise ConfigError for a group's settings that are unknown or wrong, or beyond the bounds of this broker."""
    values = {interval: interval.value(broker) for interval in BOUNDED}
    for key, text in overrides.items():
        declared = GROUP_SETTINGS.get(key)
        if declared is None:
            served = ", ".join(GROUP_SETTINGS)
            reason = ", which belongs to groups that are not served" if _OF_OTHER_GROUPS.fullmatch(key) else ""
            raise ConfigError(f"{key} is not a group configuration{reason}: allowed are {served}")
        interval, value = declared.interval, declared.rule.read(key, text)
        least, most = interval.least(broker), interval.most(broker)
        if not least <= value <= most:
            raise ConfigError(
                f"{key}={text!r} is not valid: allowed is from {interval.least_key}={least} to "
                f"{interval.most_key}={most}"
            )
        values[interval] = value
    session_ms, heartbeat_ms = values[SESSION_TIMEOUT], values[HEARTBEAT_INTERVAL]
    if session_ms <= heartbeat_ms:
        raise ConfigError(
            f"consumer.session.timeout.ms={session_ms} is not valid: allowed is more than "
            f"consumer.heartbeat.interval.ms={heartbeat_ms}"
        )


def unusable_settings(overrides: Mapping[str, str]) -> list[IgnoredEntry]:
    """The settings of a group in the store that cannot be used, whatever the bounds, and why."""
    found = []
    for key, text in overrides.items():
        declared = GROUP_SETTINGS.get(key)
        if declared is None:
            found.append(IgnoredEntry(key, "unknown key"))
            continue
        try:
            declared.rule.read(key, text)
        except ConfigError:
            found.append(IgnoredEntry(key, f"allowed is {declared.rule.allowed}"))
    return found


class GroupConfig:
    """One group's resolved values. Settings that cannot be used (another tool wrote them) are ignored."""

    __slots__ = ("_broker", "_own", "overrides")

    def __init__(self, broker: DynamicConfig, overrides: Mapping[str, str]) -> None:
        self._broker = broker
        self.overrides = dict(overrides)
        useless = {entry.key for entry in unusable_settings(overrides)}
        self._own = {key: text for key, text in overrides.items() if key not in useless}

    @property
    def timings(self) -> GroupTimings:
        """The values in force now."""
        return GroupTimings(
            self._in_force(SESSION_TIMEOUT), self._in_force(HEARTBEAT_INTERVAL), self._in_force(ASSIGNMENT_INTERVAL)
        )

    def text(self, key: str) -> str:
        """The value as it is described: the group's own as it was set, or the one that is inherited."""
        return self._own.get(key) or str(self._in_force(GROUP_SETTINGS[key].interval))

    def synonyms(self, key: str) -> list[Synonym]:
        """Every source of a value, the one in force first (KIP-226)."""
        inherited = self._broker.synonyms([GROUP_SETTINGS[key].interval.key])
        if key in self._own:
            inherited.insert(0, Synonym(key, self._own[key], ConfigSource.GROUP))
        return inherited

    def _in_force(self, interval: BoundedInterval) -> int:
        broker, key = self._broker.config, f"consumer.{interval.name}"
        own = self._own.get(key)
        value = interval.value(broker) if own is None else GROUP_SETTINGS[key].rule.read(key, own)
        return int(min(max(value, interval.least(broker)), interval.most(broker)))
