"""A cluster that is not there: what stands behind the client's port, with a clock of its own.

Brokers answer with the product's own messages; what happens to them is scripted: `world.on_fetch` holds what is to be
done before the next fetches are answered.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sordini.client.addresses import Address
from sordini.client.errors import Unreachable
from sordini.pipeline.source.client import ClientSettings
from sordini.pipeline.source.client.transport import ClientPorts
from sordini.protocol import codecs
from sordini.protocol.errors import ErrorCode
from sordini.protocol.headers import read_request_header
from sordini.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from sordini.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from sordini.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from sordini.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from sordini.protocol.served_apis import APIS
from tests.support.builders import a_batch
from tests.support.response_headers import response_header

TOPIC = "orders"


@dataclass
class FakeLog:
    """One partition; `batches` are (base offset, offset behind, bytes)."""

    leader: int = 1
    epoch: int = 5
    batches: list[tuple[int, int, bytes]] = field(default_factory=list)
    start: int = 0
    end: int = 0
    stable: int | None = None
    local_start: int = 0
    """The first offset that is not in remote storage (KIP-405)."""
    withheld: int = 0
    """So many fetches get no records, as remote storage takes long."""
    nearby: int = -1
    """The follower to which readers with a rack are sent (KIP-392)."""
    diverging: tuple[int, int] | None = None
    unknown_epoch: int = -1
    """Readers whose last record is of this epoch are refused."""
    aborted: list[tuple[int, int]] = field(default_factory=list)

    def add(self, count: int, *, base_offset: int | None = None) -> None:
        base = self.end if base_offset is None else base_offset
        data = a_batch(count, base_offset=base, leader_epoch=self.epoch)
        self.batches.append((base, base + count, data))
        self.end = base + count


class FakeWorld:
    """Brokers 1 and 2, a topic with one partition, a clock that pauses move."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.pauses: list[float] = []
        self.on_pause: list[Callable[[], None]] = []
        """What happens while the client pauses, in order."""
        self.after_fetch: list[Callable[[], None]] = []
        """What happens when the next fetches have been read and before anything else is asked."""
        self.log = FakeLog()
        self.topic_id = b"\1" * 16
        self.topic_there = True
        self.down: set[int] = set()
        self.believed: dict[int, tuple[int, int]] = {}
        """Which leader and epoch a broker's metadata names, where they are stale."""
        self.versions: dict[int, int] = {}
        """The newest version of an API that the brokers speak, where it is not ours."""
        self.on_fetch: list[Callable[[], None]] = []
        self.fetches: list[tuple[int, Any]] = []
        """(broker, its one partition's request), in order."""
        self.asked: list[str] = []
        """The kinds of all requests."""
        self.answers: dict[type, Callable[[Any, int], Any]] = {}
        """Answers to other kinds of requests."""
        self.opened = 0

    def settings(self, **options: object) -> ClientSettings:
        given = {f"kafka.{name.replace('_', '.')}": str(value) for name, value in options.items()}
        return ClientSettings.from_options({"kafka.bootstrap.servers": "fake:1,fake:2", **given})

    def outside(self) -> ClientPorts:
        return ClientPorts(self.connect, lambda: self.now, self.pause)

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds
        if self.on_pause:
            self.on_pause.pop(0)()

    def connect(self, address: Address, settings: ClientSettings) -> FakeTransport:
        if address.port in self.down:
            raise Unreachable(f"cannot reach {address}: connection refused")
        self.opened += 1
        return FakeTransport(self, address.port)

    def answer(self, broker: int, version: int, request: Any) -> Any:
        self.asked.append(type(request).__name__)
        match request:
            case ApiVersionsRequest():
                rows = [
                    ApiVersion(
                        api_key=api.key,
                        min_version=api.min_version,
                        max_version=self.versions.get(api.key, api.max_version),
                    )
                    for api in APIS.values()
                ]
                return ApiVersionsResponse(api_keys=rows)
            case MetadataRequest():
                return self._metadata(broker, request)
            case ListOffsetsRequest():
                return self._offsets(broker, request)
            case FetchRequest():
                if self.on_fetch:
                    self.on_fetch.pop(0)()
                answer = self._fetch(broker, version, request)
                if self.after_fetch:
                    self.after_fetch.pop(0)()
                return answer
        return self.answers[type(request)](request, version)

    def _metadata(self, broker: int, request: MetadataRequest) -> MetadataResponse:
        names = [TOPIC] if request.topics is None else [topic.name for topic in request.topics]
        leader, epoch = self.believed.get(broker, (self.log.leader, self.log.epoch))
        row = MetadataResponsePartition(partition_index=0, leader_id=leader, leader_epoch=epoch)
        topics = [
            MetadataResponseTopic(name=name, topic_id=self.topic_id, partitions=[row])
            if name == TOPIC and self.topic_there
            else MetadataResponseTopic(name=name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            for name in names
        ]
        brokers = [MetadataResponseBroker(node_id=number, host="fake", port=number) for number in (1, 2)]
        return MetadataResponse(brokers=[one for one in brokers if one.node_id not in self.down], topics=topics)

    def _refusal(self, broker: int, epoch: int) -> ErrorCode:
        if broker != self.log.leader:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if epoch < 0 or epoch == self.log.epoch:
            return ErrorCode.NONE
        return ErrorCode.FENCED_LEADER_EPOCH if epoch < self.log.epoch else ErrorCode.UNKNOWN_LEADER_EPOCH

    def _offsets(self, broker: int, request: ListOffsetsRequest) -> ListOffsetsResponse:
        (topic,) = request.topics
        (asked,) = topic.partitions
        end = self.log.end if not request.isolation_level or self.log.stable is None else self.log.stable
        offset = {-2: self.log.start, -1: end, -4: max(self.log.start, self.log.local_start)}.get(asked.timestamp, -1)
        code = self._refusal(broker, asked.current_leader_epoch)
        row = ListOffsetsPartitionResponse(partition_index=0, error_code=code, offset=-1 if code else offset)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name=topic.name, partitions=[row])])

    def _fetch(self, broker: int, version: int, request: FetchRequest) -> FetchResponse:
        (topic,) = request.topics
        (asked,) = topic.partitions
        self.fetches.append((broker, asked))
        row = PartitionData(partition_index=0, error_code=self._refusal(broker, asked.current_leader_epoch))
        is_sent_on = bool(request.rack_id) and self.log.nearby >= 0
        if is_sent_on and broker == self.log.nearby:
            row.error_code = ErrorCode.NONE
        if version >= 13 and topic.topic_id != self.topic_id:
            row.error_code = ErrorCode.UNKNOWN_TOPIC_ID
        elif is_sent_on and broker == self.log.leader:
            row.preferred_read_replica = self.log.nearby
            return self._fetched(topic, row)
        elif not row.error_code:
            self._read(row, asked, request)
        if not row.records:
            self.now += request.max_wait_ms / 1000
        return self._fetched(topic, row)

    def _fetched(self, topic: Any, row: PartitionData) -> FetchResponse:
        rows = FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=[row])
        return FetchResponse(responses=[rows])

    def _read(self, row: PartitionData, asked: Any, request: FetchRequest) -> None:
        log = self.log
        row.high_watermark, row.log_start_offset = log.end, log.start
        row.last_stable_offset = log.end if log.stable is None else log.stable
        row.aborted_transactions = [AbortedTransaction(producer_id=one, first_offset=at) for one, at in log.aborted]
        if log.diverging is not None and asked.last_fetched_epoch >= 0:
            row.diverging_epoch = EpochEndOffset(epoch=log.diverging[0], end_offset=log.diverging[1])
            return
        is_unknown = 0 <= asked.last_fetched_epoch == log.unknown_epoch
        if is_unknown or not log.start <= asked.fetch_offset <= log.end:
            row.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
            return
        if log.withheld and asked.fetch_offset < log.local_start:
            log.withheld -= 1
            return
        limit = row.last_stable_offset if request.isolation_level else log.end
        found = b"".join(data for base, end, data in log.batches if end > asked.fetch_offset and base < limit)
        row.records = found[: asked.partition_max_bytes]


class FakeTransport:
    """A connection to one of the brokers; breaks when that is down."""

    def __init__(self, world: FakeWorld, broker: int) -> None:
        self._world = world
        self._broker = broker
        self._incoming = bytearray()
        self._is_closed = False

    def send(self, data: bytearray, seconds: float) -> None:
        self._check()
        frame = memoryview(data)[4:]
        header, position = read_request_header(frame)
        api = APIS[header.api_key]
        request, _ = codecs.decode(api.request, header.api_version, frame, position)
        answer = self._world.answer(self._broker, header.api_version, request)
        body = response_header(api, header.api_version, header.correlation_id)
        body += codecs.encode(answer, header.api_version)
        self._incoming += len(body).to_bytes(4, "big") + body

    def receive_into(self, buffer: bytearray | memoryview, seconds: float) -> int:
        self._check()
        assert self._incoming, "the client waits for a response to a request that was not sent"
        count = min(len(buffer), len(self._incoming))
        buffer[:count] = self._incoming[:count]
        del self._incoming[:count]
        return count

    def close(self) -> None:
        self._is_closed = True

    def _check(self) -> None:
        if self._is_closed:
            raise ConnectionAbortedError("the connection is closed")
        if self._broker in self._world.down:
            raise ConnectionResetError(f"the connection to broker {self._broker} broke")
