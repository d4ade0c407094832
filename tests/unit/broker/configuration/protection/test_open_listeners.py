"""Which listeners are open to the network."""

from __future__ import annotations

import pytest

from sordini.broker.configuration.config import build_config
from sordini.broker.configuration.protection.open_listeners import open_listeners
from sordini.broker.process.config_loading import log_open_listeners
from tests.support.fake_ports import ListLog

AUTHORIZER = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"}


def found(listeners: str, **others: str) -> list[str]:
    config, _ = build_config({"listeners": listeners, **others})
    return [str(one) for one in open_listeners(config)]


@pytest.mark.parametrize(
    "listener", ["PLAINTEXT://:9092", "PLAINTEXT://0.0.0.0:9092", "PLAINTEXT://192.0.2.1:9092", "PLAINTEXT://[::]:9092"]
)
def test_a_plaintext_listener_beyond_this_machine_is_open(listener: str) -> None:
    assert found(listener) == [listener]


@pytest.mark.parametrize(
    "listener",
    ["PLAINTEXT://localhost:9092", "PLAINTEXT://127.0.0.1:9092", "PLAINTEXT://127.8.0.1:1", "PLAINTEXT://[::1]:9"],
)
def test_a_listener_of_this_machine_is_not_open(listener: str) -> None:
    assert found(listener) == []


def test_no_listener_is_open_with_an_authorizer() -> None:
    config, _ = build_config({"listeners": "PLAINTEXT://:9092", **AUTHORIZER})
    assert open_listeners(config) == ()


def test_only_the_open_ones_of_several_listeners_are_named() -> None:
    config, _ = build_config(
        {
            "listeners": "LOCAL://127.0.0.1:9092,WORLD://:9093",
            "listener.security.protocol.map": "LOCAL:PLAINTEXT,WORLD:PLAINTEXT",
            "inter.broker.listener.name": "LOCAL",
        }
    )
    assert [str(one) for one in open_listeners(config)] == ["WORLD://:9093"]


PASSWORDS = {
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule "
    'required user_alice="x";',
}


def test_a_listener_with_logins_but_without_tls_is_open_too() -> None:
    listeners = "SASL_PLAINTEXT://:9092,PLAINTEXT://127.0.0.1:9093"
    assert found(listeners, **PASSWORDS) == ["SASL_PLAINTEXT://:9092"]


@pytest.mark.parametrize(
    ("listeners", "others", "said"),
    [
        ("PLAINTEXT://:9092", {}, "every client may read, write and administer, without TLS and without a login"),
        (
            "SASL_PLAINTEXT://:9092,PLAINTEXT://127.0.0.1:9093",
            PASSWORDS,
            "logins are sent without TLS, and every user may read, write and administer",
        ),
    ],
)
def test_the_start_says_in_one_loud_line_what_an_open_listener_means(
    listeners: str, others: dict[str, str], said: str
) -> None:
    config, _ = build_config({"listeners": listeners, **others})
    log = ListLog()
    log_open_listeners(config, log)
    ((event, fields),) = log.at("warning")
    assert event == f"OPEN TO THE NETWORK: {said}"
    assert fields["listeners"] == listeners.partition(",")[0]
    assert "--secure" in fields["remedy"]


def test_a_start_without_open_listeners_says_nothing() -> None:
    config, _ = build_config({"listeners": "PLAINTEXT://127.0.0.1:9092"})
    log = ListLog()
    log_open_listeners(config, log)
    assert log.lines == []
