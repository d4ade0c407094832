"""The keys of the share coordinator: defaults and bounds that Apache Kafka 4.4.0 takes and refuses (its jar says)."""

from __future__ import annotations

import pytest

from sordini.broker.configuration.config import build_config
from sordini.broker.configuration.keys.share_coordinator_keys import ShareCoordinatorSettings
from sordini.broker.configuration.settings import ConfigError, ValueKind, settings_of
from sordini.broker.share_state.state_topic import share_state_topic_spec

PREFIX = "share.coordinator."
DEFAULTS = {
    "cold.partition.snapshot.interval.ms": (ValueKind.INT, "300000"),
    "load.buffer.size": (ValueKind.INT, "5242880"),
    "snapshot.update.records.per.snapshot": (ValueKind.INT, "500"),
    "state.topic.compression.codec": (ValueKind.INT, "0"),
    "state.topic.min.isr": (ValueKind.SHORT, "2"),
    "state.topic.num.partitions": (ValueKind.INT, "50"),
    "state.topic.prune.interval.ms": (ValueKind.INT, "300000"),
    "state.topic.replication.factor": (ValueKind.SHORT, "3"),
    "state.topic.segment.bytes": (ValueKind.INT, "104857600"),
    "write.timeout.ms": (ValueKind.INT, "5000"),
}
LOWEST = dict.fromkeys(DEFAULTS, 1) | {"snapshot.update.records.per.snapshot": 0, "state.topic.compression.codec": 0}
HIGHEST = {"snapshot.update.records.per.snapshot": 500, "state.topic.compression.codec": 4}


def test_keys_types_and_defaults_are_those_of_apache_kafka() -> None:
    declared = {key: declared for key, (_, declared) in settings_of(ShareCoordinatorSettings).items()}
    found = {key.removeprefix(PREFIX): (one.rule.kind, one.default_text) for key, one in declared.items()}
    assert found == DEFAULTS


@pytest.mark.parametrize("name", sorted(LOWEST))
def test_the_lowest_value_is_taken_and_one_less_is_refused(name: str) -> None:
    _, unknown = build_config({PREFIX + name: str(LOWEST[name])})
    assert unknown == []
    with pytest.raises(ConfigError, match=PREFIX + name):
        build_config({PREFIX + name: str(LOWEST[name] - 1)})


@pytest.mark.parametrize("name", sorted(HIGHEST))
def test_the_highest_value_is_taken_and_one_more_is_refused(name: str) -> None:
    build_config({PREFIX + name: str(HIGHEST[name])})
    with pytest.raises(ConfigError, match=PREFIX + name):
        build_config({PREFIX + name: str(HIGHEST[name] + 1)})


def test_a_single_broker_makes_the_topic_with_one_replica_and_without_compaction() -> None:
    config, _ = build_config({})
    topic = share_state_topic_spec(config).creatable(brokers=1)
    settings = {row.name: row.value for row in topic.configs}
    assert (topic.name, topic.num_partitions, topic.replication_factor) == ("__share_group_state", 50, 1)
    assert settings == {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "min.insync.replicas": "1",
        "retention.ms": "-1",
        "segment.bytes": "104857600",
    }
