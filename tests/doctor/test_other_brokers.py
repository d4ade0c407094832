"""`sordini doctor` beside brokers of others: Apache Kafka with ZooKeeper and in KRaft mode, and Tansu."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.doctor.running import PROGRAM, Examined, examined
from tests.outside.java import ApacheKafkaProcess, KRaftProcess
from tests.outside.needs import kafka_jars
from tests.outside.ports import free_port
from tests.outside.tansu import TansuProcess
from tests.outside.versions import NEWEST_APACHE_KAFKA


def doctor(bootstrap: str, *more: str) -> Examined:
    return examined([PROGRAM, "doctor", bootstrap, *more])


def is_well(done: Examined) -> None:
    assert (done.wrong, done.status) == ([], 0), done.text
    assert any(check["step"] == "write" and check["ok"] for check in done.report["checks"]), done.text


def test_apache_kafka_on_zookeeper_is_well(apache_kafka: str) -> None:
    is_well(doctor(apache_kafka, "--write"))


@pytest.mark.slow
def test_apache_kafka_in_kraft_mode_is_well_and_its_faults_are_named(tmp_path: Path) -> None:
    kafka_jars(NEWEST_APACHE_KAFKA)
    with KRaftProcess(tmp_path) as broker:
        is_well(doctor(broker.bootstrap, "--write"))
        assert doctor(broker.bootstrap).wrong == []


@pytest.mark.slow
def test_names_that_apache_kafka_advertises_and_internal_topics_that_it_cannot_create_are_named(
    zookeeper: str, tmp_path: Path
) -> None:
    internal = f"INTERNAL://127.0.0.1:{free_port()}"
    settings: dict[str, object] = {
        "offsets.topic.replication.factor": 3,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT",
        "inter.broker.listener.name": "INTERNAL",
    }
    broker = ApacheKafkaProcess(tmp_path, f"{zookeeper}/doctor", settings)
    outside = f"PLAINTEXT://{broker.bootstrap}"
    broker.settings["listeners"] = f"{outside},{internal}"
    broker.settings["advertised.listeners"] = f"PLAINTEXT://kafka.invalid:9092,{internal}"
    with broker:
        assert doctor(broker.bootstrap).wrong == ["advertised-name-does-not-resolve"]
        broker.stop()
        broker.settings["advertised.listeners"] = f"{outside},{internal}"
        broker.start()
        assert doctor(broker.bootstrap).wrong == ["internal-topic-replication-too-high"]
        assert doctor(broker.bootstrap, "--write").wrong == ["no-coordinator"]


@pytest.mark.slow
def test_a_broker_of_apache_kafka_that_its_controller_does_not_reach_is_named(zookeeper: str, tmp_path: Path) -> None:
    settings = {"advertised.listeners": "PLAINTEXT://kafka.invalid:9092"}
    with ApacheKafkaProcess(tmp_path, f"{zookeeper}/unreached", settings) as broker:
        done = doctor(broker.bootstrap)
        assert done.wrong == ["no-broker-in-metadata"], done.text
        lines = done.finding("no-broker-in-metadata")["remedy"]["lines"]
        assert lines == [f"advertised.listeners=PLAINTEXT://{broker.bootstrap}"]


def test_tansu_is_well_and_a_name_that_it_advertises_is_tried(tmp_path: Path) -> None:
    with TansuProcess(tmp_path / "well") as broker:
        is_well(doctor(broker.bootstrap, "--write"))
    with TansuProcess(tmp_path / "advertised", "tansu-internal:9092") as broker:
        assert doctor(broker.bootstrap).wrong == ["advertised-name-does-not-resolve"]
