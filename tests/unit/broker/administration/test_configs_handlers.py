"""DescribeConfigs and AlterConfigs: the responses agree with the store and with the settings in effect."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from sordini.broker.administration.alter_configs_handler import EDITS_MAX
from sordini.broker.administration.config_receiver import load_layers
from sordini.broker.administration.describe_configs_handler import DESCRIPTIONS_MAX
from sordini.broker.configuration.dynamic import ConfigSource, DynamicConfig
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages import alter_configs, incremental_alter_configs
from sordini.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from sordini.protocol.messages.list_config_resources import ListConfigResourcesRequest
from sordini.replication.metadata_store import paths
from tests.support.unit_broker import ME, UnitBroker, a_broker

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND = range(3)
ORDERS, MINE, COMMON = (TOPIC, "orders"), (BROKER, "1"), (BROKER, "")
RETENTION = "retention.ms"

Resource = tuple[int, str]


async def alter(
    broker: UnitBroker, *resources: tuple[Resource, list[tuple[str, int, str | None]]], validate_only: bool = False
) -> list[tuple[int, str | None]]:
    """Error codes and words of one IncrementalAlterConfigs."""
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=[
            incremental_alter_configs.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    incremental_alter_configs.AlterableConfig(name=key, config_operation=operation, value=value)
                    for key, operation, value in entries
                ],
            )
            for (kind, name), entries in resources
        ],
        validate_only=validate_only,
    )
    answer = await broker.ask_later(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)
    assert [(row.resource_type, row.resource_name) for row in answer.responses] == [named for named, _ in resources]
    return [(row.error_code, row.error_message) for row in answer.responses]


async def change(
    broker: UnitBroker, resource: Resource, *entries: tuple[str, int, str | None], validate_only: bool = False
) -> int:
    """The error code of a change to one resource."""
    ((code, reason),) = await alter(broker, (resource, list(entries)), validate_only=validate_only)
    assert (reason is None) is (code == 0)
    return code


async def replace(broker: UnitBroker, resource: Resource, *, validate_only: bool = False, **entries: str | None) -> int:
    """The error code of an AlterConfigs of one resource."""
    kind, name = resource
    configs = [alter_configs.AlterableConfig(name=key.replace("_", "."), value=value) for key, value in entries.items()]
    wanted = alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    request = alter_configs.AlterConfigsRequest(resources=[wanted], validate_only=validate_only)
    answer = await broker.ask_later(ApiKey.ALTER_CONFIGS, 2, request)
    return answer.responses[0].error_code


def described(broker: UnitBroker, resource: Resource, *keys: str) -> dict[str, Any]:
    kind, name = resource
    wanted = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=list(keys) or None)
    request = DescribeConfigsRequest(resources=[wanted], include_synonyms=True, include_documentation=True)
    (result,) = broker.ask(ApiKey.DESCRIBE_CONFIGS, 4, request).results
    assert result.error_code == 0
    return {row.name: row for row in result.configs}


def shown(row: Any) -> tuple[str | None, int, bool]:
    return row.value, row.config_source, row.read_only


async def stored(broker: UnitBroker, entity: str) -> dict[str, str]:
    data, _ = await broker.session.get(paths.config(entity))
    found: dict[str, str] = json.loads(data)["config"]
    return found


@asynccontextmanager
async def a_broker_with_orders(**entries: str) -> AsyncIterator[UnitBroker]:
    """A broker that leads `orders`, which stands in the store."""
    async with a_broker({key.replace("_", "."): text for key, text in entries.items()}) as broker:
        await broker.lead("orders")
        await broker.session.create(paths.topic("orders"))
        yield broker


async def test_a_description_right_after_a_change_has_it() -> None:
    async with a_broker_with_orders() as broker:
        partition = broker.parts.replicas.partition("orders", 0)
        assert await change(broker, ORDERS, (RETENTION, SET, "1000"), ("segment.bytes", SET, "4096")) == 0
        assert shown(described(broker, ORDERS, RETENTION)[RETENTION]) == ("1000", ConfigSource.TOPIC, False)
        assert (partition.log.config.retention_ms, partition.log.config.segment_bytes) == (1000, 4096)
        assert await stored(broker, "topics/orders") == {RETENTION: "1000", "segment.bytes": "4096"}
        (notification,) = await broker.session.children(paths.CONFIG_CHANGES)
        data, _ = await broker.session.get(f"{paths.CONFIG_CHANGES}/{notification}")
        assert json.loads(data) == {"version": 2, "entity_path": "topics/orders"}


async def test_a_change_leaves_other_keys_and_a_replacement_does_not() -> None:
    async with a_broker_with_orders() as broker:
        assert await change(broker, ORDERS, (RETENTION, SET, "1000")) == 0
        assert await change(broker, ORDERS, ("cleanup.policy", APPEND, "compact")) == 0
        assert await stored(broker, "topics/orders") == {RETENTION: "1000", "cleanup.policy": "delete,compact"}
        assert await replace(broker, ORDERS, segment_ms="77") == 0
        assert await stored(broker, "topics/orders") == {"segment.ms": "77"}
        assert described(broker, ORDERS)[RETENTION].config_source == ConfigSource.DEFAULT
        assert await replace(broker, ORDERS) == 0
        assert await stored(broker, "topics/orders") == {}


async def test_a_change_that_is_only_validated_is_checked_alike_and_changes_nothing() -> None:
    async with a_broker_with_orders() as broker:
        for resource, key, code in (
            (ORDERS, RETENTION, 0),
            (ORDERS, "no.such.key", ErrorCode.INVALID_CONFIG),
            ((TOPIC, "nowhere"), RETENTION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            (MINE, "message.max.bytes", 0),
            (MINE, "log.dirs", ErrorCode.INVALID_REQUEST),
        ):
            assert await change(broker, resource, (key, SET, "5"), validate_only=True) == code
            assert await replace(broker, resource, validate_only=True, **{key: "5"}) == code
        assert await broker.session.children(paths.CONFIG_CHANGES) == []
        assert await broker.session.children("/config/topics") == []
        assert await broker.session.children("/config/brokers") == []
        assert broker.dynamic.config == broker.config


@pytest.mark.parametrize(
    ("kind", "name", "key", "code"),
    [
        (TOPIC, "nowhere", RETENTION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "in valid", RETENTION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "../brokers/1", RETENTION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "", RETENTION, ErrorCode.INVALID_REQUEST),
        (TOPIC, "orders", "no.such.key", ErrorCode.INVALID_CONFIG),
        (BROKER, "2", "message.max.bytes", ErrorCode.INVALID_REQUEST),
        (BROKER, "one", "message.max.bytes", ErrorCode.INVALID_REQUEST),
        (BROKER, "²", "message.max.bytes", ErrorCode.INVALID_REQUEST),
        (BROKER, "<default>", "message.max.bytes", ErrorCode.INVALID_REQUEST),
        (BROKER, "1", "broker.id", ErrorCode.INVALID_REQUEST),
        (BROKER, "1", "sordini.log.delete.policy", ErrorCode.INVALID_REQUEST),
        (BROKER, "", "sordini.log.delete.policy", ErrorCode.INVALID_REQUEST),
        (TOPIC, "orders", "sordini.log.delete.policy", ErrorCode.INVALID_CONFIG),
        (BROKER, "", "listeners", ErrorCode.INVALID_REQUEST),
        (LOGGER, "2", "root", ErrorCode.INVALID_REQUEST),
        (LOGGER, "", "root", ErrorCode.INVALID_REQUEST),
        (METRICS, "m", "interval.ms", ErrorCode.INVALID_REQUEST),
        (GROUP, "g", "consumer.session.timeout.ms", ErrorCode.INVALID_CONFIG),
        (GROUP, "g", "share.session.timeout.ms", ErrorCode.INVALID_CONFIG),
        (GROUP, "", "consumer.assignment.interval.ms", ErrorCode.INVALID_REQUEST),
        (99, "x", "y", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_invalid_changes_are_rejected_and_write_nothing(kind: int, name: str, key: str, code: int) -> None:
    async with a_broker_with_orders() as broker:
        assert await change(broker, (kind, name), (key, SET, "5")) == code
        assert await replace(broker, (kind, name), **{key: "5"}) == code
        assert await broker.session.children(paths.CONFIG_CHANGES) == []


async def test_each_resource_has_its_own_answer_and_one_named_twice_has_none_changed() -> None:
    async with a_broker_with_orders() as broker:
        entry = [("message.max.bytes", SET, "5")]
        outcome = await alter(
            broker, (ORDERS, [(RETENTION, SET, "5")]), ((TOPIC, "x"), []), (COMMON, entry), (COMMON, entry)
        )
        assert [code for code, _ in outcome] == [0, 3, ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST]
        assert await broker.session.children("/config/brokers") == []
        repeated = [alter_configs.AlterConfigsResource(resource_type=BROKER, resource_name="")] * 2
        request = alter_configs.AlterConfigsRequest(resources=repeated)
        answer = await broker.ask_later(ApiKey.ALTER_CONFIGS, 0, request)
        assert {row.error_code for row in answer.responses} == {ErrorCode.INVALID_REQUEST}


async def test_a_request_for_too_many_resources_is_refused_as_a_whole() -> None:
    async with a_broker_with_orders() as broker:
        outcome = await alter(broker, *((((99, str(number)), [])) for number in range(10_001)))
        assert {code for code, _ in outcome} == {ErrorCode.POLICY_VIOLATION}


async def test_a_brokers_own_setting_precedes_the_default_of_all_and_that_the_configuration_file() -> None:
    key = "message.max.bytes"
    async with a_broker_with_orders(message_max_bytes="300") as broker:
        partition = broker.parts.replicas.partition("orders", 0)
        assert await change(broker, COMMON, (key, SET, "200")) == 0
        assert partition.settings.rules.message_bytes_max == 200
        assert await change(broker, MINE, (key, SET, "100")) == 0
        assert partition.settings.rules.message_bytes_max == 100
        row = described(broker, MINE, key)[key]
        assert shown(row) == ("100", ConfigSource.DYNAMIC_BROKER, False)
        assert [(one.name, one.value, one.source) for one in row.synonyms] == [
            (key, "100", 2),
            (key, "200", 3),
            (key, "300", 4),
            (key, "1048588", 5),
        ]
        topic = described(broker, ORDERS)["max.message.bytes"]
        assert shown(topic) == ("100", ConfigSource.DYNAMIC_BROKER, False)
        assert [one.source for one in topic.synonyms] == [2, 3, 4, 5]
        assert await change(broker, MINE, (key, DELETE, None)) == 0
        assert partition.settings.rules.message_bytes_max == 200
        assert await replace(broker, COMMON) == 0
        assert partition.settings.rules.message_bytes_max == 300


async def test_the_cleaner_is_notified_of_its_changed_settings() -> None:
    async with a_broker_with_orders() as broker:
        changed = ("log.cleaner.threads", SET, "2"), ("log.cleaner.backoff.ms", SET, "7")
        rate = ("log.cleaner.io.max.bytes.per.second", SET, "1e6")
        assert await change(broker, COMMON, *changed, rate) == 0
        config = broker.parts.cleaner.config
        assert (config.threads, config.backoff_ms, config.io_bytes_per_second) == (2, 7, 1_000_000.0)
        row = described(broker, MINE, "log.cleaner.io.max.bytes.per.second")["log.cleaner.io.max.bytes.per.second"]
        assert row.synonyms[-1].value == "1.7976931348623157E308"


@pytest.mark.parametrize(
    ("threads", "code"),
    [("1", ErrorCode.INVALID_REQUEST), ("2", 0), ("8", 0), ("9", ErrorCode.INVALID_REQUEST)],
)
@pytest.mark.parametrize("resource", [MINE, COMMON])
async def test_cleaner_threads_are_halved_or_doubled_at_a_time_and_no_more(
    resource: Resource, threads: str, code: int
) -> None:
    async with a_broker_with_orders(log_cleaner_threads="4") as broker:
        assert await change(broker, resource, ("log.cleaner.threads", SET, threads)) == code
        assert await change(broker, resource, ("log.cleaner.threads", SET, threads), validate_only=True) == code
        assert broker.parts.cleaner.config.threads == (4 if code else int(threads))


async def test_a_buffer_too_small_for_its_threads_is_rejected_and_affects_nothing_else() -> None:
    async with a_broker_with_orders() as broker:
        small = ("log.cleaner.dedupe.buffer.size", SET, "1048576")
        assert await change(broker, COMMON, small) == ErrorCode.INVALID_REQUEST
        broker.dynamic.set_layer(ConfigSource.DYNAMIC_DEFAULT_BROKER, {"log.cleaner.dedupe.buffer.size": "5"})
        assert await change(broker, MINE, ("message.max.bytes", SET, "5")) == 0


async def test_a_topics_own_setting_stays_when_what_it_inherits_changes() -> None:
    async with a_broker_with_orders() as broker:
        partition = broker.parts.replicas.partition("orders", 0)
        assert await change(broker, ORDERS, (RETENTION, SET, "1000")) == 0
        changed = ("log.retention.ms", SET, "5"), ("producer.id.expiration.ms", SET, "7"), ("log.roll.ms", SET, "9")
        assert await change(broker, COMMON, *changed) == 0
        config = partition.log.config
        assert (config.retention_ms, config.producer_expiration_ms, config.segment_ms) == (1000, 7, 9)


async def test_the_default_settings_of_all_brokers_are_described_alone() -> None:
    async with a_broker_with_orders() as broker:
        assert described(broker, COMMON) == {}
        entries = ("message.max.bytes", SET, "5"), ("theirs", SET, "hush"), ("num.io.threads", SET, "9")
        assert await change(broker, COMMON, *entries) == 0
        rows = described(broker, COMMON)
        assert {key: (row.value, row.config_source, row.read_only, row.is_sensitive) for key, row in rows.items()} == {
            "message.max.bytes": ("5", 3, False, False),
            "num.io.threads": ("9", 3, True, False),
            "theirs": (None, 3, True, True),
        }


async def test_possible_secrets_are_never_shown() -> None:
    async with a_broker_with_orders() as broker:
        assert await change(broker, MINE, ("theirs", SET, "hush")) == 0
        row = described(broker, MINE, "theirs")["theirs"]
        assert (row.value, row.is_sensitive, [one.value for one in row.synonyms]) == (None, True, [None])
        assert ("setting ignored", {"entity": "brokers/1", "key": "theirs", "reason": "unknown key"}) in (
            broker.log.at("warning")
        )
        assert "hush" not in str(broker.log.lines)


async def test_only_dynamic_keys_are_not_read_only() -> None:
    async with a_broker_with_orders() as broker:
        rows = described(broker, MINE)
        assert not rows["log.retention.ms"].read_only
        assert rows["log.retention.hours"].read_only
        assert rows["broker.id"].value == "1"
        assert rows["log.retention.ms"].documentation
        assert not any(row.read_only for row in described(broker, ORDERS).values())


async def test_a_key_of_a_listener_is_described_with_what_it_precedes() -> None:
    key = "max.connections"
    own = f"listener.name.plaintext.{key}"
    async with a_broker_with_orders(max_connections="900") as broker:
        assert await change(broker, COMMON, (key, SET, "800"), (own, SET, "80")) == 0
        assert await change(broker, MINE, (own, SET, "70")) == 0
        row = described(broker, MINE, own)[own]
        assert (row.value, row.read_only) == ("70", True)
        assert [(one.name, one.value, one.source) for one in row.synonyms] == [
            (own, "70", ConfigSource.DYNAMIC_BROKER),
            (own, "80", ConfigSource.DYNAMIC_DEFAULT_BROKER),
            (key, "800", ConfigSource.DYNAMIC_DEFAULT_BROKER),
            (key, "900", ConfigSource.STATIC_BROKER),
            (key, "2147483647", ConfigSource.DEFAULT),
        ]


async def test_the_log_level_is_a_setting_of_the_root_logger() -> None:
    loggers = (LOGGER, "1")
    async with a_broker_with_orders() as broker:
        assert shown(described(broker, loggers)["root"]) == ("INFO", ConfigSource.DYNAMIC_BROKER_LOGGER, False)
        for name, level, described_level in (
            ("DEBUG", "debug", "DEBUG"),
            ("TRACE", "debug", "DEBUG"),
            ("WARN", "warning", "WARN"),
            ("FATAL", "error", "ERROR"),
        ):
            assert await change(broker, loggers, ("root", SET, name)) == 0
            assert broker.log.level == level
            assert described(broker, loggers, "root")["root"].value == described_level


@pytest.mark.parametrize(
    ("entry", "code"),
    [
        (("root", SET, "LOUD"), ErrorCode.INVALID_CONFIG),
        (("root", SET, "info"), ErrorCode.INVALID_CONFIG),
        (("root", SET, None), ErrorCode.INVALID_REQUEST),
        (("root", DELETE, None), ErrorCode.INVALID_REQUEST),
        (("root", APPEND, "INFO"), ErrorCode.INVALID_REQUEST),
        (("kafka.log.Log", SET, "INFO"), ErrorCode.INVALID_CONFIG),
        (("kafka.log.Log", DELETE, None), ErrorCode.INVALID_CONFIG),
    ],
)
async def test_a_wrong_level_and_an_unknown_logger_are_refused(entry: tuple[str, int, str | None], code: int) -> None:
    async with a_broker_with_orders() as broker:
        others = [("root", SET, "DEBUG")] if entry[0] != "root" else []
        assert await change(broker, (LOGGER, "1"), *others, entry) == code
        assert broker.log.level == "info"


async def test_levels_are_only_validated_where_requested_and_never_replaced_as_a_whole() -> None:
    async with a_broker_with_orders() as broker:
        assert await change(broker, (LOGGER, "1"), ("root", SET, "DEBUG"), validate_only=True) == 0
        assert await replace(broker, (LOGGER, "1"), root="DEBUG") == ErrorCode.INVALID_REQUEST
        assert broker.log.level == "info"


async def test_two_writers_do_not_lose_each_others_change() -> None:
    async with a_broker_with_orders() as broker:
        keys = ["retention.ms", "segment.ms", "segment.bytes", "retention.bytes", "flush.ms", "flush.messages"]
        done = asyncio.gather(*(change(broker, ORDERS, (key, SET, "4096")) for key in keys))
        # Another broker in between: it knows nothing of this one's turns.
        path = paths.config("topics/orders")
        await broker.session.create(path, b'{"version":1,"config":{"file.delete.delay.ms":"1"}}')
        assert await done == [0] * len(keys)
        assert await stored(broker, "topics/orders") == dict.fromkeys(keys, "4096") | {"file.delete.delay.ms": "1"}


async def test_a_topic_deleted_meanwhile_gets_no_settings() -> None:
    async with a_broker_with_orders() as broker:
        await broker.session.delete(paths.topic("orders"))
        assert await change(broker, ORDERS, (RETENTION, SET, "5")) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await broker.session.children("/config/topics") == []


async def test_more_settings_than_the_store_accepts_are_rejected() -> None:
    async with a_broker_with_orders() as broker:
        entries = [(f"theirs.{number}", SET, "x" * 30_000) for number in range(20)]
        assert await change(broker, MINE, *entries) == ErrorCode.INVALID_CONFIG
        assert await broker.session.children("/config/brokers") == []


async def test_a_resource_with_more_settings_than_there_can_be_is_refused_and_the_others_are_changed() -> None:
    async with a_broker_with_orders() as broker:
        entries = [(f"k{number}", SET, "x") for number in range(EDITS_MAX + 1)]
        assert await change(broker, ORDERS, *entries) == ErrorCode.POLICY_VIOLATION
        assert await change(broker, ORDERS, *entries[:-1]) == ErrorCode.INVALID_CONFIG
        assert await change(broker, ORDERS, (RETENTION, SET, "5")) == 0


async def test_settings_that_cannot_be_decoded_count_as_none_and_are_repaired_by_a_change() -> None:
    async with a_broker_with_orders() as broker:
        await broker.session.create(paths.config("topics/orders"), b"{not json")
        assert await change(broker, ORDERS, (RETENTION, SET, "5")) == 0
        assert await stored(broker, "topics/orders") == {RETENTION: "5"}


async def test_settings_written_by_a_tool_are_applied_and_invalid_ones_ignored() -> None:
    async with a_broker_with_orders() as broker:
        config = {"segment.ms": "soon", "theirs": "1", RETENTION: "9"}
        await broker.session.create(paths.config("topics/orders"), json.dumps({"config": config}).encode())
        notification = b'{"version":2,"entity_path":"topics/orders"}'
        path = await broker.session.create(paths.CONFIG_CHANGE_PREFIX, notification, sequential=True)
        await broker.parts.config_changes.applied(int(path[-10:]))
        rows = described(broker, ORDERS)
        assert rows[RETENTION].value == "9"
        assert shown(rows["segment.ms"]) == ("604800000", ConfigSource.DEFAULT, False)
        assert [fields["key"] for _, fields in broker.log.at("warning")] == ["segment.ms", "theirs"]


async def test_a_broker_that_starts_finds_what_was_changed_and_before_its_logs_are_opened() -> None:
    async with a_broker_with_orders(min_insync_replicas="3") as broker:
        assert await change(broker, COMMON, ("message.max.bytes", SET, "5"), ("min.insync.replicas", SET, "2")) == 0
        assert await change(broker, MINE, ("message.max.bytes", SET, "7")) == 0
        await broker.session.create(paths.config("brokers/2"), b'{"config":{"message.max.bytes":"9"}}')
        later = DynamicConfig(broker.config, frozenset({"min.insync.replicas"}))
        await load_layers(broker.session, ME, later, broker.log)
        assert (later.config.message_max_bytes, later.config.min_insync_replicas) == (7, 2)


@pytest.mark.parametrize(
    ("version", "kinds", "found"),
    [
        (0, [], []),
        (1, [], [("bills", TOPIC), ("orders", TOPIC), ("1", BROKER), ("1", LOGGER)]),
        (1, [BROKER], [("1", BROKER)]),
        (1, [BROKER, TOPIC, BROKER], [("bills", TOPIC), ("orders", TOPIC), ("1", BROKER)]),
        (1, [LOGGER, METRICS, GROUP], [("1", LOGGER)]),
    ],
)
async def test_resources_with_settings_are_listed(version: int, kinds: list[int], found: list[tuple[str, int]]) -> None:
    async with a_broker_with_orders() as broker:
        await broker.lead("bills")
        request = ListConfigResourcesRequest(resource_types=kinds)
        answer = broker.ask(ApiKey.LIST_CONFIG_RESOURCES, version, request)
        assert answer.error_code == 0
        assert [(row.resource_name, row.resource_type) for row in answer.config_resources] == found


async def test_an_unknown_resource_type_is_rejected() -> None:
    async with a_broker_with_orders() as broker:
        request = ListConfigResourcesRequest(resource_types=[TOPIC, 1])
        answer = broker.ask(ApiKey.LIST_CONFIG_RESOURCES, 1, request)
        assert (answer.error_code, answer.config_resources) == (ErrorCode.UNSUPPORTED_VERSION, [])


async def test_topics_of_the_same_settings_are_described_alike_and_those_that_are_not_are_bounded() -> None:
    async with a_broker() as broker:
        for topic in ("a", "b", "c"):
            await broker.lead(topic)
        broker.parts.topic_configs.set("c", {"retention.ms": "5"})
        resources = [DescribeConfigsResource(resource_type=2, resource_name=name) for name in "abc"]
        a, b, c = broker.ask(ApiKey.DESCRIBE_CONFIGS, 4, DescribeConfigsRequest(resources=resources)).results
        assert len(a.configs) > 20
        assert a.configs == b.configs
        assert [(row.name, row.value) for row in c.configs if row not in a.configs] == [("retention.ms", "5")]

        def asking(count: int) -> DescribeConfigsRequest:
            """The broker under many spellings, each time for another key."""
            return DescribeConfigsRequest(
                resources=[
                    DescribeConfigsResource(
                        resource_type=4, resource_name="0" * (number // 10) + "1", configuration_keys=[f"{number}"]
                    )
                    for number in range(count)
                ]
            )

        for count, code in ((DESCRIPTIONS_MAX, 0), (DESCRIPTIONS_MAX + 1, ErrorCode.INVALID_REQUEST)):
            answer = broker.ask(ApiKey.DESCRIBE_CONFIGS, 4, asking(count))
            assert {row.error_code for row in answer.results} == {code}


async def test_client_metrics_need_not_exist_to_be_described_and_need_a_name() -> None:
    async with a_broker_with_orders() as broker:
        resources = [DescribeConfigsResource(resource_type=METRICS, resource_name=name) for name in ("g", "")]
        named, unnamed = broker.ask(ApiKey.DESCRIBE_CONFIGS, 4, DescribeConfigsRequest(resources=resources)).results
        assert (named.error_code, named.resource_name) == (0, "g")
        assert {row.config_source for row in named.configs} == {ConfigSource.DEFAULT}
        assert (unnamed.error_code, unnamed.configs) == (ErrorCode.INVALID_REQUEST, [])
