"""A group's configuration: its own settings before the broker's, within the broker's bounds (KIP-848, KIP-932).

    consumer.session.timeout.ms          inherits group.consumer.session.timeout.ms
    consumer.heartbeat.interval.ms                group.consumer.heartbeat.interval.ms
    share.record.lock.duration.ms                 group.share.record.lock.duration.ms
    share.auto.offset.reset              has a default, and no key of brokers
    ...

A setting outside of the bounds is refused when it is changed. The bounds of a broker may be others at its next start:
then a value in force is the nearest one within them, as in Apache Kafka 4.4. Groups need not exist to have settings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, unquote

from sordini.broker.configuration.config import SETTINGS
from sordini.broker.configuration.dynamic import ConfigSource, DynamicConfig, IgnoredEntry, Synonym
from sordini.broker.configuration.keys import consumer_group_keys as consumer_keys
from sordini.broker.configuration.keys import share_group_keys as share_keys
from sordini.broker.configuration.keys.bounded_values import BoundedValue
from sordini.broker.configuration.offset_reset import offset_reset
from sordini.broker.configuration.settings import (
    ConfigError,
    ValueKind,
    ValueRule,
    boolean,
    integer,
    one_of,
    value_text,
)
from sordini.system.named_tuple import NamedTuple

GROUPS: Final = "groups/"
"""Where entity paths of groups begin."""
_OF_OTHER_GROUPS = re.compile(r"streams\.[a-z.]+")

OFFSET_RESET: Final = "share.auto.offset.reset"
ISOLATION_LEVEL: Final = "share.isolation.level"
RENEWAL: Final = "share.renew.acknowledge.enable"
DEAD_LETTER_TOPIC: Final = "errors.deadletterqueue.topic.name"
DEAD_LETTER_COPIES: Final = "errors.deadletterqueue.copy.record.enable"

READ_UNCOMMITTED, READ_COMMITTED = "read_uncommitted", "read_committed"


class GroupSetting(NamedTuple):
    """One key of a group. It inherits a bounded value of the broker, or has a default of its own."""

    key: str
    rule: ValueRule
    meaning: str
    bounded: BoundedValue | None = None
    default: Any = None

    def inherited(self, broker: object) -> Any:
        """The value where a group has none; `broker` has the broker's settings."""
        return self.default if self.bounded is None else self.bounded.value(broker)


def _of_broker(bounded: BoundedValue, rule: ValueRule | None = None) -> GroupSetting:
    inherited = SETTINGS[bounded.key][1]
    return GroupSetting(bounded.group_key, rule or inherited.rule, inherited.meaning, bounded)


def _parse_topic_name(text: str) -> str:
    if text.startswith("__"):
        raise ValueError(text)
    return text


_dead_letter_topic = ValueRule(ValueKind.STRING, "a topic's name that does not begin with __", _parse_topic_name)
_AT_LEAST: Final = {
    share_keys.DELIVERY_COUNT_LIMIT: integer(2),
    share_keys.RECORD_LOCK_DURATION: integer(1000),
    share_keys.PARTITION_RECORD_LOCKS: integer(100),
}
"""Where the rule of the broker's own value has a maximum, which is not that of groups."""
_DECLARED: Final = (
    *(_of_broker(bounded) for bounded in consumer_keys.BOUNDED),
    *(_of_broker(bounded, _AT_LEAST.get(bounded)) for bounded in share_keys.SHARE_BOUNDED),
    GroupSetting(
        OFFSET_RESET, offset_reset, "Where a share group begins to read a partition that is new to it.", None, "latest"
    ),
    GroupSetting(
        ISOLATION_LEVEL,
        one_of(READ_COMMITTED, READ_UNCOMMITTED),
        "Whether members of a share group are delivered records of transactions that are aborted or open.",
        None,
        READ_UNCOMMITTED,
    ),
    GroupSetting(RENEWAL, boolean, "Whether members of a share group may renew record locks.", None, True),
    GroupSetting(
        DEAD_LETTER_TOPIC,
        _dead_letter_topic,
        "The topic of a share group's dead letters: records that were rejected or delivered too often. Empty: none.",
        None,
        "",
    ),
    GroupSetting(
        DEAD_LETTER_COPIES,
        boolean,
        "Whether a dead letter has the key and the value of the record, or only headers that name it.",
        None,
        False,
    ),
)
GROUP_SETTINGS: Final = {declared.key: declared for declared in _DECLARED}
_SESSIONS: Final = (
    (consumer_keys.SESSION_TIMEOUT, consumer_keys.HEARTBEAT_INTERVAL),
    (share_keys.SHARE_SESSION_TIMEOUT, share_keys.SHARE_HEARTBEAT_INTERVAL),
)


class GroupTimings(NamedTuple):
    """What the coordinator needs of a consumer group's configuration."""

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


def check_group_config(overrides: Mapping[str, str], broker: object) -> None:
    """Raise ConfigError for a group's settings that are unknown or wrong, or beyond the bounds of this broker."""
    values = {bounded: bounded.value(broker) for pair in _SESSIONS for bounded in pair}
    for key, text in overrides.items():
        declared = GROUP_SETTINGS.get(key)
        if declared is None:
            served = ", ".join(GROUP_SETTINGS)
            reason = ", which belongs to groups that are not served" if _OF_OTHER_GROUPS.fullmatch(key) else ""
            raise ConfigError(f"{key} is not a group configuration{reason}: allowed are {served}")
        bounded, value = declared.bounded, declared.rule.read(key, text)
        if bounded is None:
            continue
        least, most = bounded.least(broker), bounded.most(broker)
        if not least <= value <= most:
            raise ConfigError(
                f"{key}={text!r} is not valid: allowed is from {bounded.least_key}={least} to {bounded.most_key}={most}"
            )
        values[bounded] = value
    for session, heartbeat in _SESSIONS:
        if values[session] <= values[heartbeat]:
            raise ConfigError(
                f"{session.group_key}={values[session]} is not valid: allowed is more than "
                f"{heartbeat.group_key}={values[heartbeat]}"
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
        """The values of a consumer group that are in force now."""
        return GroupTimings(*(self.in_force(bounded.group_key) for bounded in consumer_keys.BOUNDED))

    def text(self, key: str) -> str:
        """The value as it is described: the group's own as it was set, or the one that is inherited."""
        own = self._own.get(key)
        return own if own is not None else value_text(self.in_force(key)) or ""

    def synonyms(self, key: str) -> list[Synonym]:
        """Every source of a value, the one in force first (KIP-226)."""
        declared = GROUP_SETTINGS[key]
        if declared.bounded is None:
            inherited = [Synonym(key, value_text(declared.default), ConfigSource.DEFAULT)]
        else:
            inherited = self._broker.synonyms([declared.bounded.key])
        if key in self._own:
            inherited.insert(0, Synonym(key, self._own[key], ConfigSource.GROUP))
        return inherited

    def in_force(self, key: str) -> Any:
        """The value of a key now."""
        declared, broker = GROUP_SETTINGS[key], self._broker.config
        own = self._own.get(key)
        value = declared.inherited(broker) if own is None else declared.rule.read(key, own)
        bounded = declared.bounded
        return value if bounded is None else min(max(value, bounded.least(broker)), bounded.most(broker))
