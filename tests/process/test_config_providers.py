"""Brokers and commands whose settings are in other files; clients that name such files get nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from tests.outside.processes import SordiniProcess

SECRET = "12345678901"
PROVIDERS = "org.apache.kafka.common.config.provider"
WAIT_S_MAX = 20


def settings(directory: Path) -> dict[str, object]:
    (directory / "secrets.properties").write_text(f"age={SECRET}\npassword=hush-hush\n")
    return {
        "config.providers": "file",
        "config.providers.file.class": f"{PROVIDERS}.FileConfigProvider",
        "config.providers.file.param.allowed.paths": directory,
        "log.retention.ms": f"${{file:{directory}/secrets.properties:age}}",
        "ssl.keystore.password": f"${{file:{directory}/secrets.properties:password}}",
    }


def described(client: AdminClient, kind: ResourceType, name: str) -> dict[str, ConfigEntry]:
    (future,) = client.describe_configs([ConfigResource(kind, name)]).values()
    found: dict[str, ConfigEntry] = future.result(WAIT_S_MAX)
    return found


def set_key(client: AdminClient, kind: ResourceType, name: str, key: str, value: str) -> None:
    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
    (future,) = client.incremental_alter_configs([ConfigResource(kind, name, incremental_configs=[entry])]).values()
    future.result(WAIT_S_MAX)


def test_a_value_that_was_read_has_effect_and_is_shown_nowhere_and_clients_read_no_file(
    start_sordini: Callable[..., SordiniProcess], tmp_path: Path
) -> None:
    broker = start_sordini({"broker.id": 1, **settings(tmp_path)})
    client = AdminClient({"bootstrap.servers": broker.bootstrap})
    client.create_topics([NewTopic("orders", 1)])["orders"].result(WAIT_S_MAX)
    for kind, name, key in (
        (ResourceType.BROKER, "1", "log.retention.ms"),
        (ResourceType.TOPIC, "orders", "retention.ms"),
        (ResourceType.BROKER, "1", "ssl.keystore.password"),
    ):
        entry = described(client, kind, name)[key]
        assert (entry.value, entry.is_sensitive) == (None, True)
        assert all(synonym.value is None for synonym in entry.synonyms.values())
    reference = f"${{file:{tmp_path}/secrets.properties:age}}"
    for kind, name, key in (
        (ResourceType.TOPIC, "orders", "retention.ms"),
        (ResourceType.BROKER, "1", "log.retention.ms"),
        (ResourceType.BROKER, "1", "message.max.bytes"),
    ):
        with pytest.raises(KafkaException, match="allowed is a whole number"):
            set_key(client, kind, name, key, reference)
    set_key(client, ResourceType.BROKER, "1", "nobodys.entry", reference)
    broker.restart()
    assert SECRET not in broker.output()
    assert "hush" not in broker.output()
    stored = (broker.data_directory / "coordination.sqlite").read_bytes()
    assert SECRET.encode() not in stored


def test_a_command_reads_its_file_with_providers(start_sordini: Callable[..., SordiniProcess], tmp_path: Path) -> None:
    broker = start_sordini()
    keys = settings(tmp_path)
    keys = {key: text for key, text in keys.items() if key.startswith("config.")}
    (tmp_path / "protocol").write_text("PLAINTEXT")
    file = tmp_path / "client.properties"
    for name, status in (("PLAINTEXT", 0), ("hush-hush", 2)):
        (tmp_path / "more.properties").write_text(f"protocol={name}")
        protocol = {"security.protocol": f"${{file:{tmp_path}/more.properties:protocol}}"}
        file.write_text("".join(f"{key}={text}\n" for key, text in {**keys, **protocol}.items()))
        program = str(Path(sys.prefix) / "bin" / "sordini")
        words = [program, "ping", "--bootstrap", broker.bootstrap, "--command-config", str(file)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=WAIT_S_MAX, check=False)
        assert done.returncode == status, done.stderr
        assert "hush" not in done.stderr
    assert "security.protocol=(hidden) is not valid" in done.stderr
