"""Clients of librdkafka and of Java push their metrics, and are seen: by `sordini clients` and by Prometheus (KIP-714)."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, Producer

from tests.compat.telemetry.reporting_kafka import compiled
from tests.console.console_process import ConsoleProcess, words
from tests.outside.java import SHORT_LIVED, java_command
from tests.outside.ports import free_port
from tests.outside.processes import SordiniProcess
from tests.outside.versions import NEWEST_APACHE_KAFKA
from tests.process.test_cli import run_here
from tests.support.polling import eventually

PUSHER: Final = Path(__file__).with_name("telemetry") / "Pusher.java"
JAVA, LIBRDKAFKA = "apache-kafka-java", "rdkafka-"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SordiniProcess]:
    settings = {
        "sordini.client.telemetry.enable": "true",
        "sordini.metrics.port": free_port(),
        "offsets.topic.num.partitions": 1,
        "group.initial.rebalance.delay.ms": 0,
    }
    with SordiniProcess(tmp_path_factory.mktemp("pushing"), settings) as process:
        run_here(process.bootstrap, "configs", "set", "--client-metrics", "all", "metrics=*", "interval.ms=200")
        run_here(process.bootstrap, "topics", "create", "pushed")
        yield process


def clients(broker: SordiniProcess, software: str) -> list[dict[str, Any]]:
    """Those that have pushed."""
    found = json.loads(run_here(broker.bootstrap, "clients", "list", "--json").stdout)
    return [row for row in found if row["pushes"] and software in f"{row['software_name']} {row['software_version']}"]


def known(broker: SordiniProcess) -> tuple[list[dict[str, Any]], str]:
    """All that is known of clients, but for their metrics, and what the broker has logged."""
    rows = json.loads(run_here(broker.bootstrap, "clients", "list", "--json").stdout)
    named = [{**row, "metrics": sorted(figure["name"] for figure in row["metrics"])} for row in rows]
    return named, broker.tail()


def described(broker: SordiniProcess, row: dict[str, Any]) -> dict[str, float]:
    (found,) = json.loads(run_here(broker.bootstrap, "clients", "describe", row["client_instance_id"], "--json").stdout)
    return {figure["name"]: figure["value"] for figure in found["metrics"]}


def scraped(broker: SordiniProcess) -> str:
    port = broker.overrides["sordini.metrics.port"]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
        return str(answer.read().decode())


def client_lag(broker: SordiniProcess) -> int | None:
    (group,) = json.loads(run_here(broker.bootstrap, "groups", "lag", "pushers", "--json").stdout)
    lags = [row["client_lag"] for row in group["partitions"] if row["client_lag"] is not None]
    return sum(lags) if lags else None


def test_clients_of_librdkafka_push_and_are_seen(broker: SordiniProcess) -> None:
    common = {"bootstrap.servers": broker.bootstrap, "client.id": "confluent", "enable.metrics.push": True}
    producer = Producer(common)
    consumer = Consumer({**common, "group.id": "confluent", "auto.offset.reset": "earliest"})
    consumer.subscribe(["pushed"])

    def both() -> list[dict[str, Any]] | None:
        producer.produce("pushed", b"value")
        producer.flush(10)
        consumer.poll(0.1)
        kinds = {name.split(".")[3] for row in clients(broker, LIBRDKAFKA) for name in described(broker, row)}
        return clients(broker, LIBRDKAFKA) if kinds >= {"producer", "consumer"} else None

    try:
        rows = eventually(both, "both push")
    finally:
        consumer.close()
    assert {row["client_id"] for row in rows} == {"confluent"}
    assert {(row["last_error"], row["metrics_dropped"], row["address"]) for row in rows} == {(None, 0, "127.0.0.1")}
    text = scraped(broker)
    series = [line for line in text.splitlines() if line.startswith("sordini_client_metric{")]
    assert all(any(row["client_instance_id"] in line for line in series) for row in rows)
    assert 'sordini_client_telemetry_pushes_total{error="NONE"}' in text


def test_clients_of_java_push_and_are_seen_with_their_lag_and_latency(broker: SordiniProcess, tmp_path: Path) -> None:
    classes = compiled(tmp_path / "classes", PUSHER)
    command = java_command("Pusher", [broker.bootstrap, "pushed"], NEWEST_APACHE_KAFKA, SHORT_LIVED)
    path = command.index("-cp") + 1
    command[path] = f"{classes}:{command[path]}"
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        try:
            instances = next(
                line for line in program.stdout if len(line.split()) == 2 and len(line.split()[0]) == 22
            ).split()

            def both() -> dict[str, dict[str, Any]] | None:
                rows = {row["client_instance_id"]: row for row in clients(broker, JAVA)}
                if not rows.keys() >= set(instances):
                    return None
                is_ready = (
                    rows[instances[1]]["lag_max"] is not None
                    and rows[instances[0]]["request_latency_avg_ms"] is not None
                )
                return rows if is_ready else None

            rows = eventually(both, f"{instances} push", instead=lambda: (program.poll(), known(broker)))
            producer, consumer = (rows[one] for one in instances)
            assert {row["client_id"] for row in (producer, consumer)} == {"java-pusher"}
            assert {row["software_version"] for row in (producer, consumer)} == {NEWEST_APACHE_KAFKA}
            assert consumer["lag_max"] >= 0
            assert "org.apache.kafka.consumer.fetch.manager.records.lag.max" in described(broker, consumer)
            assert (consumer["group"], producer["group"]) == ("pushers", None)
            eventually(lambda: client_lag(broker) is not None, "the group's lag has what its member says")
            assert "CLIENT'S LAG" in run_here(broker.bootstrap, "groups", "lag", "pushers", "--all").stdout
            with ConsoleProcess(tmp_path / "console", broker.bootstrap) as console:
                assert "Client's lag" in words(console.logged_in().get("/group?name=pushers").text)
            assert described(broker, producer)["org.apache.kafka.producer.record.send.total"] > 0
            shown = run_here(broker.bootstrap, "clients", "list").stdout
            assert all(one in shown for one in instances)
        finally:
            program.stdin.write("end\n")
            program.stdin.close()
            program.wait(60)
    ended = {row["client_instance_id"]: row for row in clients(broker, JAVA)}
    assert all(ended[one]["last_error"] is None for one in instances)
