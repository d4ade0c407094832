"""Settings of a running broker: changed over the wire, in force at once, and still there after it was killed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from sordini.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.outside.ports import free_port
from tests.outside.processes import SordiniProcess
from tests.support.builders import a_batch
from tests.support.wire_client import PATIENCE_S, Client

Start = Callable[..., SordiniProcess]
Connect = Callable[..., Client]

TOPIC, BROKER, LOGGER = 2, 4, 8
LARGEST = "message.max.bytes"


def set_key(client: Client, kind: int, name: str, key: str, value: str) -> int:
    """The error code."""
    entry = AlterableConfig(name=key, value=value)
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=[entry])
    request = IncrementalAlterConfigsRequest(resources=[resource])
    code: int = client.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request).responses[0].error_code
    return code


def sources(client: Client, kind: int, name: str, key: str) -> tuple[str | None, int]:
    """A key's value and where that stands."""
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=[key])
    request = DescribeConfigsRequest(resources=[resource])
    (row,) = client.ask(ApiKey.DESCRIBE_CONFIGS, 4, request).results[0].configs
    return row.value, row.config_source


def test_what_was_changed_holds_at_once_and_after_the_broker_was_killed(start_sordini: Start, connect: Connect) -> None:
    broker = start_sordini({"broker.id": 1, LARGEST: 100_000})
    batch = a_batch(1, value=b"x" * 1000)
    client = connect(broker)
    assert client.create("orders") == [0]
    assert client.produce("orders", [batch])[0].error_code == 0
    assert set_key(client, BROKER, "", LARGEST, "200") == 0
    assert client.produce("orders", [batch])[0].error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert set_key(client, TOPIC, "orders", "retention.ms", "-1") == 0
    assert set_key(client, BROKER, "1", "max.connections.per.ip", "1") == 0
    assert connect(broker).is_closed()
    # A higher limit again: the connection that checks for the restart counts, too.
    assert set_key(client, BROKER, "1", "max.connections.per.ip", "100") == 0
    broker.kill()
    broker.start()
    client = connect(broker)
    assert client.produce("orders", [batch])[0].error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert sources(client, BROKER, "1", LARGEST) == ("200", 3)
    assert sources(client, BROKER, "1", "max.connections.per.ip") == ("100", 2)
    assert sources(client, TOPIC, "orders", "retention.ms") == ("-1", 1)
    assert set_key(client, BROKER, "1", LARGEST, "100000") == 0
    assert client.produce("orders", [batch])[0].error_code == 0
    assert client.fetch("orders").count(b"x" * 1000) == 2


def test_a_listeners_own_limit_is_changed_at_run_time_and_holds_up_no_other_listener(
    request: pytest.FixtureRequest, connect: Connect, tmp_path: Path
) -> None:
    own = free_port()
    broker = SordiniProcess(
        tmp_path / "broker",
        {
            "broker.id": 1,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OWN:PLAINTEXT",
            "listener.name.own.max.connections": 2,
        },
    )
    broker.overrides["listeners"] = f"PLAINTEXT://{broker.bootstrap},OWN://127.0.0.1:{own}"
    request.addfinalizer(broker.stop)
    broker.start()
    first, second = connect(own), connect(own)
    first.metadata()
    second.metadata()
    waiting = connect(own)
    waiting.socket.settimeout(0.5)
    with pytest.raises(TimeoutError):
        waiting.metadata()
    waiting.socket.settimeout(PATIENCE_S)
    admin = connect(broker)
    admin.metadata()
    key = "listener.name.own.max.connections"
    assert set_key(admin, BROKER, "1", key, "0") == ErrorCode.INVALID_REQUEST
    assert set_key(admin, BROKER, "1", key, "3") == 0
    waiting.receive(4)
    assert sources(admin, BROKER, "1", key) == ("3", 2)
    rate = "listener.name.own.max.connection.creation.rate"
    assert set_key(admin, BROKER, "", rate, "1000") == 0
    assert sources(admin, BROKER, "1", rate) == ("1000", 3)
    first.metadata()


def test_a_container_is_configured_by_its_environment(
    start_sordini: Start, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in {
        "KAFKA_LOG_RETENTION_HOURS": "1",
        "SORDINI_LOG_RETENTION_HOURS": "2",
        "SORDINI_CREATE_PARTITIONS_MAX": "7",
        "KAFKA_NUM_IO_THREADS": "8",
        "KAFKA_LOG_RETENTION_HUORS": "3",
        "KAFKA_HEAP_OPTS": "-Xmx1g",
    }.items():
        monkeypatch.setenv(name, text)
    broker = start_sordini({"broker.id": 1})
    client = connect(broker)
    assert sources(client, BROKER, "1", "log.retention.hours") == ("2", 4)
    assert sources(client, BROKER, "1", "sordini.create.partitions.max") == ("7", 4)
    warned = [line for line in broker.output().splitlines() if "unknown configuration key" in line]
    assert len(warned) == 1
    assert "KAFKA_LOG_RETENTION_HUORS" in warned[0]
    assert "keys=num.io.threads" in broker.output()


def test_the_log_level_is_changed_while_the_broker_runs(start_sordini: Start, connect: Connect) -> None:
    broker = start_sordini({"broker.id": 1})
    client = connect(broker)
    assert sources(client, LOGGER, "1", "root") == ("INFO", 6)
    assert set_key(client, LOGGER, "1", "root", "ERROR") == 0
    assert set_key(client, BROKER, "1", "log.roll.ms", "1000000") == 0
    assert set_key(client, LOGGER, "1", "root", "INFO") == 0
    assert set_key(client, BROKER, "1", "log.roll.jitter.ms", "1000") == 0
    changes = [line for line in broker.output().splitlines() if "settings changed" in line]
    assert len(changes) == 1
    assert "log.roll.jitter.ms" in changes[0]
