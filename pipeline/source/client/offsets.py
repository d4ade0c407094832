"""ListOffsets: the ends of logs, and the offsets at a time; one request to each leader, all in flight together."""

from __future__ import annotations

from collections.abc import Mapping

from sordini.client.addresses import Address
from sordini.client.blocking_link import OpenLink
from sordini.client.errors import NotServed, Refused
from sordini.client.record_requests import listed_partitions, offsets_request
from sordini.pipeline.source.client.connection_pool import RETRIABLE, ConnectionPool
from sordini.pipeline.source.client.topics import Topics
from sordini.protocol.messages.list_offsets import ListOffsetsResponse
from sordini.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from sordini.protocol.types import TopicPartition

_CONSUMER = -1
_BY_TIME = 1
"""The first version that answers with one offset."""
_WITH_ISOLATION = 2
"""The first version that knows of open transactions."""
_EARLIEST_LOCAL = -4
"""As a requested time: the first offset on the leader's own disk (KIP-405)."""
_WITH_LOCAL = 8
"""The first version that knows it."""
_VERSION_MAX = 9
"""From 10 on a request says how long remote storage may take, which is for the broker to decide."""


class OffsetLookup:
    """The offsets found so far; an attempt requests those that are still missing."""

    def __init__(
        self, pool: ConnectionPool, topics: Topics, at: Mapping[TopicPartition, int], *, read_committed: bool
    ) -> None:
        self._pool = pool
        self._topics = topics
        self._missing = dict(at)
        self._read_committed = read_committed
        self.found: dict[TopicPartition, int] = {}

    def attempt(self) -> dict[TopicPartition, int]:
        """All offsets, or a retriable error; offsets that were found before it are not requested again."""
        led: dict[Address, dict[TopicPartition, int]] = {}
        self._topics.find({topic for topic, _ in self._missing})
        for partition in self._missing:
            address, epoch = self._topics.leader(partition)
            led.setdefault(address, {})[partition] = epoch
        links: list[OpenLink] = []
        try:
            for address, epochs in led.items():
                link = self._pool.borrow(address)
                links.append(link)
                self._send(link, epochs)
            for link in links:
                self._take(link.receive())
        except BaseException:  # Raised again - whatever it was, the leaders may have changed by the next attempt.
            for topic, _ in self._missing:
                self._topics.mark_stale(topic)
            raise
        finally:
            for link in links:
                self._pool.give_back(link)
        return self.found

    def _send(self, link: OpenLink, epochs: Mapping[TopicPartition, int]) -> None:
        times = {partition: self._missing[partition] for partition in epochs}
        request = offsets_request(times, epochs=epochs, isolation_level=int(self._read_committed))
        at_least = _WITH_ISOLATION if self._read_committed else _BY_TIME
        at_least = _WITH_LOCAL if _EARLIEST_LOCAL in times.values() else at_least
        link.send(request, at_least=at_least, at_most=_VERSION_MAX)

    def _take(self, answer: ListOffsetsResponse) -> None:
        retriable = None
        for partition, row in listed_partitions(answer):
            if not row.error_code:
                self.found[partition] = row.offset
                self._missing.pop(partition, None)
            elif row.error_code in RETRIABLE:
                retriable = row.error_code, partition
            else:
                self._pool.check(row.error_code, f"the offsets of {partition}")
        if retriable is not None:
            self._pool.check(retriable[0], f"the offsets of {retriable[1]}")


def log_ends(pool: ConnectionPool, topics: Topics, partition: TopicPartition) -> tuple[int, int]:
    """A partition's (log start offset, high watermark); one attempt."""
    start = OffsetLookup(pool, topics, {partition: -2}, read_committed=False).attempt()[partition]
    end = OffsetLookup(pool, topics, {partition: -1}, read_committed=False).attempt()[partition]
    return start, end


def is_remote(pool: ConnectionPool, topics: Topics, partition: TopicPartition, offset: int) -> bool:
    """Whether an offset is before those that the leader has on its own disk, so in remote storage; one attempt.

    False where the broker does not say.
    """
    try:
        lookup = OffsetLookup(pool, topics, {partition: _EARLIEST_LOCAL}, read_committed=False)
        return offset < lookup.attempt()[partition]
    except NotServed:
        return False
    except Refused as refused:
        if refused.code in RETRIABLE:
            raise
        return False


def has_epoch(pool: ConnectionPool, topics: Topics, partition: TopicPartition, epoch: int) -> bool:
    """Whether the leader's log has records of this epoch or earlier ones; one attempt (KIP-320)."""
    address, current = topics.leader(partition)
    asked = OffsetForLeaderPartition(partition=partition.partition, current_leader_epoch=current, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(
        replica_id=_CONSUMER, topics=[OffsetForLeaderTopic(topic=partition.topic, partitions=[asked])]
    )
    answer: OffsetForLeaderEpochResponse = pool.ask(request, address)
    (row,) = (row for topic in answer.topics for row in topic.partitions)
    pool.check(row.error_code, f"the epochs of {partition}")
    return row.end_offset >= 0
