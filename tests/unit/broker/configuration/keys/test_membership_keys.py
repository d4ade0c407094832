"""The keys of a broker's identity and of joining and leaving a cluster."""

from __future__ import annotations

import pytest

from sordini.broker.configuration.config import build_config
from sordini.broker.configuration.settings import ConfigError


def test_defaults_are_apache_kafkas() -> None:
    config, _ = build_config({})
    assert (config.broker_id, config.broker_id_generation_enable, config.reserved_broker_max_id) == (-1, True, 1000)
    assert (config.zookeeper_session_timeout_ms, config.zookeeper_connection_timeout_ms) == (18_000, None)
    assert (config.controlled_shutdown_enable, config.controlled_shutdown_max_retries) == (True, 3)
    assert (config.controlled_shutdown_retry_backoff_ms, config.controller_socket_timeout_ms) == (5_000, 30_000)
    assert config.broker_rack is None


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ({"broker.id.generation.enable": "false"}, "broker.id=-1 is not valid"),
        ({"broker.id": "1001"}, "up to reserved.broker.max.id=1000"),
        ({"broker.id": "6", "reserved.broker.max.id": "5"}, "up to reserved.broker.max.id=5"),
    ],
)
def test_a_number_that_could_be_given_out_to_another_broker_is_refused(entries: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        build_config(entries)


@pytest.mark.parametrize(
    "entries",
    [
        {"broker.id": "1000"},
        {"broker.id": "1001", "broker.id.generation.enable": "false"},
        {"broker.id": "0", "broker.id.generation.enable": "false"},
        {"broker.id": "-1", "reserved.broker.max.id": "5"},
    ],
)
def test_a_configured_broker_id_is_used(entries: dict[str, str]) -> None:
    assert build_config(entries)[0].broker_id == int(entries["broker.id"])


def test_the_inter_broker_listener_must_be_advertised() -> None:
    entries = {
        "listeners": "PLAINTEXT://:9092,OUT://:9093",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OUT:PLAINTEXT",
    }
    build_config(entries)
    with pytest.raises(ConfigError, match=r"security\.inter\.broker\.protocol.* from advertised\.listeners \(OUT\)"):
        build_config({**entries, "advertised.listeners": "OUT://h:9093"})
