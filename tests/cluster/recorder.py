"""A broker that is none: it is registered, answers as little as it can, and notes what other brokers ask of it.

It speaks with this project's own messages. Whether these are right is for the golden bytes and for real brokers to
say; here it is about which requests are sent, in which versions, by which broker.
"""

from __future__ import annotations

import socketserver
import struct
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, Self

from sordini.protocol import codecs
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.headers import read_request_header
from sordini.protocol.messages.allocate_producer_ids import AllocateProducerIdsResponse
from sordini.protocol.messages.alter_partition import (
    AlteredPartitionData,
    AlteredTopicData,
    AlterPartitionResponse,
)
from sordini.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from sordini.protocol.messages.controlled_shutdown import ControlledShutdownResponse, RemainingPartition
from sordini.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from sordini.protocol.messages.leader_and_isr import LeaderAndIsrResponse
from sordini.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from sordini.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from sordini.protocol.messages.stop_replica import StopReplicaResponse
from sordini.protocol.messages.update_metadata import UpdateMetadataResponse
from sordini.protocol.served_apis import APIS
from tests.cluster.tree import Tree
from tests.support.response_headers import response_header

_LONG_POLL_SECONDS = 0.05


class Frame(NamedTuple):
    """One request; `connection` numbers the connections."""

    connection: int
    key: ApiKey
    version: int
    client_id: str | None
    request: Any


class Peer:
    """One such broker. `serves` are the versions it claims in its answer to ApiVersions."""

    def __init__(self, broker_id: int, serves: dict[ApiKey, tuple[int, int]]) -> None:
        self.broker_id = broker_id
        self.serves = serves
        self.frames: list[Frame] = []
        self.fetch_error = 0
        """What a Fetch is answered with."""
        self.handing_over: deque[Callable[[], None]] = deque()
        """As the controller: done one by one before an answer to ControlledShutdown that asks for patience."""
        self._closing = threading.Event()
        self._server = _Server(("127.0.0.1", 0), self._made)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self.port = int(self._server.server_address[1])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

    def register(self, tree: Tree) -> None:
        """Stand among the brokers, as one of Apache Kafka 2.7 does."""
        value = {
            "version": 5,
            "features": {},
            "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
            "endpoints": [f"PLAINTEXT://127.0.0.1:{self.port}"],
            "jmx_port": -1,
            "host": "127.0.0.1",
            "port": self.port,
            "timestamp": "1700000000000",
        }
        tree.create(f"/brokers/ids/{self.broker_id}", value, ephemeral=True)

    def govern(self, tree: Tree) -> None:
        """Become the controller before any broker can."""
        tree.create("/controller_epoch", 1)
        value = {"version": 1, "brokerid": self.broker_id, "timestamp": "1700000000000"}
        tree.create("/controller", value, ephemeral=True)

    def seen(self, *keys: ApiKey) -> set[tuple[ApiKey, int, str | None]]:
        """What was asked, in which version and by which client."""
        return {(one.key, one.version, one.client_id) for one in list(self.frames) if not keys or one.key in keys}

    def has(self, key: ApiKey) -> bool:
        return any(one.key is key for one in list(self.frames))

    def _made(self, *arguments: Any) -> _Handler:
        return _Handler(self, *arguments)

    def answer(self, key: ApiKey, request: Any, version: int) -> Any:
        """The least that lets the other go on."""
        return _ANSWERS[key](self, request, version)

    def wait_a_little(self) -> None:
        self._closing.wait(_LONG_POLL_SECONDS)

    @property
    def is_closing(self) -> bool:
        return self._closing.is_set()


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    connections = 0


class _Handler(socketserver.StreamRequestHandler):
    """One connection."""

    timeout = 0.5  # So that a silent connection ends with the peer.

    def __init__(self, peer: Peer, *arguments: Any) -> None:
        self._peer = peer
        super().__init__(*arguments)

    def handle(self) -> None:
        server = self.server
        assert isinstance(server, _Server)
        server.connections += 1
        connection = server.connections
        while (frame := self._frame()) is not None:
            header, position = read_request_header(memoryview(frame))
            key, version = ApiKey(header.api_key), header.api_version
            api = APIS[key]
            request = None
            if version <= api.max_version:
                request, _ = codecs.decode(api.request, version, memoryview(frame), position)
            self._peer.frames.append(Frame(connection, key, version, header.client_id, request))
            answer = self._peer.answer(key, request, version)
            spoken = min(version, self._peer.serves[key][1]) if key is ApiKey.API_VERSIONS else version
            if spoken != version:
                spoken = 0
            body = response_header(api, version, header.correlation_id) + codecs.encode(answer, spoken)
            self.wfile.write(struct.pack(">i", len(body)) + body)

    def _frame(self) -> bytes | None:
        head = self._exactly(4)
        return None if head is None else self._exactly(struct.unpack(">i", head)[0])

    def _exactly(self, size: int) -> bytes | None:
        """So many bytes; None when the other has closed, or the peer is about to."""
        data = bytearray()
        while len(data) < size:
            try:
                chunk = self.connection.recv(size - len(data))
            except TimeoutError:
                if self._peer.is_closing:
                    return None
                continue
            except ConnectionError:
                return None
            if not chunk:
                return None
            data += chunk
        return bytes(data)


def _api_versions(peer: Peer, _: Any, version: int) -> ApiVersionsResponse:
    is_known = version <= peer.serves[ApiKey.API_VERSIONS][1]
    rows = [ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in peer.serves.items()]
    return ApiVersionsResponse(error_code=0 if is_known else ErrorCode.UNSUPPORTED_VERSION, api_keys=rows)


def _fetch(peer: Peer, request: Any, _: int) -> FetchResponse:
    """Nothing new, ever, without a session."""
    peer.wait_a_little()
    topics = [
        FetchableTopicResponse(
            topic=topic.topic,
            topic_id=topic.topic_id,
            partitions=[
                PartitionData(partition_index=one.partition, error_code=peer.fetch_error, log_start_offset=0)
                for one in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return FetchResponse(responses=topics)


def _list_offsets(_: Peer, request: Any, __: int) -> ListOffsetsResponse:
    topics = [
        ListOffsetsTopicResponse(
            name=topic.name,
            partitions=[
                ListOffsetsPartitionResponse(partition_index=one.partition_index, offset=0, leader_epoch=0)
                for one in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return ListOffsetsResponse(topics=topics)


def _epoch_ends(_: Peer, request: Any, __: int) -> OffsetForLeaderEpochResponse:
    topics = [
        OffsetForLeaderTopicResult(
            topic=topic.topic,
            partitions=[
                EpochEndOffset(partition=one.partition, leader_epoch=one.leader_epoch, end_offset=0)
                for one in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return OffsetForLeaderEpochResponse(topics=topics)


def _alter_partition(_: Peer, request: Any, __: int) -> AlterPartitionResponse:
    """Everything is granted."""
    topics = [
        AlteredTopicData(
            topic_name=topic.topic_name,
            topic_id=topic.topic_id,
            partitions=[
                AlteredPartitionData(
                    partition_index=one.partition_index,
                    leader_id=request.broker_id,
                    leader_epoch=one.leader_epoch,
                    isr=list(one.new_isr) or [member.broker_id for member in one.new_isr_with_epochs],
                    partition_epoch=one.partition_epoch + 1,
                )
                for one in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return AlterPartitionResponse(topics=topics)


def _controlled_shutdown(peer: Peer, _: Any, __: int) -> ControlledShutdownResponse:
    if not peer.handing_over:
        return ControlledShutdownResponse()
    peer.handing_over.popleft()()
    return ControlledShutdownResponse(remaining_partitions=[RemainingPartition(topic_name="led", partition_index=0)])


_ANSWERS: dict[ApiKey, Callable[[Peer, Any, int], Any]] = {
    ApiKey.API_VERSIONS: _api_versions,
    ApiKey.FETCH: _fetch,
    ApiKey.LIST_OFFSETS: _list_offsets,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _epoch_ends,
    ApiKey.ALTER_PARTITION: _alter_partition,
    ApiKey.LEADER_AND_ISR: lambda *_: LeaderAndIsrResponse(),
    ApiKey.UPDATE_METADATA: lambda *_: UpdateMetadataResponse(),
    ApiKey.STOP_REPLICA: lambda *_: StopReplicaResponse(),
    ApiKey.CONTROLLED_SHUTDOWN: _controlled_shutdown,
    ApiKey.ALLOCATE_PRODUCER_IDS: lambda *_: AllocateProducerIdsResponse(
        producer_id_start=7_000, producer_id_len=1_000
    ),
}
