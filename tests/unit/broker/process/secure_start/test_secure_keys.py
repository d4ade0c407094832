"""What --secure sets, what it refuses, and what it tells clients."""

from __future__ import annotations

import json
import re

import pytest

from sordini.broker.configuration.config import build_config
from sordini.broker.configuration.properties_file import read_properties
from sordini.broker.configuration.protection.open_listeners import open_listeners
from sordini.broker.configuration.settings import ConfigError
from sordini.broker.process.secure_launch import default_directory
from sordini.broker.process.secure_start.client_files import client_files, instructions
from sordini.broker.process.secure_start.secure_keys import check_secure, place_of, secured

FILES = {"broker.pem": "/s/broker.pem", "ca.pem": "/s/ca.pem"}
PASSWORD = "the-password-7"


def configured(entries: dict[str, str]) -> dict[str, str]:
    check_secure(entries)
    return secured(entries, place_of(entries).listener, FILES, PASSWORD)


def refused(entries: dict[str, str]) -> str:
    with pytest.raises(ConfigError) as error:
        configured(entries)
    return str(error.value)


def test_without_other_settings_it_makes_a_broker_that_authenticates_each_client() -> None:
    config, unknown = build_config(configured({}))
    assert unknown == []
    assert [str(one) for one in config.endpoints] == ["SASL_SSL://:9092"]
    assert config.inter_broker_listener == "SASL_SSL"
    assert config.authorizer_class_name
    assert config.super_user_principals == {"User:admin"}
    assert config.allow_everyone_if_no_acl_found is not True
    assert open_listeners(config) == ()


def test_listeners_of_another_name_and_loopback_ones_without_tls_are_taken() -> None:
    entries = {
        "listeners": "LOCAL://127.0.0.1:9092,OUT://0.0.0.0:9093",
        "listener.security.protocol.map": "LOCAL:PLAINTEXT,OUT:SASL_SSL",
        "advertised.listeners": "LOCAL://127.0.0.1:9092,OUT://broker.example:19093",
    }
    config, _ = build_config(configured(entries))
    assert config.inter_broker_listener == "OUT"
    place = place_of(entries)
    assert place.advertised == "broker.example:19093"
    assert set(place.hosts) == {"127.0.0.1", "broker.example"}


def test_the_certificate_has_the_hosts_of_addresses_by_rule() -> None:
    rules = "TUNNEL://tunnel.example:19093 sni=tunnel.example; HOST://[::1]:9093 from=127.0.0.0/8"
    entries = {
        "listeners": "SASL_SSL://:9093",
        "advertised.listeners": "SASL_SSL://broker.example:9093",
        "sordini.advertised.listeners.rules": rules,
    }
    assert place_of(entries).hosts == ("broker.example", "tunnel.example", "::1")
    assert len(build_config(configured(entries))[0].advertised_rules) == 2


@pytest.mark.parametrize(
    "listener",
    ["PLAINTEXT://:9092", "PLAINTEXT://0.0.0.0:9092", "SASL_PLAINTEXT://192.0.2.1:9092", "PLAINTEXT://[::]:9092"],
)
def test_a_listener_without_tls_beyond_this_machine_is_refused(listener: str) -> None:
    said = refused({"listeners": f"SASL_SSL://:9093,{listener}"})
    assert said.startswith(f"listeners={listener} is not valid with --secure")


def test_a_broker_without_a_listener_of_sasl_ssl_is_refused() -> None:
    assert "allowed is at least one of SASL_SSL" in refused({"listeners": "SSL://:9093"})


@pytest.mark.parametrize(
    "key",
    [
        "authorizer.class.name",
        "allow.everyone.if.no.acl.found",
        "ssl.keystore.location",
        "sasl.enabled.mechanisms",
        "inter.broker.listener.name",
        "listener.name.sasl_ssl.ssl.keystore.location",
        "listener.name.sasl_ssl.sasl.enabled.mechanisms",
        "listener.name.sasl_ssl.plain.sasl.jaas.config",
    ],
)
def test_a_key_that_it_sets_itself_is_refused_and_its_value_not_shown(key: str) -> None:
    said = refused({key: "planted-value"})
    assert said.startswith(f"{key} is not valid with --secure")
    assert "planted" not in said


def test_a_cluster_is_refused_with_the_page_that_says_how() -> None:
    assert "docs/security.md" in refused({"zookeeper.connect": "127.0.0.1:2181"})


def test_further_super_users_stay() -> None:
    config, _ = build_config(configured({"super.users": "User:root;User:CN=ops"}))
    assert config.super_user_principals == {"User:admin", "User:root", "User:CN=ops"}


def test_an_address_in_brackets_and_a_port_that_the_system_chooses_are_shown_as_such() -> None:
    assert place_of({"listeners": "SASL_SSL://[::1]:9092"}).advertised == "[::1]:9092"
    assert place_of({"listeners": "SASL_SSL://127.0.0.1:0"}).advertised == "127.0.0.1:PORT"


@pytest.mark.parametrize(
    ("entries", "directory"),
    [
        ({}, "data-secure"),
        ({"log.dir": "/var/lib/a/"}, "/var/lib/a-secure"),
        ({"log.dirs": " /var/a , /var/b", "log.dir": "/c"}, "/var/a-secure"),
    ],
)
def test_the_directory_stands_beside_the_first_log_directory(entries: dict[str, str], directory: str) -> None:
    assert default_directory(entries) == directory


def test_client_files_have_what_each_client_needs() -> None:
    found = client_files("broker.example:9092", "/s", PASSWORD)
    java = read_properties(found["client.properties"])
    assert java["sasl.jaas.config"].endswith(f'username="admin" password="{PASSWORD}";')
    assert read_properties(found["kcat.config"])["sasl.password"] == PASSWORD
    assert json.loads(found["spark.json"]) == {
        "kafka.bootstrap.servers": "broker.example:9092",
        **{f"kafka.{key}": value for key, value in java.items()},
    }


def test_the_words_name_all_clients_and_files_and_no_password() -> None:
    words = instructions("broker.example:9092", "/s")
    for needed in ("kafka-topics.sh", "kcat -F /s/kcat.config", "KafkaProducer(", "/s/spark.json", "SORDINI_BOOTSTRAP"):
        assert needed in words
    assert PASSWORD not in words
    assert all(re.search(r"[{}]", line) is None for line in words.splitlines())
