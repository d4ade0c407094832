"""Settings of groups by request: stored, described and listed, in force at once, and read again after a restart."""

from __future__ import annotations

from typing import Any

import pytest

from sordini.broker.configuration.dynamic import ConfigSource
from sordini.broker.configuration.group_config import GROUP_SETTINGS, GroupTimings
from sordini.broker.configuration.group_configs import GROUPS_MAX, GroupConfigs
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from sordini.protocol.messages.list_config_resources import ListConfigResourcesRequest
from sordini.replication.metadata_store import paths
from tests.support.unit_broker import UnitBroker, a_broker
from tests.unit.broker.administration.test_configs_handlers import (
    DELETE,
    GROUP,
    SET,
    alter,
    change,
    described,
    replace,
    shown,
    stored,
)

SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
ASSIGNMENT, OF_BROKERS = "consumer.assignment.interval.ms", "group.consumer.assignment.interval.ms"
BILLING = (GROUP, "billing")
DEFAULT = GroupTimings(45000, 5000, 1000)


def listed(broker: UnitBroker, version: int = 1) -> list[str]:
    answer: Any = broker.ask(
        ApiKey.LIST_CONFIG_RESOURCES, version, ListConfigResourcesRequest(resource_types=[GROUP] if version else [])
    )
    assert answer.error_code == 0
    return [row.resource_name for row in answer.config_resources]


async def test_a_change_is_stored_described_listed_and_in_force_when_it_is_answered() -> None:
    async with a_broker() as broker:
        assert await change(broker, BILLING, (SESSION, SET, "50000"), (HEARTBEAT, SET, " 6000 ")) == 0
        assert await stored(broker, "groups/billing") == {SESSION: "50000", HEARTBEAT: "6000"}
        assert broker.parts.group_configs.timings_of("billing") == GroupTimings(50000, 6000, 1000)
        assert broker.parts.group_configs.timings_of("other") == DEFAULT
        assert shown(described(broker, BILLING)[SESSION]) == ("50000", ConfigSource.GROUP, False)
        assert listed(broker) == ["billing"]
        assert listed(broker, 0) == []


async def test_a_description_has_the_sources_of_each_value_in_the_order_of_precedence() -> None:
    async with a_broker({"group.consumer.session.timeout.ms": "46000"}) as broker:
        await change(broker, BILLING, (SESSION, SET, "50000"))
        rows = described(broker, BILLING)
        assert sorted(rows) == sorted(GROUP_SETTINGS)
        assert [(row.name, row.value, row.source) for row in rows[SESSION].synonyms] == [
            (SESSION, "50000", ConfigSource.GROUP),
            ("group.consumer.session.timeout.ms", "46000", ConfigSource.STATIC_BROKER),
            ("group.consumer.session.timeout.ms", "45000", ConfigSource.DEFAULT),
        ]
        assert shown(rows[HEARTBEAT]) == ("5000", ConfigSource.DEFAULT, False)


async def test_groups_of_one_request_are_described_with_their_own_settings() -> None:
    async with a_broker() as broker:
        await change(broker, BILLING, (SESSION, SET, "50000"))
        await change(broker, (GROUP, "shipping"), (SESSION, SET, "51000"))
        resources = [
            DescribeConfigsResource(resource_type=GROUP, resource_name=name, configuration_keys=[SESSION])
            for name in ("other", "billing", "shipping")
        ]
        answer = broker.ask(ApiKey.DESCRIBE_CONFIGS, 4, DescribeConfigsRequest(resources=resources))
        assert [row.value for result in answer.results for row in result.configs] == ["45000", "50000", "51000"]


async def test_a_replacement_leaves_only_its_own_settings_and_an_empty_one_none() -> None:
    async with a_broker() as broker:
        await change(broker, BILLING, (SESSION, SET, "50000"))
        assert await replace(broker, BILLING, **{HEARTBEAT: "7000"}) == 0
        assert await stored(broker, "groups/billing") == {HEARTBEAT: "7000"}
        assert await replace(broker, BILLING) == 0
        assert (await stored(broker, "groups/billing"), listed(broker)) == ({}, [])
        assert broker.parts.group_configs.timings_of("billing") == DEFAULT


async def test_a_change_within_the_bounds_is_refused_while_another_setting_is_beyond_them() -> None:
    """As by Apache Kafka 4.4.0; to repair the other one, or to remove it, is allowed."""
    async with a_broker({"group.consumer.max.session.timeout.ms": "50000"}) as broker:
        await broker.session.create(
            paths.config("groups/billing"), b'{"version":1,"config":{"%s":"60000"}}' % SESSION.encode()
        )
        assert await change(broker, BILLING, (HEARTBEAT, SET, "6000")) == ErrorCode.INVALID_CONFIG
        assert await change(broker, BILLING, (HEARTBEAT, SET, "6000"), (SESSION, DELETE, None)) == 0


@pytest.mark.parametrize(("key", "value"), [(SESSION, "many"), (SESSION, ""), ("no.such.key", "1"), ("", "1")])
async def test_a_setting_that_nothing_can_use_is_refused_when_it_is_set(key: str, value: str) -> None:
    async with a_broker() as broker:
        assert await change(broker, BILLING, (HEARTBEAT, SET, "6000"), (key, SET, value)) == ErrorCode.INVALID_CONFIG
        assert await broker.session.children(paths.CONFIG_CHANGES) == []


async def test_an_unknown_setting_in_the_store_prevents_no_change_and_can_be_deleted() -> None:
    async with a_broker() as broker:
        await broker.session.create(paths.config("groups/billing"), b'{"version":1,"config":{"share.x":"1"}}')
        assert await change(broker, BILLING, (HEARTBEAT, SET, "6000")) == 0
        assert await stored(broker, "groups/billing") == {"share.x": "1", HEARTBEAT: "6000"}
        assert await change(broker, BILLING, ("share.x", DELETE, None), ("no.such.key", DELETE, None)) == 0
        assert await stored(broker, "groups/billing") == {HEARTBEAT: "6000"}


@pytest.mark.parametrize("name", ["with/slash", "..", "<default>", "ümlaut", "a%2Fb", "a\nb", "x" * 4000])
async def test_a_group_may_have_any_name(name: str) -> None:
    async with a_broker() as broker:
        assert await change(broker, (GROUP, name), (SESSION, SET, "50000")) == 0
        assert listed(broker) == [name]
        assert shown(described(broker, (GROUP, name))[SESSION]) == ("50000", ConfigSource.GROUP, False)


async def test_too_many_groups_with_settings_are_refused_and_others_change() -> None:
    async with a_broker() as broker:
        for number in range(GROUPS_MAX):
            broker.parts.group_configs.changed(f"groups/g{number}", {SESSION: "50000"})
        assert await change(broker, BILLING, (SESSION, SET, "50000")) == ErrorCode.POLICY_VIOLATION
        assert await change(broker, (GROUP, "g1"), (SESSION, DELETE, None)) == 0
        assert await change(broker, BILLING, (SESSION, SET, "50000")) == 0


async def test_a_change_that_is_only_validated_changes_nothing() -> None:
    async with a_broker() as broker:
        assert await change(broker, BILLING, (SESSION, SET, "50000"), validate_only=True) == 0
        assert await change(broker, BILLING, (SESSION, SET, "1"), validate_only=True) == ErrorCode.INVALID_CONFIG
        assert await broker.session.children(paths.CONFIG_CHANGES) == []


async def test_each_group_has_its_own_answer_and_one_named_twice_has_none_changed() -> None:
    async with a_broker() as broker:
        right, wrong = (GROUP, "right"), (GROUP, "wrong")
        answers = await alter(broker, (right, [(SESSION, SET, "50000")]), (wrong, [(SESSION, SET, "1")]))
        assert [code for code, _ in answers] == [0, ErrorCode.INVALID_CONFIG]
        twice = await alter(broker, (wrong, [(SESSION, SET, "50000")]), (wrong, [(HEARTBEAT, SET, "6000")]))
        assert [code for code, _ in twice] == [ErrorCode.INVALID_REQUEST] * 2
        assert listed(broker) == ["right"]


async def test_settings_are_read_when_a_broker_joins_and_those_of_groups_that_are_gone_are_forgotten() -> None:
    async with a_broker() as broker:
        await change(broker, (GROUP, "a/b"), (SESSION, SET, "50000"))
        await broker.session.create(paths.config("groups/damaged"), b"no JSON")
        configs = GroupConfigs(broker.dynamic, broker.log)
        configs.changed("groups/gone", {SESSION: "50000"})
        await configs.load(broker.session)
        assert configs.group_ids == ["a/b"]
        assert configs.timings_of("a/b") == DEFAULT._replace(session_timeout_ms=50000)
        assert any("unreadable settings ignored" in str(line) for line in broker.log.lines)
