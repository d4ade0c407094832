"""A group's settings: what is allowed, what is in force, and where it comes from."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.broker.configuration.config import Config, build_config
from sordini.broker.configuration.dynamic import ConfigSource, DynamicConfig
from sordini.broker.configuration.group_config import (
    GROUPS,
    GroupConfig,
    GroupTimings,
    check_group_config,
    group_entity,
    group_of,
)
from sordini.broker.configuration.group_configs import GroupConfigs
from sordini.broker.configuration.settings import ConfigError
from tests.support.fake_ports import ListLog

SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
ASSIGNMENT, OF_BROKERS = "consumer.assignment.interval.ms", "group.consumer.assignment.interval.ms"
DEFAULT = GroupTimings(45000, 5000, 1000)
SHORT = {
    "group.consumer.min.session.timeout.ms": "100",
    "group.consumer.min.heartbeat.interval.ms": "10",
    "group.consumer.max.heartbeat.interval.ms": "60000",
}


def a_config(**entries: str) -> DynamicConfig:
    return DynamicConfig(build_config(entries)[0], frozenset(entries))


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({SESSION: "44999"}, "from group.consumer.min.session.timeout.ms=45000 to"),
        ({SESSION: "60001"}, "to group.consumer.max.session.timeout.ms=60000"),
        ({SESSION: "0"}, "a whole number of at least 1"),
        ({SESSION: "many"}, "a whole number of at least 1"),
        ({HEARTBEAT: "4999"}, "from group.consumer.min.heartbeat.interval.ms=5000 to"),
        ({HEARTBEAT: "15001"}, "to group.consumer.max.heartbeat.interval.ms=15000"),
        ({ASSIGNMENT: "-1"}, "a whole number of at least 0"),
        ({ASSIGNMENT: "15001"}, "to group.consumer.max.assignment.interval.ms=15000"),
        ({"no.such.key": "1"}, "no.such.key is not a group configuration: allowed are consumer."),
        ({"share.session.timeout.ms": "44999"}, "from group.share.min.session.timeout.ms=45000 to"),
        ({"share.heartbeat.interval.ms": "15001"}, "to group.share.max.heartbeat.interval.ms=15000"),
        ({"share.assignment.interval.ms": "15001"}, "to group.share.max.assignment.interval.ms=15000"),
        ({"share.delivery.count.limit": "1"}, "a whole number of at least 2"),
        ({"share.delivery.count.limit": "11"}, "to group.share.max.delivery.count.limit=10"),
        ({"share.record.lock.duration.ms": "999"}, "a whole number of at least 1000"),
        ({"share.record.lock.duration.ms": "14999"}, "from group.share.min.record.lock.duration.ms=15000 to"),
        ({"share.partition.max.record.locks": "99"}, "a whole number of at least 100"),
        ({"share.partition.max.record.locks": "4001"}, "to group.share.max.partition.max.record.locks=4000"),
        ({"share.auto.offset.reset": "none"}, "latest, earliest, or by_duration:"),
        ({"share.isolation.level": "READ_COMMITTED"}, "one of read_committed, read_uncommitted"),
        ({"share.renew.acknowledge.enable": "yes"}, "true or false"),
        ({"streams.num.standby.replicas": "1"}, "which belongs to groups that are not served"),
        ({"errors.deadletterqueue.topic.name": "__x"}, "a topic's name that does not begin with __"),
        ({"errors.deadletterqueue.copy.record.enable": "1"}, "true or false"),
    ],
)
def test_settings_beyond_the_bounds_of_the_broker_and_unknown_ones_are_refused(
    settings: dict[str, str], reason: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        check_group_config(settings, Config())
    assert reason in str(refused.value)


def test_settings_within_the_bounds_are_allowed_and_the_bounds_themselves_are() -> None:
    for settings in ({SESSION: "45000", HEARTBEAT: "15000"}, {SESSION: "60000", HEARTBEAT: "5000"}, {ASSIGNMENT: "0"}):
        check_group_config(settings, Config())


@pytest.mark.parametrize("settings", [{SESSION: "4000"}, {SESSION: "200", HEARTBEAT: "200"}, {HEARTBEAT: "45000"}])
def test_a_session_must_be_longer_than_a_heartbeat_whichever_of_them_is_inherited(settings: dict[str, str]) -> None:
    broker = a_config(**SHORT).config
    with pytest.raises(ConfigError, match=r"allowed is more than consumer\.heartbeat\.interval\.ms="):
        check_group_config(settings, broker)
    check_group_config({SESSION: "4000", HEARTBEAT: "3999"}, broker)


def test_values_that_are_not_set_are_those_of_the_broker_and_follow_them() -> None:
    broker = a_config(**{"group.consumer.session.timeout.ms": "50000"})
    configs = GroupConfigs(broker, ListLog())
    configs.changed("groups/own", {HEARTBEAT: "6000"})
    assert configs.timings_of("other") == DEFAULT._replace(session_timeout_ms=50000)
    assert configs.timings_of("own") == GroupTimings(50000, 6000, 1000)
    broker.set_layer(ConfigSource.DYNAMIC_DEFAULT_BROKER, {OF_BROKERS: "3000"})
    assert configs.timings_of("other").assignment_interval_ms == 3000
    assert configs.timings_of("own") == GroupTimings(50000, 6000, 3000)


def test_a_value_that_the_bounds_have_left_is_the_nearest_within_them() -> None:
    """As in Apache Kafka 4.4.0, which describes such a value as it was set."""
    config = GroupConfig(
        a_config(**{"group.consumer.max.session.timeout.ms": "50000"}), {SESSION: "60000", HEARTBEAT: "1"}
    )
    assert config.timings == GroupTimings(50000, 5000, 1000)
    assert (config.text(SESSION), config.text(HEARTBEAT)) == ("60000", "1")


def test_an_interval_of_the_brokers_beyond_its_bounds_is_the_nearest_within_them_and_described_so() -> None:
    broker = a_config(**{"group.consumer.max.assignment.interval.ms": "2000"})
    broker.set_layer(ConfigSource.DYNAMIC_BROKER, {OF_BROKERS: "13000"})
    config = GroupConfig(broker, {})
    assert config.timings.assignment_interval_ms == 2000
    assert config.text(ASSIGNMENT) == "2000"
    assert [(row.value, row.source) for row in config.synonyms(ASSIGNMENT)] == [
        ("13000", ConfigSource.DYNAMIC_BROKER),
        ("1000", ConfigSource.DEFAULT),
    ]


def test_settings_that_another_tool_wrote_and_nothing_can_use_are_ignored_with_a_warning() -> None:
    log = ListLog()
    configs = GroupConfigs(a_config(), log)
    configs.changed("groups/g", {SESSION: "many", "streams.session.timeout.ms": "50000", HEARTBEAT: "6000"})
    assert configs.timings_of("g") == DEFAULT._replace(heartbeat_interval_ms=6000)
    assert configs.group_ids == ["g"]
    assert sum("setting ignored" in str(line) for line in log.lines) == 2


def test_a_group_without_settings_is_forgotten() -> None:
    configs = GroupConfigs(a_config(), ListLog())
    configs.changed("groups/g", {SESSION: "50000"})
    configs.changed("groups/g", {})
    configs.changed("groups/never", {})
    assert configs.group_ids == []
    assert configs.timings_of("g") == DEFAULT


@given(st.text(min_size=1))
def test_any_id_of_a_group_is_one_node_and_read_back(group_id: str) -> None:
    entity = group_entity(group_id)
    node = entity.removeprefix(GROUPS)
    assert "/" not in node
    assert "\0" not in node
    assert node not in ("", ".", "..")
    assert group_of(entity) == group_id


def test_ids_of_dots_are_no_relative_paths() -> None:
    assert [group_entity(name) for name in (".", "..", "...")] == ["groups/%2E", "groups/%2E%2E", "groups/..."]


@given(st.dictionaries(st.sampled_from((SESSION, HEARTBEAT, ASSIGNMENT)), st.integers(-1, 70000).map(str)))
def test_what_is_in_force_is_within_the_bounds_and_what_is_allowed_is_in_force(settings: dict[str, str]) -> None:
    broker = a_config(**SHORT)
    timings = GroupConfig(broker, settings).timings
    assert 100 <= timings.session_timeout_ms <= 60000
    assert 10 <= timings.heartbeat_interval_ms <= 60000
    assert 0 <= timings.assignment_interval_ms <= 15000
    try:
        check_group_config(settings, broker.config)
    except ConfigError:
        return
    by_key = dict(zip((SESSION, HEARTBEAT, ASSIGNMENT), timings, strict=True))
    assert {key: str(by_key[key]) for key in settings} == settings
