"""Frames no client should send: each must end its own connection and nothing else."""

import struct
from typing import Any

from tests.compat.situations.definitions import Values, varint
from tests.compat.situations.registry import situation
from tests.compat.situations.wire import Broker, header

SERVED = {
    "Produce": (0, 3, 99),
    "Fetch": (1, 4, 99),
    "ListOffsets": (2, 1, 99),
    "Metadata": (3, 1, 99),
    "FindCoordinator": (10, 0, 99),
    "CreateTopics": (19, 2, 99),
    "DeleteTopics": (20, 1, 99),
    "InitProducerId": (22, 0, 99),
    "OffsetForLeaderEpoch": (23, 2, 99),
    "DescribeConfigs": (32, 1, 99),
    "DescribeCluster": (60, 0, 99),
}
"""API key, a version that is served, and one that is not."""


def _fate(broker: Broker, frame: bytes, *, raw: bool = False) -> Any:
    """The state of the connection, and whether the broker still answers."""
    conversation = broker.connect()
    try:
        if raw:
            conversation.send_raw(frame)
        else:
            conversation.send_frame(frame)
        answer = conversation.receive_frame()
    finally:
        conversation.close()
    seen = answer if isinstance(answer, str) else answer.hex()
    return {"connection": seen, "broker answers": broker.alive()}


@situation("an unknown, a negative and an inter-broker-only API key close the connection")
def unknown_keys(broker: Broker) -> Any:
    return {key: _fate(broker, header(key, 0, 1, flexible=False) + bytes(8)) for key in (-1, 999, 32767, -32768)}


@situation("an unsupported version of each served API closes the connection")
def unsupported_versions(broker: Broker) -> Any:
    return {
        name: _fate(broker, header(key, newest, 1, flexible=True) + bytes(64))
        for name, (key, _, newest) in SERVED.items()
    }


@situation("a negative version of each served API closes the connection")
def negative_versions(broker: Broker) -> Any:
    return {name: _fate(broker, header(key, -1, 1, flexible=False) + bytes(64)) for name, (key, _, _) in SERVED.items()}


@situation("a frame shorter than any header closes the connection")
def short_header(broker: Broker) -> Any:
    return {size: _fate(broker, header(3, 1, 1, flexible=False)[:size]) for size in (1, 3, 7, 9, 12)}


@situation("a client id longer than the frame closes the connection")
def long_client_id(broker: Broker) -> Any:
    return _fate(broker, struct.pack(">hhih", 3, 1, 1, 30_000) + b"short")


@situation("a frame size of -1, 0, 2^31-1 or 100 MiB + 1 closes the connection")
def frame_sizes(broker: Broker) -> Any:
    sizes = (-1, 0, 2**31 - 1, 100 * 2**20 + 1)
    return {size: _fate(broker, struct.pack(">i", size) + b"x" * 16, raw=True) for size in sizes}


@situation("an HTTP request and a TLS hello close the connection")
def other_protocols(broker: Broker) -> Any:
    hello = bytes.fromhex("16030100c8010000c40303") + bytes(200)
    return {
        "http": _fate(broker, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", raw=True),
        "tls": _fate(broker, hello, raw=True),
    }


@situation("a varint that never ends closes the connection")
def endless_varint(broker: Broker) -> Any:
    endless = b"\xff" * 10
    return {
        "in the header": _fate(broker, header(3, 9, 1, flexible=False) + endless),
        "in the body": _fate(broker, header(3, 9, 1, flexible=True) + endless),
    }


@situation("an array count of 2^31-1 closes the connection")
def huge_array(broker: Broker) -> Any:
    narrow = struct.pack(">i", 2**31 - 1)
    return {
        "Metadata v1": _fate(broker, header(3, 1, 1, flexible=False) + narrow),
        "Metadata v9": _fate(broker, header(3, 9, 1, flexible=True) + varint(2**32 - 1)),
        "Produce v3": _fate(broker, header(0, 3, 1, flexible=False) + b"\xff\xff" + bytes(6) + narrow + bytes(20)),
        "Fetch v4": _fate(broker, header(1, 4, 1, flexible=False) + bytes(17) + narrow + bytes(20)),
    }


@situation("an array count below -1 counts as null")
def negative_array(broker: Broker) -> Any:
    body = struct.pack(">i", -2)
    conversation = broker.connect()
    try:
        answer = conversation.ask_with_body("Metadata", 1, body)
        return answer if isinstance(answer, str) else "answered as for all topics"
    finally:
        conversation.close()


@situation("a null where the definition allows none closes the connection")
def null_not_allowed(broker: Broker) -> Any:
    return {
        "null topic name": _fate(broker, header(3, 1, 1, flexible=False) + struct.pack(">ih", 1, -1)),
        "null topic array": _fate(broker, header(3, 0, 1, flexible=False) + struct.pack(">i", -1)),
    }


@situation("a tagged field longer than the frame closes the connection")
def long_tagged_field(broker: Broker) -> Any:
    tag = varint(1) + varint(5) + varint(2**31 - 1)
    return {
        "in the header": _fate(broker, header(3, 9, 1, flexible=False) + tag),
        "in the body": _fate(broker, header(3, 9, 1, flexible=True) + varint(0) + bytes(3) + tag),
    }


@situation("bytes left over behind a whole request")
def trailing_bytes(broker: Broker) -> Any:
    seen = {}
    cases: list[tuple[str, int, Values]] = [
        ("ApiVersions", 0, {}),
        ("Metadata", 1, {"topics": []}),
        ("Metadata", 9, {"topics": []}),
        ("InitProducerId", 0, {"transactional_id": None, "transaction_timeout_ms": 1000}),
    ]
    for api, version, fields in cases:
        body = broker.definitions.encode(f"{api}Request", version, fields)
        conversation = broker.connect()
        try:
            answer = conversation.ask_with_body(api, version, body + b"\x00\x01\x02")
        finally:
            conversation.close()
        seen[f"{api} v{version}"] = answer if isinstance(answer, str) else "answered as if they were not there"
    return seen


@situation("an unknown tagged field in header and body is skipped")
def unknown_tagged_field(broker: Broker) -> Any:
    tag = varint(1) + varint(77) + varint(3) + b"abc"
    body = varint(1) + bytes(1) + b"\x00\x00" + tag
    conversation = broker.connect()
    try:
        conversation.send_frame(header(3, 9, 5, flexible=False) + tag + body)
        answer = conversation.receive_frame()
    finally:
        conversation.close()
    return answer if isinstance(answer, str) else struct.unpack_from(">i", answer)[0]


@situation("requests sent together are answered in their order")
def pipelined(broker: Broker) -> Any:
    topic = broker.create("pipelined")
    conversation = broker.connect()
    waiting = {
        "replica_id": -1,
        "max_wait_ms": 300,
        "min_bytes": 1,
        "topics": [{"topic": topic, "partitions": [{"partition": 0, "partition_max_bytes": 1000}]}],
    }
    try:
        ids = [
            ("Fetch", 4, conversation.send("Fetch", 4, **waiting)),
            ("ApiVersions", 0, conversation.send("ApiVersions", 0)),
            ("Metadata", 1, conversation.send("Metadata", 1, topics=[])),
            ("Fetch", 4, conversation.send("Fetch", 4, **waiting)),
            ("ApiVersions", 2, conversation.send("ApiVersions", 2)),
        ]
        return [type(conversation.receive(*asked)).__name__ for asked in ids]
    finally:
        conversation.close()


@situation("a request that comes one byte at a time is answered")
def one_byte_at_a_time(broker: Broker) -> Any:
    frame = header(18, 0, 3, flexible=False)
    conversation = broker.connect()
    try:
        for byte in struct.pack(">i", len(frame)) + frame:
            conversation.send_raw(bytes([byte]))
        answer = conversation.receive_frame()
    finally:
        conversation.close()
    return answer if isinstance(answer, str) else struct.unpack_from(">ih", answer)


@situation("SaslHandshake on a PLAINTEXT listener")
def sasl_handshake(broker: Broker) -> Any:
    return {version: broker.ask("SaslHandshake", version, mechanism="PLAIN") for version in (0, 1)}


@situation("SaslAuthenticate on a PLAINTEXT listener")
def sasl_authenticate(broker: Broker) -> Any:
    return broker.ask("SaslAuthenticate", 1, auth_bytes=b"\0user\0secret")
