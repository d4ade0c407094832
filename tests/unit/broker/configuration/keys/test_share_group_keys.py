"""The keys of share groups: defaults, bounds and relations that Apache Kafka 4.4.0 takes and refuses (its jar says)."""

from __future__ import annotations

import pytest

from sordini.broker.configuration.config import Config, build_config
from sordini.broker.configuration.keys.share_group_keys import ShareGroupSettings
from sordini.broker.configuration.settings import ConfigError, ValueKind, settings_of

PREFIX = "group.share."
DEFAULTS = {
    "assignment.interval.ms": (ValueKind.INT, "1000"),
    "assignor.offload.enable": (ValueKind.BOOLEAN, "true"),
    "assignors": (ValueKind.LIST, "simple"),
    "delivery.count.limit": (ValueKind.INT, "5"),
    "heartbeat.interval.ms": (ValueKind.INT, "5000"),
    "initialize.retry.interval.ms": (ValueKind.INT, "30000"),
    "max.assignment.interval.ms": (ValueKind.INT, "15000"),
    "max.delivery.count.limit": (ValueKind.INT, "10"),
    "max.heartbeat.interval.ms": (ValueKind.INT, "15000"),
    "max.partition.max.record.locks": (ValueKind.INT, "4000"),
    "max.record.lock.duration.ms": (ValueKind.INT, "60000"),
    "max.session.timeout.ms": (ValueKind.INT, "60000"),
    "max.share.sessions": (ValueKind.INT, "2000"),
    "max.size": (ValueKind.INT, "200"),
    "min.assignment.interval.ms": (ValueKind.INT, "0"),
    "min.delivery.count.limit": (ValueKind.INT, "2"),
    "min.heartbeat.interval.ms": (ValueKind.INT, "5000"),
    "min.partition.max.record.locks": (ValueKind.INT, "100"),
    "min.record.lock.duration.ms": (ValueKind.INT, "15000"),
    "min.session.timeout.ms": (ValueKind.INT, "45000"),
    "partition.max.record.locks": (ValueKind.INT, "2000"),
    "record.lock.duration.ms": (ValueKind.INT, "30000"),
    "session.timeout.ms": (ValueKind.INT, "45000"),
    "errors.deadletterqueue.auto.create.topics.enable": (ValueKind.BOOLEAN, "false"),
    "errors.deadletterqueue.topic.name.prefix": (ValueKind.STRING, "dlq."),
}


def built(values: dict[str, str]) -> Config:
    config, unknown = build_config({PREFIX + name: text for name, text in values.items()})
    assert unknown == []
    return config


def test_keys_types_and_defaults_are_those_of_apache_kafka() -> None:
    declared = {key: declared for key, (_, declared) in settings_of(ShareGroupSettings).items()}
    found = {key.removeprefix(PREFIX): (one.rule.kind, one.default_text) for key, one in declared.items()}
    assert found == DEFAULTS


def test_what_apache_kafka_changes_at_run_time_changes_at_run_time() -> None:
    dynamic = {key for key, (_, declared) in settings_of(ShareGroupSettings).items() if declared.is_dynamic}
    assert dynamic == {
        PREFIX + "assignment.interval.ms",
        PREFIX + "assignor.offload.enable",
        "errors.deadletterqueue.auto.create.topics.enable",
        "errors.deadletterqueue.topic.name.prefix",
    }


@pytest.mark.parametrize(
    "values",
    [
        {"max.size": "1"},
        {"max.size": "1000"},
        {"max.share.sessions": "200"},
        {"delivery.count.limit": "10"},
        {"min.delivery.count.limit": "5"},
        {"max.delivery.count.limit": "25"},
        {"record.lock.duration.ms": "1000", "min.record.lock.duration.ms": "1000"},
        {"record.lock.duration.ms": "3600000", "max.record.lock.duration.ms": "3600000"},
        {"partition.max.record.locks": "10000", "max.partition.max.record.locks": "10000"},
        {"partition.max.record.locks": "100"},
        {"assignors": "simple"},
        {"assignors": "org.apache.kafka.coordinator.group.assignor.SimpleAssignor"},
        {"min.session.timeout.ms": "2", "session.timeout.ms": "5001"},
    ],
)
def test_values_within_their_bounds_are_accepted(values: dict[str, str]) -> None:
    built(values)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"max.size": "0"}, "from 1 to 1000"),
        ({"max.size": "1001"}, "from 1 to 1000"),
        ({"max.share.sessions": "199"}, "allowed is at least group.share.max.size=200"),
        ({"delivery.count.limit": "11"}, "from 2 to 10"),
        ({"min.delivery.count.limit": "6"}, "from 2 to 5"),
        ({"max.delivery.count.limit": "4"}, "from 5 to 25"),
        ({"delivery.count.limit": "2", "min.delivery.count.limit": "3"}, "group.share.min.delivery.count.limit=3"),
        ({"record.lock.duration.ms": "14999"}, "at least group.share.min.record.lock.duration.ms=15000"),
        ({"record.lock.duration.ms": "60001"}, "at most group.share.max.record.lock.duration.ms=60000"),
        ({"min.record.lock.duration.ms": "999"}, "from 1000 to 30000"),
        ({"max.record.lock.duration.ms": "29999"}, "from 30000 to 3600000"),
        ({"partition.max.record.locks": "4001"}, "at most group.share.max.partition.max.record.locks=4000"),
        ({"min.partition.max.record.locks": "2001"}, "from 100 to 2000"),
        ({"max.partition.max.record.locks": "1999"}, "from 2000 to 10000"),
        ({"assignors": "simple,simple"}, "no other assignor is loaded"),
        ({"assignors": "range"}, "no other assignor is loaded"),
        ({"assignors": ""}, "no other assignor is loaded"),
        ({"session.timeout.ms": "44999"}, "at least group.share.min.session.timeout.ms=45000"),
        ({"heartbeat.interval.ms": "15001"}, "at most group.share.max.heartbeat.interval.ms=15000"),
        ({"assignment.interval.ms": "15001"}, "at most group.share.max.assignment.interval.ms=15000"),
        ({"min.session.timeout.ms": "5000", "session.timeout.ms": "5000"}, "less than group.share.session.timeout.ms"),
    ],
)
def test_values_beyond_their_bounds_and_the_wrong_relations_refuse_the_start(
    values: dict[str, str], reason: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        built(values)
    assert reason in str(refused.value)
