"""Names in the environment become keys; a misspelt one is reported, and other variables are ignored."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.broker.configuration.config import SETTINGS
from sordini.broker.configuration.environment import environment_entries, key_of, unknown_names
from sordini.broker.configuration.keys.ignored_keys import WITHOUT_EFFECT
from sordini.broker.process.config_loading import read_entries


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("KAFKA_LOG_RETENTION_HOURS", "log.retention.hours"),
        ("SORDINI_LOG_RETENTION_HOURS", "log.retention.hours"),
        ("SORDINI_CREATE_PARTITIONS_MAX", "sordini.create.partitions.max"),
        ("SORDINI_SORDINI_CREATE_PARTITIONS_MAX", "sordini.create.partitions.max"),
        ("KAFKA_SORDINI_CREATE_PARTITIONS_MAX", "sordini.create.partitions.max"),
        ("KAFKA_CREATE_PARTITIONS_MAX", None),
        ("KAFKA_NUM_IO_THREADS", "num.io.threads"),
        ("KAFKA_LOG_RETENTION__HOURS", None),
        ("KAFKA_LOG_RETENTION___HOURS", None),
        ("KAFKA_log_retention_hours", None),
        ("LOG_RETENTION_HOURS", None),
        ("KAFKA_", None),
    ],
)
def test_a_name_stands_for_a_key_or_for_none(name: str, key: str | None) -> None:
    assert key_of(name) == key


@given(st.sampled_from(sorted(SETTINGS.keys() | WITHOUT_EFFECT)), st.sampled_from(["KAFKA_", "SORDINI_"]))
def test_every_key_has_a_name_by_the_rule(key: str, prefix: str) -> None:
    name = prefix + key.replace("_", "__").replace("-", "___").replace(".", "_").upper()
    assert environment_entries({name: "x"}) == {key: "x"}
    assert unknown_names({name: "x"}) == []


@pytest.mark.parametrize("turned", [False, True])
def test_ours_goes_before_theirs_however_they_are_ordered(turned: bool) -> None:
    variables = [("SORDINI_NUM_PARTITIONS", "2"), ("KAFKA_NUM_PARTITIONS", "3")]
    assert environment_entries(dict(reversed(variables) if turned else variables)) == {"num.partitions": "2"}


def test_a_variable_that_is_named_like_a_key_and_is_none_is_reported() -> None:
    environment = {"KAFKA_LOG_RETENTION_HUORS": "1", "KAFKA_CFG_LISTENERS": "x", "KAFKA_PROCES_ROLES": "broker"}
    assert unknown_names(environment) == sorted(environment)
    assert environment_entries(environment) == {}


@pytest.mark.parametrize(
    "name",
    [
        "KAFKA_HOME",
        "KAFKA_OPTS",
        "KAFKA_HEAP_OPTS",
        "KAFKA_JVM_PERFORMANCE_OPTS",
        "KAFKA_LOG4J_OPTS",
        "KAFKA_LOG4J_LOGGERS",
        "KAFKA_JMX_PORT",
        "KAFKA_VERSION",
        "KAFKA_PORT",
        "KAFKA_PORT_9092_TCP_ADDR",
        "KAFKA_SERVICE_HOST",
        "SORDINI_CHURN_STEPS",
        "SORDINI_HOME",
        "PATH",
    ],
)
def test_what_belongs_to_containers_and_scripts_is_passed_over_in_silence(name: str) -> None:
    assert unknown_names({name: "x"}) == []
    assert environment_entries({name: "x"}) == {}


def test_an_override_goes_before_the_environment() -> None:
    environment = {"KAFKA_NUM_PARTITIONS": "2", "KAFKA_BROKER_ID": "5"}
    assert read_entries(None, ["num.partitions=7"], environment) == {"num.partitions": "7", "broker.id": "5"}


def test_the_environment_goes_before_the_file(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("num.partitions=1\nbroker.id=4\n")
    found = read_entries(str(path), [], {"SORDINI_NUM_PARTITIONS": "2"})
    assert found == {"num.partitions": "2", "broker.id": "4"}
