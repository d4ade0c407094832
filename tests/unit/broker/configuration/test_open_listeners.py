"""Which listeners are open to the network."""

from __future__ import annotations

import pytest

from sordini.broker.configuration.config import build_config
from sordini.broker.configuration.open_listeners import open_listeners

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
