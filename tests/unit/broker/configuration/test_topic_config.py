"""Topic configuration: overrides over broker settings over defaults, and where each value came from."""

from __future__ import annotations

import pytest

from sordini.broker.configuration.config import build_config
from sordini.broker.configuration.dynamic import ConfigSource, DynamicConfig
from sordini.broker.configuration.settings import ConfigError
from sordini.broker.configuration.topic_config import (
    TOPIC_SETTINGS,
    TopicConfig,
    check_topic_configs,
    unusable_overrides,
)


def a_topic(overrides: dict[str, str], broker: dict[str, str] | None = None) -> TopicConfig:
    config, _ = build_config(broker or {})
    return TopicConfig(DynamicConfig(config, frozenset(broker or {})), overrides)


def test_hours_of_the_broker_are_milliseconds_of_the_topic() -> None:
    topic = a_topic({})
    assert topic["retention.ms"] == 7 * 24 * 3_600_000
    assert topic.source("retention.ms") is ConfigSource.DEFAULT


def test_a_finer_broker_unit_goes_before_a_coarser_one() -> None:
    topic = a_topic({}, {"log.retention.hours": "1", "log.retention.minutes": "2"})
    assert topic["retention.ms"] == 120_000
    assert topic.source("retention.ms") is ConfigSource.STATIC_BROKER


def test_an_override_goes_before_the_broker_and_lists_it_as_a_synonym() -> None:
    topic = a_topic({"segment.bytes": "1000"}, {"log.segment.bytes": "2000"})
    assert topic["segment.bytes"] == 1000
    assert [(row.name, row.value, row.source) for row in topic.synonyms("segment.bytes")] == [
        ("segment.bytes", "1000", ConfigSource.TOPIC),
        ("log.segment.bytes", "2000", ConfigSource.STATIC_BROKER),
        ("log.segment.bytes", "1073741824", ConfigSource.DEFAULT),
    ]


def test_minus_one_hour_of_retention_keeps_records_forever() -> None:
    assert a_topic({}, {"log.retention.hours": "-1"})["retention.ms"] == -1


def test_an_unreadable_override_is_ignored() -> None:
    assert a_topic({"segment.bytes": "lots"})["segment.bytes"] == 1073741824


@pytest.mark.parametrize(
    ("configs", "named"),
    [
        ({"segmen.bytes": "1"}, "segmen.bytes"),
        ({"segment.bytes": "x"}, "whole number"),
        ({"segment.bytes": None}, "no value"),
        ({"remote.storage.enable": "true"}, "tiered"),
        ({"min.compaction.lag.ms": "100", "max.compaction.lag.ms": "50"}, "no more than max"),
        ({"leader.replication.throttled.replicas": "0:1,x"}, "partition:broker"),
        ({"message.format.version": "0.10"}, "a version"),
        ({"message.format.version": "5.0"}, "a version"),
    ],
)
def test_a_wrong_topic_configuration_is_refused(configs: dict[str, str | None], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        check_topic_configs(configs)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("message.format.version", "0.10.0"),
        ("message.format.version", "2.7-IV2"),
        ("message.format.version", "3.9.1"),
        ("leader.replication.throttled.replicas", "*"),
        ("leader.replication.throttled.replicas", "0:1, 12:3"),
        ("follower.replication.throttled.replicas", ""),
        ("cleanup.policy", "compact, delete"),
        ("max.compaction.lag.ms", "1"),
    ],
)
def test_a_right_topic_configuration_is_taken(key: str, text: str) -> None:
    check_topic_configs({key: text})


def test_an_unusable_override_is_reported_with_its_key_and_the_allowed_values() -> None:
    reported = unusable_overrides({"segment.bytes": "lots", "theirs": "hush", "retention.ms": "5"})
    assert [(entry.key, "hush" in entry.reason or "lots" in entry.reason) for entry in reported] == [
        ("segment.bytes", False),
        ("theirs", False),
    ]
    topic = a_topic({"segment.bytes": "lots", "retention.ms": "5"}, {"log.segment.bytes": "2000"})
    assert topic.source("segment.bytes") is ConfigSource.STATIC_BROKER
    assert topic.source("retention.ms") is ConfigSource.TOPIC


def test_every_topic_key_has_a_value_or_is_known_to_have_none() -> None:
    topic = a_topic({})
    assert {key for key in TOPIC_SETTINGS if topic[key] is None} == set()
