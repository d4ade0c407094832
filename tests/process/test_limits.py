"""What one peer can cost a running broker."""

from __future__ import annotations

import re
import socket
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from sordini.protocol import codecs
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.headers import request_header
from sordini.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from sordini.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from sordini.protocol.served_apis import APIS
from tests.outside.processes import SordiniProcess
from tests.support.builders import a_batch
from tests.support.wire_client import PATIENCE_S, Client

Start = Callable[..., SordiniProcess]
Connect = Callable[..., Client]

MIB = 1024 * 1024


def resident_bytes(broker: SordiniProcess) -> int:
    found = re.search(r"^VmRSS:\s+(\d+) kB$", Path(f"/proc/{broker.pid}/status").read_text(), re.MULTILINE)
    assert found
    return int(found[1]) * 1024


def settled(client: Client) -> None:
    """Two requests of another client: everything that arrived before has been processed."""
    for _ in range(2):
        client.metadata()


def test_fifty_peers_that_announce_100_mib_cost_what_they_sent(start_sordini: Start, connect: Connect) -> None:
    broker = start_sordini()
    witness = connect(broker)
    settled(witness)
    before = resident_bytes(broker)
    for _ in range(50):
        connect(broker).socket.sendall(struct.pack(">i", 100 * MIB) + bytes(10))
    settled(witness)
    assert resident_bytes(broker) - before < 32 * MIB


def test_a_declared_count_costs_nothing(start_sordini: Start, connect: Connect) -> None:
    broker = start_sordini()
    witness = connect(broker)
    settled(witness)
    before = resident_bytes(broker)
    for key, version, body in [
        (ApiKey.METADATA, 1, struct.pack(">i", 2**31 - 1)),
        (ApiKey.METADATA, 9, b"\x00\xff\xff\xff\xff\x0f"),
        (ApiKey.PRODUCE, 3, struct.pack(">hhii", -1, 1, 1000, 50_000_000) + bytes(20)),
        (ApiKey.FETCH, 4, struct.pack(">iiiibi", -1, 0, 0, 0, 0, 2**31 - 1)),
    ]:
        frame = request_header(APIS[key], version, 1) + body
        client = connect(broker)
        client.socket.sendall(struct.pack(">i", len(frame)) + frame)
        assert client.is_closed()
    settled(witness)
    assert resident_bytes(broker) - before < 8 * MIB


def test_a_request_larger_than_configured_closes_its_connection(start_sordini: Start, connect: Connect) -> None:
    broker = start_sordini({"socket.request.max.bytes": 1000})
    head = len(request_header(APIS[ApiKey.API_VERSIONS], 0, 1, ""))
    client = connect(broker)
    frame = request_header(APIS[ApiKey.API_VERSIONS], 0, 1, "x" * (1000 - head))
    assert len(frame) == 1000
    client.socket.sendall(struct.pack(">i", 1000) + frame)
    (size,) = struct.unpack(">i", client.receive(4))
    client.receive(size)
    client.socket.sendall(struct.pack(">i", 1001))
    assert client.is_closed()
    assert "socket.request.max.bytes is 1000" in broker.output()


def from_address(broker: SordiniProcess, address: str) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", broker.port), timeout=PATIENCE_S, source_address=(address, 0))
    frame = request_header(APIS[ApiKey.API_VERSIONS], 0, 1)
    made.sendall(struct.pack(">i", len(frame)) + frame)
    return made


def is_served(peer: socket.socket) -> bool:
    try:
        return peer.recv(1) != b""
    except ConnectionError:
        return False


def test_an_address_has_so_many_connections_and_no_more(start_sordini: Start) -> None:
    # From other addresses: the check that the broker listens connects from 127.0.0.1.
    broker = start_sordini({"max.connections.per.ip": 3, "max.connections.per.ip.overrides": "127.0.0.9:1"})
    for address, bound in (("127.0.0.8", 3), ("127.0.0.9", 1)):
        peers = [from_address(broker, address) for _ in range(bound + 2)]
        assert [is_served(peer) for peer in peers] == [True] * bound + [False] * 2
        for peer in peers:
            peer.close()

        def another(address: str = address) -> bool:
            with from_address(broker, address) as peer:
                return is_served(peer)

        broker.wait_until(another, PATIENCE_S, f"take {address} in again after it hung up")


def test_a_peer_that_asks_nothing_is_closed_where_a_deadline_is_configured(
    start_sordini: Start, connect: Connect
) -> None:
    broker = start_sordini({"sordini.first.request.timeout.ms": 100})
    busy = connect(broker)
    busy.metadata()
    silent, slow = connect(broker), connect(broker)
    slow.socket.sendall(b"\x00\x00\x00\x13" + bytes(18))
    assert silent.is_closed()
    assert slow.is_closed()
    busy.metadata()


def test_a_request_that_trickles_in_is_closed_where_a_rate_is_configured(
    start_sordini: Start, connect: Connect
) -> None:
    broker = start_sordini({"sordini.request.bytes.per.second.min": 1_000_000})
    slow, quiet = connect(broker), connect(broker)
    quiet.metadata()
    slow.socket.sendall(struct.pack(">i", 20_000_000) + bytes(100))
    assert slow.is_closed()
    quiet.metadata()


@pytest.mark.parametrize("name", ["x\n2030-01-01T00:00:00 [error    ] forged", "x\r[error] forged", "\x1b[1Aforged"])
def test_a_client_id_forges_no_line(start_sordini: Start, connect: Connect, name: str) -> None:
    broker = start_sordini()
    client = connect(broker)
    data = [TopicProduceData(name=name, partition_data=[PartitionProduceData(index=0, records=a_batch())])]
    body = codecs.encode(ProduceRequest(acks=0, topic_data=data), 7)
    frame = request_header(APIS[ApiKey.PRODUCE], 7, 1, name) + body
    client.socket.sendall(struct.pack(">i", len(frame)) + frame)
    assert client.is_closed()
    lines = broker.output().splitlines()
    assert not [line for line in lines if re.match(r"\S* ?\[error *\] forged|forged", line)]
    assert "\x1b" not in broker.output()


def test_a_fetch_that_asks_for_everything_gets_the_configured_share(start_sordini: Start, connect: Connect) -> None:
    broker = start_sordini({"fetch.max.bytes": 4096})
    client = connect(broker)
    client.create("orders", partitions=4)
    batch = a_batch(value=bytes(1000))
    for _ in range(3):
        client.produce("orders", [batch] * 4)
    partitions = [FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=2**31 - 1) for index in range(4)]
    request = FetchRequest(max_bytes=2**31 - 1, topics=[FetchTopic(topic="orders", partitions=partitions)])
    rows = client.ask(ApiKey.FETCH, 12, request).responses[0].partitions
    assert [row.error_code for row in rows] == [0] * 4
    assert 0 < sum(len(row.records) for row in rows) <= 4096
    partitions[0].fetch_offset = -5
    rows = client.ask(ApiKey.FETCH, 12, request).responses[0].partitions
    assert rows[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
