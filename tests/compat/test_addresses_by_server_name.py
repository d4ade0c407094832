"""Advertised addresses by the TLS server name that clients send, and by nothing where they send none."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient

from tests.compat import round_trips
from tests.outside.processes import SordiniProcess
from tests.support.certificates import PASSWORD, Authority
from tests.support.wire_client import Client


class Tunnelled:
    """A broker that is `localhost` for clients that send this name, and 127.0.0.1 for others."""

    def __init__(self, directory: Path) -> None:
        authority = Authority()
        self.ca = str(authority.pem_file(directory / "ca.pem"))
        authority.issue("broker").pkcs12_file(directory / "broker.p12")
        self.broker = SordiniProcess(
            directory / "broker",
            {
                "group.initial.rebalance.delay.ms": 0,
                "ssl.keystore.type": "PKCS12",
                "ssl.keystore.location": directory / "broker.p12",
                "ssl.keystore.password": PASSWORD,
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": self.ca,
                "security.inter.broker.protocol": "SSL",
            },
        )
        self.port = self.broker.port
        self.broker.overrides |= {
            "listeners": f"SSL://:{self.port}",
            "advertised.listeners": f"SSL://127.0.0.1:{self.port}",
            "sordini.advertised.listeners.rules": f"TUNNEL://localhost:{self.port} sni=localhost,*.example.org",
        }

    def context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.ca)

    def addresses(self, server_name: bytes | None, host: str = "127.0.0.1") -> list[str]:
        """What a connection with this server name is answered with; refused: raises OSError."""
        context = self.context()
        context.check_hostname = False
        with Client(host, self.port) as client:
            name = None if server_name is None else server_name.decode("ascii")
            client.socket = context.wrap_socket(client.socket, server_hostname=name)
            return [row.host for row in client.metadata().brokers]


@pytest.fixture(scope="module")
def tunnelled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tunnelled]:
    made = Tunnelled(tmp_path_factory.mktemp("sni"))
    with made.broker:
        yield made


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        (None, "127.0.0.1"),
        (b"localhost", "localhost"),
        (b"LOCALHOST", "localhost"),
        (b"a.example.org", "localhost"),
        (b"a.b.example.org", "127.0.0.1"),
        (b"example.org", "127.0.0.1"),
    ],
)
def test_the_server_name_decides(tunnelled: Tunnelled, name: bytes | None, wanted: str) -> None:
    assert tunnelled.addresses(name) == [wanted]


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_kafka_python_receives_the_name_that_it_sent(tunnelled: Tunnelled, topic: str, host: str) -> None:
    settings: dict[str, Any] = {
        "bootstrap_servers": f"{host}:{tunnelled.port}",
        "security_protocol": "SSL",
        "ssl_context": tunnelled.context(),
    }
    admin = KafkaAdminClient(**settings)
    try:
        assert [row["host"] for row in admin.describe_cluster()["brokers"]] == [host]
    finally:
        admin.close()
    round_trips.by_kafka_python(topic, settings)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_librdkafka_receives_the_name_that_it_sent(tunnelled: Tunnelled, topic: str, host: str) -> None:
    settings = {
        "bootstrap.servers": f"{host}:{tunnelled.port}",
        "security.protocol": "ssl",
        "ssl.ca.location": tunnelled.ca,
    }
    brokers = AdminClient(settings).list_topics(timeout=30).brokers
    assert [broker.host for broker in brokers.values()] == [host]
    round_trips.by_librdkafka(topic, settings)


def test_a_server_name_that_is_no_text_is_refused_and_the_broker_serves_on(tunnelled: Tunnelled) -> None:
    """OpenSSL takes any bytes for a name, and Python none but ASCII."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = tunnelled.context()
    context.check_hostname = False
    client = context.wrap_bio(incoming, outgoing, server_hostname="placeholder.example")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    hello = outgoing.read().replace(b"placeholder.example", b"\xff\xfeaceholder.example")
    with socket.create_connection(("127.0.0.1", tunnelled.port), timeout=20) as peer:
        peer.sendall(hello)
        answer = peer.recv(1024)
    assert answer[:1] == b"\x15", "an alert"
    assert tunnelled.addresses(b"localhost") == ["localhost"]
    log = tunnelled.broker.output()
    assert "TLS handshake failed" in log
    assert "Traceback" not in log, "peers would write as many lines as they like"
