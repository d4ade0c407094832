"""Three brokers with mutual TLS between them, and their certificates replaced while clients are connected."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from tests.cluster.conftest import PROTOCOLS
from tests.outside.java import ApacheKafkaProcess
from tests.outside.ports import free_port
from tests.outside.processes import SordiniProcess
from tests.support.certificates import Authority, java_store_settings
from tests.support.confluent_admin import admin_of

API_VERSIONS = bytes.fromhex("0000000a 0012 0000 00000001 0000")
CONNECTIONS = 1_000 if os.environ.get("SORDINI_MIXED") else 100
"""That are open while certificates are replaced."""
LOCATION = "listener.name.ssl.ssl.keystore.location"


class TlsCluster:
    """Brokers with a listener BROKERS for each other, which requires certificates, and SSL for clients."""

    def __init__(self, directory: Path, zookeeper: str) -> None:
        self.directory = directory
        self.authority = Authority()
        self.ca = self.authority.pem_file(directory / "ca.pem")
        self.brokers = [self._broker(number, zookeeper) for number in (1, 2, 3)]
        self.settings = {
            "bootstrap.servers": ",".join(broker.bootstrap for broker in self.brokers),
            "security.protocol": "ssl",
            "ssl.ca.location": str(self.ca),
        }

    def keys_of(self, number: int) -> Path:
        return self.directory / f"broker-{number}.pem"

    def _broker(self, number: int, zookeeper: str) -> SordiniProcess:
        settings = self.keys(number) | {"zookeeper.connect": zookeeper, "min.insync.replicas": 3}
        made = SordiniProcess(self.directory / f"broker-{number}", settings)
        made.overrides["listeners"] = f"SSL://{made.bootstrap},BROKERS://127.0.0.1:{free_port()}"
        return made

    def java_stores(self) -> dict[str, object]:
        """Stores that Apache Kafka 2.7 reads, too."""
        keys, trust = self.directory / "java.p12", self.directory / "java-trust.p12"
        self.authority.issue("java").pkcs12_file(keys)
        return java_store_settings(keys, self.authority.pkcs12_file(trust))

    def keys(self, number: int) -> dict[str, object]:
        """The settings of a broker, ours or Apache Kafka's; its keys are made."""
        self.authority.issue(f"broker-{number}").pem_file(self.keys_of(number))
        return {
            "broker.id": number,
            "listener.security.protocol.map": "SSL:SSL,BROKERS:SSL",
            "inter.broker.listener.name": "BROKERS",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self.keys_of(number),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.ca,
            "listener.name.brokers.ssl.client.auth": "required",
            "offsets.topic.replication.factor": 3,
            "group.initial.rebalance.delay.ms": 0,
        }


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, zookeeper: str) -> Iterator[TlsCluster]:
    made = TlsCluster(tmp_path_factory.mktemp("tls-cluster"), f"{zookeeper}/{uuid4().hex}")
    try:
        for broker in made.brokers:
            broker.start()
        yield made
    finally:
        for broker in made.brokers:
            broker.stop()


def test_records_are_replicated_by_all_and_read_by_a_group(cluster: TlsCluster, topic: str) -> None:
    admin = admin_of(cluster.settings)
    admin.create_topics([NewTopic(topic, 6, 3)])[topic].result(30)
    producer = Producer(cluster.settings | {"acks": "all"})
    failures: list[object] = []
    for number in range(600):
        producer.produce(
            topic, str(number).encode(), partition=number % 6, on_delivery=lambda error, _: failures.append(error)
        )
    assert producer.flush(60) == 0
    assert failures == [None] * 600, "min.insync.replicas=3: every broker has every record"
    consumer = Consumer(cluster.settings | {"group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: set[bytes] = set()
    while len(found) < 600:
        message = consumer.poll(30)
        assert message is not None
        found.add(message.value())
    consumer.close()


def test_a_peer_without_a_certificate_does_not_get_into_the_brokers_listener(cluster: TlsCluster) -> None:
    listeners = str(cluster.brokers[0].overrides["listeners"])
    port = int(listeners.rpartition(":")[2])
    context = ssl.create_default_context(cafile=cluster.ca)
    with pytest.raises(OSError, match=r"(?i)certificate.required|handshake.failure|reset"):
        _ask(("127.0.0.1", port), context)


def _ask(address: tuple[str, int], context: ssl.SSLContext) -> bytes:
    """The begin of the response to ApiVersions."""
    with socket.create_connection(address) as raw, context.wrap_socket(raw, server_hostname=address[0]) as secured:
        secured.sendall(API_VERSIONS)
        return secured.recv(4)


def _served_serial(address: str, ca: Path) -> int:
    host, _, port = address.rpartition(":")
    context = ssl.create_default_context(cafile=ca)
    with socket.create_connection((host, int(port))) as raw, context.wrap_socket(raw, server_hostname=host) as secured:
        shown = secured.getpeercert()
    assert shown is not None
    return int(str(shown["serialNumber"]), 16)


def _alter(cluster: TlsCluster, number: int, path: str) -> None:
    entry = ConfigEntry(LOCATION, path, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, str(number), incremental_configs=[entry])
    admin = admin_of(cluster.settings)  # Named: a client that is collected drops its requests.
    admin.incremental_alter_configs([resource])[resource].result(30)


def test_a_certificate_is_replaced_by_the_same_name_and_open_connections_stay(cluster: TlsCluster) -> None:
    broker, path = cluster.brokers[0], cluster.keys_of(1)
    context = ssl.create_default_context(cafile=cluster.ca)
    connections = [
        context.wrap_socket(socket.create_connection(("127.0.0.1", broker.port)), server_hostname="localhost")
        for _ in range(CONNECTIONS)
    ]
    newer = cluster.authority.issue("broker-1")
    newer.pem_file(path)
    _alter(cluster, 1, str(path))
    assert _served_serial(broker.bootstrap, cluster.ca) == newer.certificate.serial_number
    for one in connections:
        one.sendall(API_VERSIONS)
        assert len(one.recv(4)) == 4, "a response on a connection from before"
        one.close()


def test_a_bad_store_is_refused_and_the_former_stays(cluster: TlsCluster, tmp_path: Path) -> None:
    before = _served_serial(cluster.brokers[1].bootstrap, cluster.ca)
    (tmp_path / "bad.pem").write_text("garbage")
    for path in (tmp_path / "bad.pem", tmp_path / "missing.pem"):
        with pytest.raises(Exception, match=r"ssl\.keystore\.location"):
            _alter(cluster, 2, str(path))
    other = cluster.authority.issue("another-name").pem_file(tmp_path / "other.pem")
    with pytest.raises(Exception, match=r"ssl\.allow\.dn\.changes"):
        _alter(cluster, 2, str(other))
    assert _served_serial(cluster.brokers[1].bootstrap, cluster.ca) == before


def _produced(settings: dict[str, object], topic: str, partitions: int) -> list[object]:
    """The errors of a record for each partition, None for those that all in-sync replicas have."""
    producer = Producer(settings | {"acks": "all", "message.timeout.ms": 60_000})
    outcomes: list[object] = []
    for partition in range(partitions):
        producer.produce(topic, b"record", partition=partition, on_delivery=lambda error, _: outcomes.append(error))
    producer.flush(90)
    return outcomes


@pytest.mark.skipif(not os.environ.get("SORDINI_MIXED"), reason="one more Apache Kafka: with SORDINI_MIXED=all")
def test_a_broker_of_apache_kafka_and_ours_replicate_from_each_other_over_mutual_tls(
    tmp_path: Path, zookeeper: str, topic: str, version: str
) -> None:
    root = f"{zookeeper}/{uuid4().hex}"
    mixed = TlsCluster(tmp_path, root)
    ours = mixed.brokers[0]
    protocol = {"inter.broker.protocol.version": PROTOCOLS[version]}
    theirs = ApacheKafkaProcess(
        tmp_path / "apache", root, mixed.keys(4) | mixed.java_stores() | protocol, version=version
    )
    theirs.settings["listeners"] = f"SSL://{theirs.bootstrap},BROKERS://127.0.0.1:{free_port()}"
    ours.overrides |= {"min.insync.replicas": 2, "offsets.topic.replication.factor": 1, **protocol}
    with theirs, ours:
        settings = mixed.settings | {"bootstrap.servers": f"{ours.bootstrap},{theirs.bootstrap}"}
        admin = admin_of(settings)
        admin.create_topics([NewTopic(topic, 4, 2, config={"min.insync.replicas": "2"})])[topic].result(60)
        described = admin.list_topics(topic, timeout=60).topics[topic].partitions.values()
        assert {partition.leader for partition in described} == {1, 4}
        assert _produced(settings, topic, 4) == [None] * 4
