"""One setting as DescribeConfigs returns it: its value, its sources, and what is hidden of it (KIP-226, KIP-569)."""

from __future__ import annotations

from collections.abc import Mapping

from sordini.broker.cluster.health_keys import MEANINGS
from sordini.broker.configuration.client_metrics_config import CLIENT_METRICS_SETTINGS, shown_value
from sordini.broker.configuration.config import SETTINGS, find_setting
from sordini.broker.configuration.dynamic import ConfigSource, Synonym
from sordini.broker.configuration.group_config import GROUP_SETTINGS, GroupConfig
from sordini.broker.configuration.keys.ignored_keys import WITHOUT_EFFECT
from sordini.broker.configuration.keys.listener_keys import LISTENER_PREFIX
from sordini.broker.configuration.protection.protection import find_protection
from sordini.broker.configuration.protection.protection_defaults import DEFAULTS
from sordini.broker.configuration.settings import Change, ValueKind, value_text
from sordini.broker.configuration.topic_config import TOPIC_SETTINGS, TopicConfig
from sordini.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsSynonym,
)
from sordini.system.named_tuple import NamedTuple

FAMILIES = (
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
)
"""Keys of one setting, the finest unit first, which takes precedence where it is set."""
FAMILY_OF = {key: family for family in FAMILIES for key in family}
NOT_SERVED = "Apache Kafka's, without effect here."


class DescribedSetting(NamedTuple):
    """One setting and its sources; the first synonym takes effect."""

    key: str
    value: str | None
    synonyms: list[Synonym]
    kind: ValueKind
    is_read_only: bool
    meaning: str
    is_hidden: bool = False
    """Whether a value of it came from a config provider."""


def of_condition(key: str, value: str | None) -> DescribedSetting:
    return DescribedSetting(key, value, [], ValueKind.STRING, True, MEANINGS[key])


def of_topic(topic: TopicConfig) -> list[DescribedSetting]:
    return [describe_topic_key(topic, key) for key in sorted(TOPIC_SETTINGS)]


def of_group(group: GroupConfig) -> list[DescribedSetting]:
    return [
        DescribedSetting(key, group.text(key), group.synonyms(key), declared.rule.kind, False, declared.meaning)
        for key, declared in sorted(GROUP_SETTINGS.items())
    ]


def of_client_metrics(own: Mapping[str, str]) -> list[DescribedSetting]:
    """All settings of a subscription, which need not exist."""
    rows = []
    for key, declared in sorted(CLIENT_METRICS_SETTINGS.items()):
        synonyms = []
        if key in own:
            synonyms.append(Synonym(key, shown_value(key, own[key]), ConfigSource.CLIENT_METRICS))
        synonyms.append(Synonym(key, declared.default_text, ConfigSource.DEFAULT))
        rows.append(DescribedSetting(key, synonyms[0].value, synonyms, declared.rule.kind, False, declared.meaning))
    return rows


def describe_entry(key: str, found: list[Synonym]) -> DescribedSetting:
    """An entry of a dynamic layer. An unknown one may be a secret."""
    declared = find_setting(key)
    is_of_listener = key.lower().startswith(LISTENER_PREFIX)  # Apache Kafka reports all of these as read only.
    if declared is not None:
        default = (
            []
            if key in SETTINGS or declared.default_text is None
            else [Synonym(declared.key, declared.default_text, ConfigSource.DEFAULT)]
        )
        is_read_only = is_of_listener or not declared.is_dynamic
        return DescribedSetting(
            key, found[0].value, found + default, declared.rule.kind, is_read_only, declared.meaning
        )
    protection = find_protection(key)
    if protection is not None:
        base = protection.key
        default = [Synonym(base, DEFAULTS[base], ConfigSource.DEFAULT)] if base in DEFAULTS else []
        is_read_only = is_of_listener or protection.change in (Change.NOWHERE, Change.LISTENER)
        return DescribedSetting(key, found[0].value, found + default, protection.rule.kind, is_read_only, NOT_SERVED)
    kind = ValueKind.STRING if key in WITHOUT_EFFECT else ValueKind.PASSWORD
    return DescribedSetting(key, found[0].value, found, kind, True, "Not a key of this broker.")


def describe_topic_key(topic: TopicConfig, key: str) -> DescribedSetting:
    """One topic setting."""
    declared = TOPIC_SETTINGS[key]
    return DescribedSetting(
        key, value_text(topic[key]), topic.synonyms(key), declared.rule.kind, False, declared.meaning
    )


def row_of(described: DescribedSetting, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    """One setting as a row of the response; the value of a secret is left out."""
    source = described.synonyms[0].source if described.synonyms else ConfigSource.DEFAULT
    is_secret = described.kind is ValueKind.PASSWORD or described.is_hidden
    synonyms = [
        DescribeConfigsSynonym(name=name, value=None if is_secret else value, source=where)
        for name, value, where in described.synonyms
    ]
    return DescribeConfigsResourceResult(
        name=described.key,
        value=None if is_secret else described.value,
        read_only=described.is_read_only,
        is_default=source is ConfigSource.DEFAULT,
        config_source=source,
        is_sensitive=is_secret,
        synonyms=synonyms if request.include_synonyms else [],
        config_type=described.kind,
        documentation=described.meaning if request.include_documentation else None,
    )
