"""The lower level: a connection to one broker, on which every request carries its offset; the caller keeps it.

    consumer = SimpleConsumer("broker-1", 9092)
    for message in consumer.fetch(FetchRequest("orders", 0, offset, 300_000)):
        offset = message.next_offset

Requests go out as Fetch version 2 at most. From version 3 on a broker sends the first message whole, however large it
is (KIP-74); before, and so here and in the documents, it is cut at the size of the buffer, and the reader doubles that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from sordini.client.addresses import Address
from sordini.heritage.broker_link import BrokerLink
from sordini.heritage.errors import ConfigError, MessageSizeTooLarge, refusal
from sordini.heritage.message_set import MessageSet
from sordini.heritage.offset_manager import OffsetManager
from sordini.protocol.messages import fetch as wire
from sordini.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from sordini.protocol.types import TopicPartition

LATEST_TIME: Final = -1
EARLIEST_TIME: Final = -2
_CONSUMER: Final = -1
_NEWEST_THAT_CUTS: Final = 2


class FetchRequest(NamedTuple):
    """Messages of one partition from an offset on, in at most so many bytes."""

    topic: str
    partition: int
    offset: int
    max_size: int = 1024 * 1024


class SimpleConsumer:
    """One broker. Threads may share it, one request at a time."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        socket_timeout_ms: int = 30_000,
        buffer_bytes_max: int = 64 * 1024 * 1024,
        client_id: str = "sordini-heritage",
    ) -> None:
        """`buffer_bytes_max` is the limit up to which the size of a fetch is doubled."""
        self._link = BrokerLink(Address(host, port), client_id, socket_timeout_ms)
        self._buffer_bytes_max = buffer_bytes_max
        self._manager_settings = client_id, socket_timeout_ms

    def fetch(self, request: FetchRequest, *, max_wait_ms: int = 0, min_bytes: int = 0) -> MessageSet:
        """The messages that fit; when not even one does, the size is doubled until one does.

        Raises OffsetOutOfRange, RequestRefused, MessageSizeTooLarge, BrokerUnavailable.
        """
        (found,) = self.multifetch([request], max_wait_ms=max_wait_ms, min_bytes=min_bytes)
        found.check()
        return found

    def multifetch(
        self,
        requests: Sequence[FetchRequest],
        *,
        max_wait_ms: int = 0,
        min_bytes: int = 0,
        timeout_s: float | None = None,
    ) -> list[MessageSet]:
        """The message sets in the order of the requests, each of another partition, by one request to the broker.

        An error of one partition is raised when its set is iterated. Raises as `fetch`. The broker waits for
        `max_wait_ms` at most until it has `min_bytes`, and this client for `timeout_s`.
        """
        if len({(one.topic, one.partition) for one in requests}) < len(requests):
            raise ConfigError("a multifetch names each partition once")
        answer = self._fetched(requests, max_wait_ms, min_bytes, timeout_s)
        return [self._whole(found, request, timeout_s) for found, request in zip(answer, requests, strict=True)]

    def offsets_before(self, topic: str, partition: int, time_ms: int, max_offsets: int) -> list[int]:
        """Valid offsets before a time, at most so many, the newest first; LATEST_TIME and EARLIEST_TIME are times, too.

        They are where segments begin, and the end of the log. Raises RequestRefused, BrokerUnavailable.
        """
        row = ListOffsetsPartition(partition_index=partition, timestamp=time_ms, max_num_offsets=max_offsets)
        topics = [ListOffsetsTopic(name=topic, partitions=[row])]
        answer = self._link.ask(ListOffsetsRequest(replica_id=_CONSUMER, topics=topics), at_most=0)
        found = answer.topics[0].partitions[0]
        error = refusal(f"offsets of {TopicPartition(topic, partition)}", found.error_code)
        if error is not None:
            raise error
        return list(found.old_style_offsets)

    def commit_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit the next offset of each partition at the group's coordinator, which this broker names.

        Raises RequestRefused, BrokerUnavailable.
        """
        self._manager(group).commit(offsets)

    def fetch_offsets(self, group: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The committed offset of each partition, at the group's coordinator; those without one are left out."""
        return self._manager(group).fetch(partitions)

    def close(self) -> None:
        self._link.close()

    def _manager(self, group: str) -> OffsetManager:
        client_id, timeout_ms = self._manager_settings
        return OffsetManager(group, lambda: [self._link.address], client_id=client_id, timeout_ms=timeout_ms)

    def _fetched(
        self, requests: Sequence[FetchRequest], max_wait_ms: int, min_bytes: int, timeout_s: float | None
    ) -> list[MessageSet]:
        topics: dict[str, list[wire.FetchPartition]] = {}
        for topic, partition, offset, size in requests:
            row = wire.FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=size)
            topics.setdefault(topic, []).append(row)
        message = wire.FetchRequest(
            replica_id=_CONSUMER,
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            topics=[wire.FetchTopic(topic=topic, partitions=rows) for topic, rows in topics.items()],
        )
        answer = self._link.ask(message, at_most=_NEWEST_THAT_CUTS, timeout_s=timeout_s)
        found = {(one.topic, row.partition_index): row for one in answer.responses for row in one.partitions}
        return [_message_set(request, found[request.topic, request.partition]) for request in requests]

    def _whole(self, found: MessageSet, request: FetchRequest, timeout_s: float | None) -> MessageSet:
        """The set, or that of a fetch with a larger buffer when no message was whole."""
        while found.is_only_a_part:
            if request.max_size >= self._buffer_bytes_max:
                text = f"{found.partition} has a message at offset {request.offset} that is larger than"
                error = MessageSizeTooLarge(f"{text} the largest buffer, {self._buffer_bytes_max} bytes")
                return MessageSet(found.partition, request.offset, memoryview(b""), error)
            request = request._replace(max_size=min(2 * request.max_size, self._buffer_bytes_max))
            (found,) = self._fetched([request], 0, 0, timeout_s)
        return found


def _message_set(request: FetchRequest, row: wire.PartitionData) -> MessageSet:
    data = row.records if isinstance(row.records, memoryview) else memoryview(b"")
    partition = TopicPartition(request.topic, request.partition)
    error = refusal(f"{partition} from offset {request.offset} on", row.error_code)
    return MessageSet(partition, request.offset, data, error)
