"""Topic configuration: overrides over broker settings over defaults, and where each value came from."""

from __future__ import annotations

import pytest

from sordini.broker.config import build_config
from sordini.broker.settings import ConfigError
from sordini.broker.topic_config import TOPIC_SETTINGS, ConfigSource, TopicConfig, check_topic_configs


def a_topic(overrides: dict[str, str], broker: dict[str, str] | None = None) -> TopicConfig:
    config, _ = build_config(broker or {})
    return TopicConfig(config, frozenset(broker or {}), overrides)


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


def test_minus_one_hour_of_retention_keeps_for_ever() -> None:
    assert a_topic({}, {"log.retention.hours": "-1"})["retention.ms"] == -1


def test_an_override_nobody_can_read_is_passed_over() -> None:
    assert a_topic({"segment.bytes": "lots"})["segment.bytes"] == 1073741824


@pytest.mark.parametrize(
    ("configs", "named"),
    [
        ({"segmen.bytes": "1"}, "segmen.bytes"),
        ({"segment.bytes": "x"}, "whole number"),
        ({"segment.bytes": None}, "no value"),
        ({"remote.storage.enable": "true"}, "tiered"),
    ],
)
def test_a_wrong_topic_configuration_is_refused(configs: dict[str, str | None], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        check_topic_configs(configs)


def test_every_topic_key_has_a_value_or_is_known_to_have_none() -> None:
    topic = a_topic({})
    assert {key for key in TOPIC_SETTINGS if topic[key] is None} == set()
