"""The client at listeners that are no brokers, that break off, or that speak TLS."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sordini.client.blocking import BlockingConnection
from sordini.client.connection import ClientConnection
from sordini.client.errors import Disconnected
from sordini.pipeline.source.client import Client, Unauthorized, Unreachable
from sordini.pipeline.source.client.connection_pool import RESPONSE_BYTES_MAX
from sordini.pipeline.source.client.settings import Address
from sordini.pipeline.source.client.transport import connect
from sordini.protocol.messages.api_versions import ApiVersionsRequest
from sordini.protocol.types import TopicPartition
from tests.outside.ports import free_port
from tests.outside.processes import SordiniProcess
from tests.pipeline.certificates import make_certificates
from tests.pipeline.other_servers import listener, tls_before
from tests.pipeline.sent import KEEP, fill
from tests.pipeline.test_client import decoded, settings
from tests.pipeline.topics import Place
from tests.support.alone import Alone, traced_peak_bytes


def answering(data: bytes) -> Callable[[socket.socket], None]:
    def serve(connection: socket.socket) -> None:
        connection.recv(65_536)
        connection.sendall(data)

    return serve


def refusal(port: int, **options: object) -> str:
    with Client(settings(f"127.0.0.1:{port}", **options)) as client, pytest.raises(Unreachable) as caught:
        client.check()
    return str(caught.value)


@pytest.mark.parametrize(
    ("data", "reported"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "speaks HTTP: is this a Kafka listener?"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "speaks SSH: is this a Kafka listener?"),
        (b"\x15\x03\x03\x00\x02\x02\x50", "speaks TLS: is kafka.security.protocol right?"),
        (b"\xff" * 100, "does not answer as a broker does: is this a Kafka listener?"),
        (b"\0" * 100, "does not answer as a broker does: is this a Kafka listener?"),
        (struct.pack(">ii", 104, 1) + b"\0" * 10, "closed the connection before it answered"),
        (struct.pack(">ii", 8, 77) + b"\0" * 4, "sent response 77 where 1 was due"),
        (struct.pack(">ii", 24, 1) + b"\0\0" + b"\xff" * 18, "cannot be read"),
        (b"", "closed the connection before it answered: is kafka.security.protocol right?"),
    ],
)
def test_what_is_no_broker_is_reported_for_what_it_is(data: bytes, reported: str) -> None:
    with listener(answering(data)) as port:
        assert reported in refusal(port)


def test_a_listener_that_is_silent_is_given_up() -> None:
    with listener(lambda connection: connection.recv(65_536) and connection.recv(1) and None) as port:
        assert "gave no answer within 0.2 s" in refusal(port, request_timeout_ms=200)


def test_no_listener_at_the_address_is_reported() -> None:
    assert "connection refused" in refusal(free_port())
    with (
        Client(settings("host.invalid:9092")) as client,
        pytest.raises(Unreachable, match=r"cannot reach host\.invalid"),
    ):
        client.check()


def read_what_is_announced() -> None:
    announced = struct.pack(">ii", 500 * 1024 * 1024, 1) + b"\0" * 1_000
    with listener(answering(announced)) as port:
        address = Address("127.0.0.1", port)
        transport = connect(address, settings(str(address)))
        protocol = ClientConnection("spark", RESPONSE_BYTES_MAX)
        connection = BlockingConnection(transport, protocol, time.monotonic, timeout_s=30)
        try:
            with pytest.raises(Disconnected, match="closed the connection"):
                connection.request(ApiVersionsRequest(), 0)
        finally:
            connection.close()


def test_memory_follows_the_bytes_received_and_not_a_length(alone: Alone) -> None:
    assert alone(traced_peak_bytes, read_what_is_announced) < 20 * 1024 * 1024


def test_a_broker_behind_tls_is_read_from_and_not_without_trust(tmp_path: Path) -> None:
    certificates, inside = make_certificates(tmp_path / "certificates"), free_port()
    with tls_before(inside, certificates) as port:
        broker = SordiniProcess(tmp_path / "sordini")
        plain = f"PLAINTEXT://{broker.bootstrap}"
        broker.overrides |= {
            "listeners": f"{plain},BEHIND://127.0.0.1:{inside}",
            "advertised.listeners": f"{plain},BEHIND://127.0.0.1:{port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BEHIND:PLAINTEXT",
        }
        with broker:
            topic, partition = "behind", TopicPartition("behind", 0)
            Place(broker.bootstrap).make_topic(name=topic, configs=KEEP)
            sent = fill(broker.bootstrap, topic, 5_000, partitions=1)
            tls = settings(f"127.0.0.1:{port}", security_protocol="SSL", ssl_truststore_location=certificates.authority)
            with Client(tls) as client:
                assert decoded(client.read(partition, 0, 5_000), partition, 0, 5_000) == sent
            without_trust = Client(settings(f"127.0.0.1:{port}", security_protocol="SSL"))
            with without_trust, pytest.raises(Unauthorized, match="not trusted here"):
                without_trust.check()
