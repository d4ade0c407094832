"""The lower level: a connection to one broker, on which every request carries its offset; the caller keeps it.

    consumer = SimpleConsumer("broker-1", 9092)
    for message in consumer.fetch(FetchRequest("orders", 0, offset, 300_000)):
        offset = message.offset + 1

Requests go out as Fetch version 2 at most. From version 3 on a broker sends the first message whole, however large it
is (KIP-74); before, and so here and in the documents, it is cut at the size of the buffer, and the reader doubles that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from examples.heritage.broker_link import BrokerLink
from examples.heritage.config import ConsumerConfig
from examples.heritage.errors import (
    ConfigError,
    HeritageError,
    MessageSizeTooLarge,
    OffsetOutOfRange,
    RequestRefused,
)
from examples.heritage.offsets import OffsetManager
from sordini.client.addresses import Address
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages import fetch as wire
from sordini.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from sordini.protocol.records.batch import Record
from sordini.protocol.records.fetch_validation import check_fetched
from sordini.protocol.records.legacy import read_any
from sordini.protocol.types import TopicPartition

LATEST_TIME: Final = -1
EARLIEST_TIME: Final = -2
_CONSUMER: Final = -1
_NEWEST_THAT_CUTS: Final = 2
_SIZE_END: Final = 12
"""In front of a message are its offset (8 bytes) and its size (4)."""


class FetchRequest(NamedTuple):
    """Messages of one partition from an offset on, in at most so many bytes."""

    topic: str
    partition: int
    offset: int
    max_size: int = 1024 * 1024


class MessageSet(NamedTuple):
    """The result of one fetch of one partition."""

    partition: TopicPartition
    fetch_offset: int
    data: memoryview = memoryview(b"")
    error: HeritageError | None = None
    """OffsetOutOfRange, RequestRefused or MessageSizeTooLarge: what there is instead of messages."""

    def messages(self) -> Iterator[Record]:
        """The whole messages from the fetched offset on. Raises the error, and BrokerError for damaged messages."""
        if self.error is not None:
            raise self.error
        # A message that is not whole is left out: the size in front of it is larger than what follows.
        buffer, batches = check_fetched(self.data)
        for position, header in batches:
            for record in read_any(buffer[position : position + header.size], header):
                # A compressed set is sent whole, also when the offset is in the middle of it.
                if record.offset >= self.fetch_offset:
                    yield record

    @property
    def is_only_a_part(self) -> bool:
        """Whether there are bytes, but not one whole message: the buffer was too small."""
        return bool(self.data) and len(self.data) < _SIZE_END + int.from_bytes(self.data[8:_SIZE_END])


class SimpleConsumer:
    """One broker. Threads may share it, one request at a time. Every method may raise BrokerUnavailable."""

    def __init__(
        self, host: str, port: int, timeout_ms: int = 30_000, buffer_size: int = 2**26, client_id: str = "heritage"
    ) -> None:
        """`buffer_size` is the limit up to which the size of a fetch is doubled; `timeout_ms` is that of the socket."""
        self._link = BrokerLink(Address(host, port), client_id, timeout_ms / 1000)
        self._buffer_size = buffer_size

    def fetch(self, request: FetchRequest) -> list[Record]:
        """The messages that fit; the size doubles until one does. Raises the error of the set, as OffsetOutOfRange."""
        (found,) = self.multifetch([request])
        return list(found.messages())

    def multifetch(
        self, requests: Sequence[FetchRequest], *, max_wait_ms: int = 0, timeout_s: float | None = None
    ) -> list[MessageSet]:
        """The message sets in the order of the requests, each of another partition, by one request to the broker.

        A set whose fetch failed raises the error when its messages are read. Without any messages the broker waits for
        `max_wait_ms`, and this client for `timeout_s` at most.
        """
        if len({one[:2] for one in requests}) < len(requests):
            raise ConfigError("a multifetch names each partition once")
        found = self._fetched(requests, max_wait_ms, timeout_s)
        return [self._whole(one, request, timeout_s) for one, request in zip(found, requests, strict=True)]

    def offsets_before(self, topic: str, partition: int, time_ms: int, max_offsets: int) -> list[int]:
        """Where segments begin before a time, the newest first, at most so many; LATEST_TIME includes the log's end."""
        row = ListOffsetsPartition(partition_index=partition, timestamp=time_ms, max_num_offsets=max_offsets)
        topics = [ListOffsetsTopic(name=topic, partitions=[row])]
        answer = self._link.ask(ListOffsetsRequest(replica_id=_CONSUMER, topics=topics), at_most=0)
        found = answer.topics[0].partitions[0]
        if found.error_code:
            raise RequestRefused(f"offsets of {TopicPartition(topic, partition)}", found.error_code)
        return list(found.old_style_offsets)

    def commit_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit the next offset of each partition at the group's coordinator. Raises RequestRefused."""
        self._manager(group).commit(offsets)

    def fetch_offsets(self, group: str) -> dict[TopicPartition, int]:
        """All offsets that the group has committed, from its coordinator. Raises RequestRefused."""
        return self._manager(group).fetch()

    def close(self) -> None:
        self._link.close()

    def _manager(self, group: str) -> OffsetManager:
        return OffsetManager(ConsumerConfig(group_id=group), lambda: [self._link.address])

    def _fetched(self, requests: Sequence[FetchRequest], max_wait_ms: int, timeout_s: float | None) -> list[MessageSet]:
        topics: dict[str, list[wire.FetchPartition]] = {}
        for topic, number, offset, size in requests:
            row = wire.FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=size)
            topics.setdefault(topic, []).append(row)
        wanted = [wire.FetchTopic(topic=topic, partitions=parts) for topic, parts in topics.items()]
        message = wire.FetchRequest(replica_id=_CONSUMER, max_wait_ms=max_wait_ms, min_bytes=1, topics=wanted)
        answer = self._link.ask(message, at_most=_NEWEST_THAT_CUTS, timeout_s=timeout_s)
        rows = {(one.topic, row.partition_index): row for one in answer.responses for row in one.partitions}
        found = []
        for topic, number, offset, _ in requests:  # In their order.
            partition, data = TopicPartition(topic, number), rows[topic, number]
            kind = OffsetOutOfRange if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE else RequestRefused
            error = kind(f"{partition} from offset {offset} on", data.error_code) if data.error_code else None
            found.append(MessageSet(partition, offset, data.records or memoryview(b""), error))
        return found

    def _whole(self, found: MessageSet, request: FetchRequest, timeout_s: float | None) -> MessageSet:
        """The set, or that of a fetch with a larger buffer when no message was whole."""
        while found.is_only_a_part:
            if request.max_size >= self._buffer_size:
                text = f"{found.partition} has a message at offset {request.offset} that is larger than"
                error = MessageSizeTooLarge(f"{text} the largest buffer, {self._buffer_size} bytes")
                return MessageSet(found.partition, request.offset, error=error)
            request = request._replace(max_size=min(2 * request.max_size, self._buffer_size))
            (found,) = self._fetched([request], 0, timeout_s)
        return found
