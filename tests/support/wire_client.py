"""Requests over a blocking socket, spoken with this project's own codecs."""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from typing import Any, Self

from sordini.protocol import codecs
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.headers import read_response_header, request_header
from sordini.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from sordini.protocol.messages.delete_topics import DeleteTopicsRequest
from sordini.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from sordini.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from sordini.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from sordini.protocol.served_apis import ALL_APIS

PATIENCE_S = 20.0


class Client:
    """One connection."""

    def __init__(self, host: str, port: int, patience_s: float = PATIENCE_S) -> None:
        self.socket = socket.create_connection((host, port), timeout=patience_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.socket.close()

    def ask(self, key: ApiKey, version: int, request: Any, client_id: str = "test") -> Any:
        """The answer's message."""
        body = request_header(ALL_APIS[key], version, 1, client_id) + codecs.encode(request, version)
        self.socket.sendall(struct.pack(">i", len(body)) + body)
        (size,) = struct.unpack(">i", self.receive(4))
        frame = memoryview(self.receive(size))
        _, position = read_response_header(ALL_APIS[key], version, frame)
        return codecs.decode(ALL_APIS[key].response, version, frame, position)[0]

    def receive(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            chunk = self.socket.recv(size - len(data))
            if not chunk:
                raise ConnectionError(f"closed after {len(data)} of {size} bytes")
            data += chunk
        return bytes(data)

    def is_closed(self) -> bool:
        """Whether the peer closes the connection without sending anything."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True

    def metadata(self, *topics: str) -> MetadataResponse:
        named = [MetadataRequestTopic(name=name) for name in topics]
        return self.ask(ApiKey.METADATA, 12, MetadataRequest(topics=named, allow_auto_topic_creation=False))

    def create(self, *topics: str, partitions: int = 1, replicas: int = 1) -> list[int]:
        """Error codes."""
        wanted = [CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas) for name in topics]
        answer = self.ask(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=wanted, timeout_ms=20_000))
        return [row.error_code for row in answer.topics]

    def delete(self, topic: str) -> int:
        """The error code."""
        answer = self.ask(ApiKey.DELETE_TOPICS, 5, DeleteTopicsRequest(topic_names=[topic], timeout_ms=20_000))
        code: int = answer.responses[0].error_code
        return code

    def produce(self, topic: str, batches: Sequence[bytes], first: int = 0) -> list[PartitionProduceResponse]:
        """One batch for each partition from the first on."""
        rows = [PartitionProduceData(index=index, records=batch) for index, batch in enumerate(batches, first)]
        data = [TopicProduceData(name=topic, partition_data=rows)]
        answer = self.ask(ApiKey.PRODUCE, 9, ProduceRequest(acks=-1, timeout_ms=20_000, topic_data=data))
        return list(answer.responses[0].partition_responses)

    def fetch(self, topic: str, index: int = 0, offset: int = 0) -> bytes:
        wanted = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
        request = FetchRequest(topics=[FetchTopic(topic=topic, partitions=[wanted])])
        (row,) = self.ask(ApiKey.FETCH, 12, request).responses[0].partitions
        assert row.error_code == 0, row.error_code
        return bytes(row.records)
