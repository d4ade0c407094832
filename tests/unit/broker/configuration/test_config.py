"""Configuration: every wrong value is refused with the key, the value and what is allowed."""

from __future__ import annotations

import dataclasses
import os

import pytest

from sordini.broker.configuration.config import SETTINGS, Config, build_config
from sordini.broker.configuration.properties_file import read_properties
from sordini.broker.configuration.settings import ConfigError, ValueKind, matching


def test_defaults_are_apache_kafkas_except_where_the_logs_are() -> None:
    config, unknown = build_config({})
    assert not unknown
    assert (config.log_segment_bytes, config.message_max_bytes, config.num_network_threads) == (1073741824, 1048588, 3)
    assert config.log_directories == ("data",)


@pytest.mark.parametrize(
    ("key", "text", "allowed"),
    [
        ("log.segment.bytes", "13", "at least 14"),
        ("num.network.threads", "0", "from 1 to 1024"),
        ("log.cleanup.policy", "shred", "compact, delete"),
        ("log.cleanup.policy", "delete,delete", "compact, delete"),
        ("auto.create.topics.enable", "yes", "true or false"),
        ("log.message.timestamp.type", "createtime", "CreateTime, LogAppendTime"),
        ("message.max.bytes", "1MB", "a whole number"),
        ("log.cleaner.min.cleanable.ratio", "1.5", "from 0.0 to 1.0"),
        ("log.cleaner.threads", "0", "at least 1"),
        ("log.cleaner.backoff.ms", "-1", "at least 0"),
        ("log.cleaner.io.max.bytes.per.second", "0", "at least 1.0"),
        ("log.cleaner.io.buffer.load.factor", "1.1", "from 0.1 to 1.0"),
        ("log.cleaner.dedupe.buffer.size", "1048576", "at least 1048577"),
        ("log.cleaner.threads", "200", "log.cleaner.dedupe.buffer.size=134217728"),
        ("listeners", "localhost:9092", "NAME://host:port"),
        ("listeners", "PLAINTEXT://a:1,PLAINTEXT://b:2", "once"),
        ("listeners", "PLAINTEXT://a:1,OTHER://b:2", "listener.security.protocol.map"),
        ("listeners", "SSL://a:1", "PLAINTEXT"),
        ("advertised.listeners", "PLAINTEXT://0.0.0.0:9092", "an address that clients can connect to"),
        ("advertised.listeners", "EXTERNAL://h:1", "listener.security.protocol.map"),
        ("sordini.advertised.host", "0.0.0.0", "an address that clients can connect to"),
        ("sordini.advertised.host", "::", "an address that clients can connect to"),
        ("sordini.advertised.host", "localhost:9092", "without a port"),
        ("sordini.advertised.host", "PLAINTEXT://localhost", "a name or an address"),
        ("listener.security.protocol.map", "A:B", "SASL_SSL"),
        ("inter.broker.listener.name", "INTERNAL", "a name from listeners"),
        ("max.connections.per.ip.overrides", "127.0.0.1", "address:count"),
    ],
)
def test_a_wrong_value_names_key_value_and_what_is_allowed(key: str, text: str, allowed: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        build_config({key: text})
    assert key in str(refusal.value)
    assert allowed in str(refusal.value)


@pytest.mark.parametrize("host", ["", "0.0.0.0", "[::]"])
@pytest.mark.parametrize(
    ("advertised", "expected"), [("", os.uname().nodename), ("localhost", "localhost"), ("::1", "::1")]
)
def test_a_listener_on_all_addresses_is_advertised_by_the_machines_name_or_the_host_that_is_set(
    host: str, advertised: str, expected: str
) -> None:
    config, _ = build_config({"listeners": f"PLAINTEXT://{host}:9092", "sordini.advertised.host": advertised})
    assert [(end.host, end.port) for end in config.advertised(config.endpoints)] == [(expected, 9092)]


def test_the_advertised_host_is_for_no_listener_with_an_address_of_its_own_and_for_no_advertised_listener() -> None:
    protocols = {"listener.security.protocol.map": "IN:PLAINTEXT,OUT:PLAINTEXT", "inter.broker.listener.name": "IN"}
    entries = {"listeners": "IN://10.0.0.1:1,OUT://:2", "sordini.advertised.host": "localhost", **protocols}
    config, _ = build_config(entries)
    assert [str(end) for end in config.advertised(config.endpoints)] == ["IN://10.0.0.1:1", "OUT://localhost:2"]
    config, _ = build_config({**entries, "advertised.listeners": "IN://a:1"})
    assert [str(end) for end in config.advertised(config.endpoints)] == ["IN://a:1"]


def test_the_value_of_an_invalid_password_is_hidden_in_the_error() -> None:
    rule = matching(r"\d+", "digits", ValueKind.PASSWORD)
    with pytest.raises(ConfigError) as refusal:
        rule.read("some.password", "hush")
    assert str(refusal.value) == "some.password=(hidden) is not valid: allowed is digits"


def test_an_unknown_key_is_named_and_disturbs_nothing() -> None:
    config, unknown = build_config({"log.segmet.bytes": "1", "broker.id": "7"})
    assert unknown == ["log.segmet.bytes"]
    assert config.broker_id == 7


def test_every_key_is_declared_once_with_one_line_of_meaning() -> None:
    assert len(SETTINGS) > 60
    for _, declared in SETTINGS.values():
        assert declared.meaning.endswith(".")
        assert "\n" not in declared.meaning


def test_an_ipv6_listener_keeps_its_address_and_its_brackets() -> None:
    config, _ = build_config({"listeners": "PLAINTEXT://[::1]:9092"})
    (endpoint,) = config.endpoints
    assert (endpoint.host, endpoint.port) == ("::1", 9092)
    assert str(endpoint) == "PLAINTEXT://[::1]:9092"


def test_several_listeners_each_have_a_name_and_a_protocol() -> None:
    config, _ = build_config(
        {
            "listeners": "PLAINTEXT://127.0.0.1:9092,EXTERNAL://127.0.0.1:9093",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,EXTERNAL:PLAINTEXT",
        }
    )
    assert [(end.name, end.protocol) for end in config.endpoints] == [
        ("PLAINTEXT", "PLAINTEXT"),
        ("EXTERNAL", "PLAINTEXT"),
    ]


def test_a_properties_file_has_comments_colons_and_continued_lines() -> None:
    text = "# a comment\n! another\nbroker.id = 3\nlog.dirs: a,\\\n  b\n\nempty=\n"
    assert read_properties(text) == {"broker.id": "3", "log.dirs": "a,b", "empty": ""}


def test_a_line_without_a_key_is_refused_with_its_number() -> None:
    with pytest.raises(ConfigError, match=r"^line 2 has no key; a line is key=value$"):
        read_properties("a=1\n=2\n")


def test_a_configuration_has_all_defaults_refuses_unknown_fields_and_equals_one_of_the_same_values() -> None:
    config = Config(num_partitions=7)
    assert config == Config(num_partitions=7) != Config()
    assert config.min_insync_replicas == 1
    assert dataclasses.replace(config, min_insync_replicas=2) == Config(num_partitions=7, min_insync_replicas=2)
    with pytest.raises(TypeError, match=r"Config has no field num_partition$"):
        Config(num_partition=7)
    with pytest.raises(ConfigError):
        dataclasses.replace(config, listeners="none")
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.num_partitions = 8  # type: ignore[misc]
