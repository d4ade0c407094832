"""Bounds of one listener's connections: its own keys precede the broker's, at the start and at run time."""

from __future__ import annotations

import pytest

from sordini.broker.configuration.config import Config, build_config
from sordini.broker.configuration.dynamic import ConfigSource, DynamicConfig
from sordini.broker.configuration.edits import Edit, Operation, edit_broker
from sordini.broker.configuration.settings import INT32_MAX, ConfigError
from sordini.broker.wiring.listeners import network_limits
from sordini.protocol.errors import BrokerError, ErrorCode

OF_BROKER, OF_ALL = ConfigSource.DYNAMIC_BROKER, ConfigSource.DYNAMIC_DEFAULT_BROKER
TWO = {
    "listeners": "CLIENTS://:1,BROKERS://:2",
    "listener.security.protocol.map": "CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT",
}
TWO |= {"inter.broker.listener.name": "BROKERS"}
COUNT, RATE = "max.connections", "max.connection.creation.rate"
OF_CLIENTS = "listener.name.clients."


def a_config(**entries: str) -> Config:
    return build_config(TWO | {key.replace("__", "."): text for key, text in entries.items()})[0]


def bounds(config: Config, name: str) -> tuple[int, int]:
    own = config.connections[name]
    return own.max_connections, own.max_connection_creation_rate


def test_a_listener_has_its_own_bounds_and_else_the_brokers() -> None:
    config, unknown = build_config(TWO | {COUNT: "100", RATE: "50", OF_CLIENTS + COUNT: "7", OF_CLIENTS + RATE: "3"})
    assert unknown == []
    assert (bounds(config, "CLIENTS"), bounds(config, "BROKERS")) == ((7, 3), (100, 50))
    assert (config.max_connections, config.max_connection_creation_rate) == (100, 50)
    limits, _ = network_limits(config, 1000)
    assert (limits.connections_max, limits.connections_by_listener) == (100, {"CLIENTS": 7, "BROKERS": 100})


def test_without_keys_there_is_no_bound() -> None:
    assert bounds(a_config(), "CLIENTS") == (INT32_MAX, INT32_MAX)


def test_a_longer_key_that_ends_alike_is_another_one() -> None:
    with pytest.raises(ConfigError, match=r"max\.connections\.per\.ip"):
        build_config(TWO | {OF_CLIENTS + "max.connections.per.ip": "7"})


@pytest.mark.parametrize(("key", "text"), [(COUNT, "-1"), (COUNT, "x"), (RATE, "0"), (RATE, ""), (COUNT, "2147483648")])
def test_a_wrong_value_refuses_the_start_and_is_refused_over_the_wire(key: str, text: str) -> None:
    with pytest.raises(ConfigError, match=f"{OF_CLIENTS}{key}"):
        build_config(TWO | {OF_CLIENTS + key: text})
    for is_default in (True, False):
        with pytest.raises(BrokerError) as refused:
            edit_broker({}, [Edit(OF_CLIENTS + key, Operation.SET, text)], is_default=is_default)
        assert refused.value.code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("key", [COUNT, RATE])
def test_bounds_are_changed_for_one_broker_and_for_all_and_each_precedes_what_is_below(key: str) -> None:
    dynamic = DynamicConfig(build_config(TWO | {OF_CLIENTS + key: "9", key: "1000"})[0])
    seen: list[Config] = []
    dynamic.on_change(seen.append)
    at = 0 if key == COUNT else 1
    for source, text, in_force in ((OF_ALL, "8", 8), (OF_BROKER, "7", 7), (OF_ALL, None, 7), (OF_BROKER, None, 9)):
        edit = Edit(OF_CLIENTS + key, Operation.DELETE if text is None else Operation.SET, text)
        entries = edit_broker(dynamic.entries(source), [edit], is_default=source is OF_ALL)
        dynamic.check(source, entries)
        assert dynamic.set_layer(source, entries) == []
        assert bounds(dynamic.config, "CLIENTS")[at] == in_force
        assert bounds(dynamic.config, "BROKERS")[at] == 1000
    assert len(seen) == 3


def test_a_bound_of_no_connections_is_refused_at_run_time_only_where_it_would_be_in_force() -> None:
    dynamic = DynamicConfig(a_config())
    for key in (COUNT, OF_CLIENTS + COUNT):
        for source in (OF_BROKER, OF_ALL):
            with pytest.raises(ConfigError, match=r"max\.connections=0 for the listener CLIENTS"):
                dynamic.check(source, {key: "0"})
    dynamic.check(OF_BROKER, {"listener.name.elsewhere.max.connections": "0"})
    dynamic.check(OF_BROKER, {COUNT: "0", OF_CLIENTS + COUNT: "1", "listener.name.brokers.max.connections": "1"})
    closed = DynamicConfig(build_config(TWO | {OF_CLIENTS + COUNT: "0"})[0])
    closed.check(OF_BROKER, {COUNT: "5"})


def test_a_bound_is_not_ignored_with_keys_of_security_that_do_not_go_together() -> None:
    with_sasl = {"listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,BROKERS:PLAINTEXT"}
    dynamic = DynamicConfig(build_config(TWO | with_sasl | {"sasl.enabled.mechanisms": "SCRAM-SHA-256"})[0])
    none = OF_CLIENTS + "sasl.enabled.mechanisms"
    ignored = dynamic.set_layer(OF_BROKER, {OF_CLIENTS + RATE: "5", none: ""})
    assert [entry.key for entry in ignored] == [none]
    assert bounds(dynamic.config, "CLIENTS")[1] == 5


def test_the_keys_of_a_listener_that_does_not_exist_are_reported() -> None:
    config, _ = build_config(TWO | {"listener.name.elsewhere.max.connections": "5"})
    assert config.keys_of_unknown_listeners == ["listener.name.elsewhere.max.connections"]
