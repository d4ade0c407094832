"""Client telemetry: the same requests to Apache Kafka 4.4 and to Sordini get the same answers (KIP-714)."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from typing import Any, Final
from uuid import uuid4

import pytest
import zstandard

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.messages import incremental_alter_configs
from sordini.protocol.messages.api_versions import ApiVersionsRequest
from sordini.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from sordini.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from sordini.protocol.messages.list_config_resources import ListConfigResourcesRequest
from sordini.protocol.messages.push_telemetry import PushTelemetryRequest
from sordini.protocol.primitives import ZERO_UUID
from tests.compat.situations.waiting import until
from tests.compat.telemetry.reporting_kafka import ReportingKafka
from tests.outside.processes import SordiniProcess
from tests.support.telemetry_pushes import LAG_MAX, an_id, gauges
from tests.support.wire_client import Client

CLIENT_METRICS: Final = 16
SET, DELETE = 0, 1
VALUES: Final = gauges({LAG_MAX: 1.0})
ASKED: Final = "asked"


class Talk:
    """One connection, and what was said over it."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.lines: list[Any] = []

    def note(self, *what: Any) -> None:
        self.lines.append(what)

    def alter(self, name: str, *edits: tuple[str, int, str | None]) -> None:
        configs = [
            incremental_alter_configs.AlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in edits
        ]
        resource = incremental_alter_configs.AlterConfigsResource(
            resource_type=CLIENT_METRICS, resource_name=name, configs=configs
        )
        request = incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource])
        (row,) = self._client.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request).responses
        self.note("altered", name, edits, row.error_code, row.error_message or None)

    def describe(self, name: str) -> None:
        resource = DescribeConfigsResource(resource_type=CLIENT_METRICS, resource_name=name, configuration_keys=None)
        request = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
        (result,) = self._client.ask(ApiKey.DESCRIBE_CONFIGS, 4, request).results
        rows = sorted(
            (row.name, row.value, row.config_source, row.config_type, row.read_only, row.is_sensitive)
            for row in result.configs
        )
        self.note("described", name, result.error_code, rows)

    def list(self) -> None:
        for version in (0, 1):
            request = ListConfigResourcesRequest(resource_types=[CLIENT_METRICS] if version else [])
            answer = self._client.ask(ApiKey.LIST_CONFIG_RESOURCES, version, request)
            self.note("listed", sorted(row.resource_name for row in answer.config_resources))

    def served(self) -> None:
        request = ApiVersionsRequest(client_software_name="talk", client_software_version="1.0")
        rows = self._client.ask(ApiKey.API_VERSIONS, 3, request).api_keys
        self.note(
            "served", sorted((row.api_key, row.min_version, row.max_version) for row in rows if row.api_key in (71, 72))
        )

    def ask(self, instance_id: bytes, client_id: str = "talk") -> Any:
        request = GetTelemetrySubscriptionsRequest(client_instance_id=instance_id)
        answer = self._client.ask(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, request, client_id)
        shown = None if instance_id == ZERO_UUID else (answer.client_instance_id, answer.subscription_id)
        what = (answer.push_interval_ms, answer.telemetry_max_bytes, answer.delta_temporality)
        types = list(answer.accepted_compression_types)
        self.note(ASKED, answer.error_code, shown, *what, types, sorted(answer.requested_metrics))
        return answer

    def subscribed(self, client_id: str) -> tuple[tuple[str, ...], int]:
        """What an instance that has not been there is to push, and how often; not noted."""
        request = GetTelemetrySubscriptionsRequest(client_instance_id=uuid4().bytes)
        answer = self._client.ask(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, request, client_id)
        return tuple(sorted(answer.requested_metrics)), answer.push_interval_ms

    def subscribe(self, client_id: str, name: str, *edits: tuple[str, int, str | None]) -> None:
        """As `alter`, until it is in force for this client."""
        before = self.subscribed(client_id)
        self.alter(name, *edits)
        until(lambda: self.subscribed(client_id), lambda seen: seen != before)

    def push(self, given: Any, metrics: bytes = b"", **fields: Any) -> None:
        named = {"client_instance_id": given.client_instance_id, "subscription_id": given.subscription_id, **fields}
        answer = self._client.ask(ApiKey.PUSH_TELEMETRY, 0, PushTelemetryRequest(metrics=metrics, **named))
        self.note("pushed", len(metrics), sorted(fields), answer.error_code)


def settings(talk: Talk) -> None:
    """What can be set, how it is described, and what is refused.

    Lists can be appended to and subtracted from here; Apache Kafka does not know there that they are lists.
    """
    talk.served()
    talk.describe("none")
    talk.alter("lag", ("metrics", SET, "a.b, c"), ("match", SET, "client_id=a.*,client_source_port=[0-9]+"))
    talk.describe("lag")
    talk.list()
    talk.alter("lag", ("metrics", SET, "d,a.b"), ("metrics2", SET, "x"))
    talk.alter("lag", ("metrics", SET, "d,a.b,d"))
    talk.describe("lag")
    for key, value in (
        ("interval.ms", "99"),
        ("interval.ms", "3600001"),
        ("interval.ms", "soon"),
        ("interval.ms", "100"),
        ("interval.ms", "3600000"),
        ("period", "1"),
        ("match", "client_id"),
        ("match", "client_id="),
        ("match", "client_id=a=b"),
        ("match", "client_name=a"),
        ("match", " client_id = a "),
        ("match", ""),
        ("metrics", "a,b,a"),
        ("metrics", "a,,b"),
        ("metrics", ""),
        ("metrics", "*"),
    ):
        talk.alter("lag", (key, SET, value))
    talk.alter("", ("metrics", SET, "*"))
    talk.alter("lag", *((key, DELETE, None) for key in ("metrics", "match", "interval.ms")))
    talk.describe("lag")
    talk.list()


def subscriptions(talk: Talk) -> None:
    """What an instance is to push, and how often."""
    talk.ask(ZERO_UUID)
    talk.ask(an_id(1001))
    talk.ask(bytes((7, 1, 200, 3, 255, 5, 6, 90, 8, 9, 10, 110, 12, 13, 14, 15)))
    nothing = talk.subscribed("talk")
    talk.subscribe("talk", "slow", ("metrics", SET, "*"), ("interval.ms", SET, "3600000"))
    talk.ask(an_id(1002))
    talk.subscribe("talk", "slow", ("interval.ms", SET, "200000"), ("metrics", SET, "one"))
    talk.ask(an_id(1002))
    talk.ask(an_id(1002))
    talk.subscribe("other", "other", ("metrics", SET, "two"), ("match", SET, "client_id=other,client_software_name=.*"))
    talk.ask(an_id(1003), "other")
    talk.ask(an_id(1004), "another")
    talk.subscribe("other", "all", ("metrics", SET, "*,three"), ("match", SET, "client_source_address=127[.].*"))
    talk.ask(an_id(1005), "other")
    for name in ("slow", "other", "all"):
        talk.alter(name, *((key, DELETE, None) for key in ("metrics", "match", "interval.ms")))
    until(lambda: talk.subscribed("other"), lambda seen: seen == nothing)
    talk.ask(an_id(1005))


def pushes(talk: Talk) -> None:
    """Which pushes are taken, and the order in which they are refused."""
    talk.subscribe("talk", "all", ("metrics", SET, "*"))
    given = talk.ask(an_id(2001))
    talk.ask(an_id(2001))
    talk.push(given, VALUES)
    talk.push(given, VALUES)
    talk.push(given, VALUES, terminating=True)
    talk.push(given, VALUES)
    talk.push(given, VALUES)
    for number, fields in enumerate(
        (
            {"subscription_id": 7},
            {"compression_type": 9},
            {"subscription_id": 7, "compression_type": 9},
            {"metrics": bytes(1_048_577)},
            {"metrics": bytes(1_048_577), "compression_type": 9},
            {"client_instance_id": ZERO_UUID},
            {"client_instance_id": an_id(1)},
            {"metrics": b"no gzip at all", "compression_type": 1},
            {"metrics": gzip.compress(VALUES), "compression_type": 1},
            {"metrics": zstandard.compress(VALUES), "compression_type": 4},
            {"metrics": gzip.compress(bytes(1_048_577)), "compression_type": 1},
            {"terminating": True, "subscription_id": 7},
            {},
        )
    ):
        given = talk.ask(an_id(2100 + number))
        talk.push(given, **fields)  # type: ignore[arg-type]
        talk.ask(an_id(2100 + number))
        talk.push(given)
    given = talk.ask(an_id(2200))
    talk.subscribe("talk", "all", ("interval.ms", SET, "250000"))
    talk.push(given, VALUES)
    talk.ask(an_id(2200))


@pytest.fixture(scope="module")
def talks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Callable[[Talk], None]], list[list[Any]]]]:
    directory = tmp_path_factory.mktemp("telemetry")
    ours = SordiniProcess(directory / "sordini", {"sordini.client.telemetry.enable": "true"})
    with ReportingKafka(directory / "apache") as apache, ours as sordini:

        def played(script: Callable[[Talk], None]) -> list[list[Any]]:
            lines = []
            for process in (apache, sordini):
                with Client("127.0.0.1", process.port) as client:
                    talk = Talk(client)
                    script(talk)
                    lines.append(talk.lines)
            return lines

        yield played


@pytest.mark.parametrize("script", [settings, subscriptions, pushes])
def test_both_answer_the_same(
    script: Callable[[Talk], None], talks: Callable[[Callable[[Talk], None]], list[list[Any]]]
) -> None:
    theirs, ours = talks(script)
    assert theirs, "nothing was said"
    differences = [f"{one}\n    {other}" for one, other in zip(theirs, ours, strict=True) if one != other]
    assert not differences, "\n".join(["", *differences])
