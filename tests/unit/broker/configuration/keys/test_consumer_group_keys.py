"""The keys of consumer groups: defaults, values and relations that Apache Kafka 4.4.0 takes and refuses (its jar says)."""

from __future__ import annotations

import pytest

from sordini.broker.configuration.config import SETTINGS, Config, build_config
from sordini.broker.configuration.dynamic import ConfigSource, DynamicConfig
from sordini.broker.configuration.keys.consumer_group_keys import ConsumerGroupSettings, MigrationPolicy
from sordini.broker.configuration.settings import ConfigError, ValueKind, settings_of

PREFIX = "group.consumer."
CLASSES = "org.apache.kafka.coordinator.group.assignor."

DEFAULTS = {
    "assignment.interval.ms": (ValueKind.INT, "1000"),
    "assignor.offload.enable": (ValueKind.BOOLEAN, "true"),
    "assignors": (ValueKind.LIST, "uniform,range"),
    "heartbeat.interval.ms": (ValueKind.INT, "5000"),
    "max.assignment.interval.ms": (ValueKind.INT, "15000"),
    "max.heartbeat.interval.ms": (ValueKind.INT, "15000"),
    "max.session.timeout.ms": (ValueKind.INT, "60000"),
    "max.size": (ValueKind.INT, "2147483647"),
    "migration.policy": (ValueKind.STRING, "bidirectional"),
    "min.assignment.interval.ms": (ValueKind.INT, "0"),
    "min.heartbeat.interval.ms": (ValueKind.INT, "5000"),
    "min.session.timeout.ms": (ValueKind.INT, "45000"),
    "regex.refresh.interval.ms": (ValueKind.INT, "600000"),
    "session.timeout.ms": (ValueKind.INT, "45000"),
    "group.coordinator.rebalance.protocols": (ValueKind.LIST, "classic,consumer,streams"),
}


def built(**values: str) -> Config:
    """`max__size` stands for `group.consumer.max.size`."""
    config, unknown = build_config({PREFIX + name.replace("__", "."): text for name, text in values.items()})
    assert unknown == []
    return config


def test_keys_types_and_defaults_are_those_of_apache_kafka() -> None:
    declared = {key: declared for key, (_, declared) in settings_of(ConsumerGroupSettings).items()}
    found = {key.removeprefix(PREFIX): (one.rule.kind, one.default_text) for key, one in declared.items()}
    assert found == DEFAULTS


def test_only_the_assignment_interval_and_the_offload_change_at_run_time() -> None:
    dynamic = {key for key, (_, declared) in settings_of(ConsumerGroupSettings).items() if declared.is_dynamic}
    assert dynamic == {PREFIX + "assignment.interval.ms", PREFIX + "assignor.offload.enable"}


@pytest.mark.parametrize(
    "values",
    [
        {"max__heartbeat__interval__ms": "5000"},
        {"max__heartbeat__interval__ms": "45000"},
        {"min__session__timeout__ms": "1", "session__timeout__ms": "5001"},
        {"min__session__timeout__ms": "1", "min__heartbeat__interval__ms": "1"},
        {"min__session__timeout__ms": "15000"},
        {"min__assignment__interval__ms": "1000", "max__assignment__interval__ms": "1000"},
        {"assignment__interval__ms": "0"},
        {"regex__refresh__interval__ms": "10000"},
        {"max__size": "1"},
        {"assignor__offload__enable": "FALSE"},
    ],
)
def test_a_value_that_apache_kafka_takes_is_taken(values: dict[str, str]) -> None:
    config = built(**values)
    for name, text in values.items():
        field = "group_consumer_" + name.replace("__", "_")
        assert str(getattr(config, field)).lower() == text.lower()


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"heartbeat__interval__ms": "4999"}, "allowed is at least group.consumer.min.heartbeat.interval.ms=5000"),
        ({"heartbeat__interval__ms": "15001"}, "allowed is at most group.consumer.max.heartbeat.interval.ms=15000"),
        ({"heartbeat__interval__ms": "0"}, "allowed is a whole number of at least 1"),
        ({"min__heartbeat__interval__ms": "6000"}, "allowed is at least group.consumer.min.heartbeat.interval.ms=6000"),
        ({"max__heartbeat__interval__ms": "4000"}, "allowed is at least group.consumer.min.heartbeat.interval.ms=5000"),
        ({"session__timeout__ms": "44999"}, "allowed is at least group.consumer.min.session.timeout.ms=45000"),
        ({"session__timeout__ms": "60001"}, "allowed is at most group.consumer.max.session.timeout.ms=60000"),
        ({"min__session__timeout__ms": "61000"}, "allowed is at least group.consumer.min.session.timeout.ms=61000"),
        ({"max__session__timeout__ms": "40000"}, "allowed is at least group.consumer.min.session.timeout.ms=45000"),
        (
            {"min__session__timeout__ms": "1", "session__timeout__ms": "5000"},
            "heartbeat.interval.ms=5000 is not valid: allowed is less than group.consumer.session.timeout.ms=5000",
        ),
        ({"assignment__interval__ms": "15001"}, "allowed is at most group.consumer.max.assignment.interval.ms=15000"),
        ({"min__assignment__interval__ms": "2000"}, "at least group.consumer.min.assignment.interval.ms=2000"),
        ({"max__assignment__interval__ms": "500"}, "at most group.consumer.max.assignment.interval.ms=500"),
        ({"assignment__interval__ms": "-1"}, "allowed is a whole number of at least 0"),
        ({"regex__refresh__interval__ms": "9999"}, "allowed is a whole number of at least 10000"),
        ({"max__size": "0"}, "allowed is a whole number of at least 1"),
        ({"max__size": "2147483648"}, "allowed is a whole number of at least 1"),
        ({"assignors": ""}, "no other assignors are loaded"),
        ({"assignors": "Uniform"}, "no other assignors are loaded"),
        ({"assignors": "com.example.Mine"}, "no other assignors are loaded"),
        ({"assignors": f"range,{CLASSES}RangeAssignor"}, "no other assignors are loaded"),
        ({"migration__policy": "both"}, "allowed is one of bidirectional, upgrade, downgrade, disabled"),
        ({"migration__policy": ""}, "allowed is one of bidirectional, upgrade, downgrade, disabled"),
        ({"assignor__offload__enable": "yes"}, "allowed is true or false"),
    ],
)
def test_a_value_that_apache_kafka_refuses_prevents_the_start_and_the_text_says_what_is_allowed(
    values: dict[str, str], reason: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        built(**values)
    assert reason in str(refused.value)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("uniform", ("uniform",)),
        (" range , uniform ", ("range", "uniform")),
        ("uniform,uniform", ("uniform",)),
        (f"{CLASSES}UniformAssignor,{CLASSES}RangeAssignor", ("uniform", "range")),
    ],
)
def test_assignors_are_named_by_their_names_or_by_apache_kafkas_classes(text: str, names: tuple[str, ...]) -> None:
    assert built(assignors=text).consumer_assignors == names


@pytest.mark.parametrize(
    ("text", "upgrade", "downgrade"),
    [
        ("Bidirectional", True, True),
        ("UPGRADE", True, False),
        ("downgrade", False, True),
        ("disabled", False, False),
    ],
)
def test_a_migration_policy_is_read_in_any_case(text: str, *, upgrade: bool, downgrade: bool) -> None:
    policy = built(migration__policy=text).group_consumer_migration_policy
    assert isinstance(policy, MigrationPolicy)
    assert (policy.allows_upgrade, policy.allows_downgrade) == (upgrade, downgrade)


@pytest.mark.parametrize(
    ("text", "is_served"), [("classic", False), ("consumer, classic", True), ("classic,share", False)]
)
def test_the_protocols_of_groups_are_a_list_with_classic(text: str, *, is_served: bool) -> None:
    config, _ = build_config({"group.coordinator.rebalance.protocols": text})
    assert config.serves_consumer_groups is is_served


@pytest.mark.parametrize("text", ["consumer", "", "classic,newest"])
def test_protocols_of_groups_without_classic_or_of_another_name_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="list of classic, consumer, share, streams that has classic"):
        build_config({"group.coordinator.rebalance.protocols": text})


def test_an_assignment_interval_beyond_its_bounds_is_refused_while_the_broker_runs() -> None:
    dynamic = DynamicConfig(Config())
    key, layer = PREFIX + "assignment.interval.ms", ConfigSource.DYNAMIC_DEFAULT_BROKER
    dynamic.check(layer, {key: "15000"})
    with pytest.raises(ConfigError, match=r"allowed is at most group\.consumer\.max\.assignment\.interval\.ms=15000"):
        dynamic.check(layer, {key: "15001"})


def test_every_bound_is_a_key_with_its_own_field() -> None:
    for key in settings_of(ConsumerGroupSettings):
        assert SETTINGS[key][0] == key.replace(".", "_")
