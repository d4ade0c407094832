"""Subscriptions to metrics of clients by request: stored, described and listed, checked as by Apache Kafka 4.4."""

from __future__ import annotations

from typing import Any

import pytest

from sordini.broker.configuration.client_metrics_configs import SUBSCRIPTIONS_MAX, ClientMetricsConfigs
from sordini.broker.configuration.dynamic import ConfigSource
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.list_config_resources import ListConfigResourcesRequest
from sordini.replication.metadata_store import paths
from tests.support.fake_ports import ListLog
from tests.support.unit_broker import UnitBroker, a_broker
from tests.unit.broker.administration.test_configs_handlers import (
    DELETE,
    SET,
    alter,
    change,
    described,
    shown,
    stored,
)

CLIENT_METRICS = 16
APPEND, SUBTRACT = 2, 3
LAG = (CLIENT_METRICS, "lag")


def listed(broker: UnitBroker, version: int = 1) -> list[str]:
    answer: Any = broker.ask(
        ApiKey.LIST_CONFIG_RESOURCES, version, ListConfigResourcesRequest(resource_types=[16] if version else [])
    )
    assert answer.error_code == 0
    return [row.resource_name for row in answer.config_resources]


async def test_a_subscription_is_stored_described_listed_and_in_force_when_it_is_answered() -> None:
    async with a_broker() as broker:
        assert await change(broker, LAG, ("metrics", SET, "a.b, c,c"), ("interval.ms", SET, "5000")) == 0
        assert await stored(broker, "client-metrics/lag") == {"metrics": "a.b, c,c", "interval.ms": "5000"}
        (known,) = broker.parts.client_metrics.in_force
        assert (known.name, known.metrics, known.interval_ms, known.match) == ("lag", ("a.b", "c"), 5000, ())
        rows = described(broker, LAG)
        assert {key: shown(row)[:2] for key, row in rows.items()} == {
            "interval.ms": ("5000", ConfigSource.CLIENT_METRICS),
            "match": ("", ConfigSource.DEFAULT),
            "metrics": ("a.b,c", ConfigSource.CLIENT_METRICS),
        }
        assert listed(broker) == listed(broker, 0) == ["lag"]


async def test_lists_are_appended_to_and_subtracted_from() -> None:
    async with a_broker() as broker:
        await change(broker, LAG, ("match", SET, "client_id=a.*"), ("metrics", APPEND, "a"))
        assert (
            await change(broker, LAG, ("match", APPEND, "client_source_port=[0-9]+"), ("metrics", SUBTRACT, "a")) == 0
        )
        (known,) = broker.parts.client_metrics.in_force
        assert [selector for selector, _ in known.match] == ["client_id", "client_source_port"]
        assert known.metrics == ()


async def test_a_subscription_without_settings_is_gone() -> None:
    async with a_broker() as broker:
        await change(broker, LAG, ("metrics", SET, "*"))
        before = broker.parts.client_metrics.version
        assert await change(broker, LAG, ("metrics", DELETE, None)) == 0
        assert listed(broker) == []
        assert {row.config_source for row in described(broker, LAG).values()} == {ConfigSource.DEFAULT}
        assert broker.parts.client_metrics.version == before + 1


@pytest.mark.parametrize(
    ("key", "value", "code", "text"),
    [
        ("interval.ms", "99", "INVALID_REQUEST", "Invalid value 99 for interval.ms, interval must be between 100 and"),
        ("interval.ms", "3600001", "INVALID_REQUEST", "between 100 and 3600000 (1 hour)"),
        ("interval.ms", "soon", "INVALID_CONFIG", "Invalid value soon for configuration interval.ms"),
        ("period", "1", "INVALID_REQUEST", "Unknown client metrics configuration: period"),
        ("match", "client_id", "INVALID_CONFIG", "Illegal client matching pattern: client_id"),
        ("match", "client_id=", "INVALID_CONFIG", "Illegal client matching pattern: client_id="),
        ("match", "client_id=a=b", "INVALID_CONFIG", "Illegal client matching pattern: client_id=a=b"),
        ("match", "client_name=a", "INVALID_CONFIG", "Illegal client matching pattern: client_name=a"),
        ("match", "client_id=(", "INVALID_CONFIG", "Illegal client matching pattern: client_id=("),
        ("match", r"client_id=(a)\1", "INVALID_CONFIG", r"Illegal client matching pattern: client_id=(a)\1"),
        ("metrics", "a,,b", "INVALID_CONFIG", "Configuration 'metrics' values must not be empty."),
        ("metrics", ",".join(map(str, range(257))), "INVALID_CONFIG", "257 names"),
    ],
)
async def test_a_wrong_setting_is_refused_and_changes_nothing(key: str, value: str, code: str, text: str) -> None:
    async with a_broker() as broker:
        ((found, reason),) = await alter(broker, (LAG, [(key, SET, value)]))
        assert (ErrorCode(found).name, text in str(reason)) == (code, True), reason
        assert listed(broker) == []


@pytest.mark.parametrize("value", ["100", "3600000"])
async def test_the_bounds_of_the_interval_are_allowed(value: str) -> None:
    async with a_broker() as broker:
        assert await change(broker, LAG, ("interval.ms", SET, value)) == 0


async def test_a_subscription_needs_a_name() -> None:
    async with a_broker() as broker:
        (answer,) = await alter(broker, ((CLIENT_METRICS, ""), [("metrics", SET, "*")]))
        assert answer == (ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")


async def test_subscriptions_are_bounded_and_those_there_are_can_be_changed() -> None:
    async with a_broker() as broker:
        for number in range(SUBSCRIPTIONS_MAX):
            broker.parts.client_metrics.changed(f"client-metrics/s{number}", {"metrics": "*"})
        assert await change(broker, LAG, ("metrics", SET, "*")) == ErrorCode.POLICY_VIOLATION
        assert await change(broker, (CLIENT_METRICS, "s0"), ("metrics", SET, "a")) == 0


async def test_subscriptions_are_read_again_after_a_restart_whatever_their_names_are() -> None:
    async with a_broker() as broker:
        for name in (".", "..", "a/b", "ä b"):
            assert await change(broker, (CLIENT_METRICS, name), ("metrics", SET, "*")) == 0
        again = ClientMetricsConfigs(broker.log)
        await again.load(broker.session)
        assert again.names == sorted([".", "..", "a/b", "ä b"])
        await broker.session.delete(paths.config("client-metrics/a%2Fb"))
        await again.load(broker.session)
        assert again.names == sorted([".", "..", "ä b"])


def test_a_subscription_in_the_store_that_cannot_be_used_is_ignored_with_a_warning() -> None:
    log = ListLog()
    configs = ClientMetricsConfigs(log)
    configs.changed("client-metrics/lag", {"interval.ms": "1"})
    assert (configs.names, configs.in_force) == (["lag"], [])
    assert "subscription to client metrics ignored" in str(log.lines)


def test_a_notification_without_a_change_is_no_new_version() -> None:
    configs = ClientMetricsConfigs(ListLog())
    configs.changed("client-metrics/lag", {"metrics": "*"})
    configs.changed("client-metrics/lag", {"metrics": "*"})
    assert configs.version == 1
