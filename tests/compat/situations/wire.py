"""A raw Kafka conversation over one blocking socket, and the broker it is held with."""

import socket
import struct
from typing import Any

from tests.compat.situations.definitions import Definitions, Values, varint
from tests.compat.situations.waiting import until

CLOSED = "the connection is closed"
SILENCE = "no answer"

_COORDINATOR_LOAD_IN_PROGRESS = 14

PATIENCE_S = 5.0
"""How long an answer may take before it counts as none."""


class Conversation:
    """One connection. Answers are plain values, or CLOSED, or SILENCE."""

    def __init__(self, host: str, port: int, definitions: Definitions, patience_s: float = PATIENCE_S) -> None:
        self._definitions = definitions
        self._socket = socket.create_connection((host, port), timeout=patience_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.client_id = "situations"
        self._correlation_id = 0
        self.is_closed = False
        """Nothing more can be asked here: the peer closed it, or an answer is still missing."""

    def close(self) -> None:
        self._socket.close()

    def send_raw(self, data: bytes) -> None:
        """Bytes as they are, without a length in front."""
        try:
            self._socket.sendall(data)
        except OSError:
            self.is_closed = True

    def send_frame(self, frame: bytes) -> None:
        self.send_raw(struct.pack(">i", len(frame)) + frame)

    def send_body(self, api: str, version: int, body: bytes) -> int:
        """A whole request whose body is given as bytes; returns its correlation id."""
        self._correlation_id += 1
        message = self._definitions.messages[f"{api}Request"]
        is_flexible = message.is_flexible(version)
        head = header(message.api_key, version, self._correlation_id, flexible=is_flexible, client_id=self.client_id)
        self.send_frame(head + body)
        return self._correlation_id

    def send(self, api: str, version: int, **fields: Any) -> int:
        return self.send_body(api, version, self._definitions.encode(f"{api}Request", version, fields))

    def receive_frame(self) -> bytes | str:
        try:
            size = self._receive_exactly(4)
            if size is None:
                return CLOSED
            frame = self._receive_exactly(struct.unpack(">i", size)[0])
        except TimeoutError:
            self.is_closed = True
            return SILENCE
        except ConnectionError:
            frame = None
        if frame is None:
            self.is_closed = True
            return CLOSED
        return frame

    def _receive_exactly(self, size: int) -> bytes | None:
        parts = bytearray()
        while len(parts) < size:
            part = self._socket.recv(size - len(parts))
            if not part:
                self.is_closed = True
                return None
            parts += part
        return bytes(parts)

    def receive(self, api: str, version: int, correlation_id: int) -> Any:
        """The next answer, which must be the one to this request."""
        frame = self.receive_frame()
        if isinstance(frame, str):
            return frame
        seen = struct.unpack_from(">i", frame)[0]
        if seen != correlation_id:
            raise ValueError(f"answer {seen} came where {correlation_id} was due")
        message = self._definitions.messages[f"{api}Response"]
        has_tags = message.is_flexible(version) and api != "ApiVersions"
        if has_tags and frame[4] != 0:
            raise ValueError("a tagged field in a response header")
        return self._definitions.decode(f"{api}Response", version, frame[5 if has_tags else 4 :])

    def ask(self, api: str, version: int, **fields: Any) -> Any:
        return self.receive(api, version, self.send(api, version, **fields))

    def ask_with_body(self, api: str, version: int, body: bytes) -> Any:
        return self.receive(api, version, self.send_body(api, version, body))


def header(
    api_key: int, version: int, correlation_id: int, *, flexible: bool, client_id: str | None = "situations"
) -> bytes:
    """A request header, version 1 or (flexible) 2."""
    name = b"\xff\xff" if client_id is None else struct.pack(">h", len(client_id)) + client_id.encode()
    return struct.pack(">hhi", api_key, version, correlation_id) + name + (varint(0) if flexible else b"")


class Broker:
    """The broker under test: connections to it and the few steps every situation begins with."""

    def __init__(self, host: str, port: int, definitions: Definitions, prefix: str) -> None:
        self.host = host
        self.port = port
        self.definitions = definitions
        self.prefix = prefix
        self._shared: Conversation | None = None

    def connect(self) -> Conversation:
        """A connection of its own, which the caller closes."""
        return Conversation(self.host, self.port, self.definitions)

    def close(self) -> None:
        if self._shared is not None:
            self._shared.close()
            self._shared = None

    def ask(self, api: str, version: int, **fields: Any) -> Any:
        """Ask over the shared connection, opened again when the last question ended it."""
        if self._shared is None or self._shared.is_closed:
            self.close()
            self._shared = self.connect()
        return self._shared.ask(api, version, **fields)

    def name(self, topic: str) -> str:
        return f"{self.prefix}-{topic}"

    def create(self, topic: str, partitions: int = 1, **configs: str) -> str:
        """Create a topic and return its full name."""
        name = self.name(topic)
        answer = self.ask(
            "CreateTopics",
            5,
            timeout_ms=10_000,
            topics=[
                {
                    "name": name,
                    "num_partitions": partitions,
                    "replication_factor": 1,
                    "configs": [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()],
                }
            ],
        )
        error = answer["topics"][0]["error_code"]
        if error != 0:
            raise AssertionError(f"topic {name}: error {error} {answer}")
        return name

    def create_led(self, topic: str, partitions: int = 1) -> str:
        """As `create`, once the broker leads it: without ZooKeeper a topic is there before its partitions are."""
        name = self.create(topic, partitions)
        rows = [{"partition_index": index, "timestamp": -1} for index in range(partitions)]

        def codes() -> list[int]:
            answer = self.ask("ListOffsets", 5, replica_id=-1, topics=[{"name": name, "partitions": rows}])
            return [row["error_code"] for row in answer["topics"][0]["partitions"]]

        assert until(codes, lambda seen: not any(seen)) == [0] * partitions
        return name

    def topic_id(self, name: str) -> bytes:
        """The id the broker gave to a topic."""
        answer = self.ask("Metadata", 12, topics=[{"name": name}], allow_auto_topic_creation=False)
        topic_id: bytes = answer["topics"][0]["topic_id"]
        return topic_id

    def produce(
        self, topic: str, records: bytes | None, *, partition: int = 0, version: int = 9, acks: int = -1
    ) -> Any:
        """The partition's answer to one produce request."""
        answer = self.ask("Produce", version, **produce_fields(topic, records, partition=partition, acks=acks))
        return answer if isinstance(answer, str) else answer["responses"][0]["partition_responses"][0]

    def new_producer_id(self) -> int:
        """An id for an idempotent producer; a broker that fetches more of them first says COORDINATOR_LOAD_IN_PROGRESS."""
        answer = until(
            lambda: self.ask("InitProducerId", 1, transactional_id=None, transaction_timeout_ms=1_000),
            lambda seen: seen["error_code"] != _COORDINATOR_LOAD_IN_PROGRESS,
        )
        producer_id: int = answer["producer_id"]
        assert producer_id >= 0, answer
        return producer_id

    def alive(self) -> bool:
        """Whether a fresh connection is still served."""
        conversation = self.connect()
        try:
            answer = conversation.ask("ApiVersions", 0)
        finally:
            conversation.close()
        return not isinstance(answer, str)


def produce_fields(topic: str, records: bytes | None, *, partition: int = 0, acks: int = -1) -> Values:
    return {
        "acks": acks,
        "timeout_ms": 5_000,
        "topic_data": [{"name": topic, "partition_data": [{"index": partition, "records": records}]}],
    }
