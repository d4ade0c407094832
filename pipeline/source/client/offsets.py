"""ListOffsets: the ends of logs, and the offsets at a time; one request to each leader, all under way together."""

from __future__ import annotations

from collections.abc import Mapping

from sordini.pipeline.source.client.broker_connection import Link, Sent
from sordini.pipeline.source.client.connection_pool import Cluster, check, grouped
from sordini.pipeline.source.client.retry_timer import PASSING
from sordini.pipeline.source.client.settings import Address
from sordini.pipeline.source.client.topics import SourceTopics
from sordini.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
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
_VERSION_MAX = 9
"""From 10 on a request says how long remote storage may take, which is the broker's business."""


class Search:
    """Offsets asked for, and those found so far; an attempt asks for what is still missing."""

    def __init__(
        self, cluster: Cluster, topics: SourceTopics, at: Mapping[TopicPartition, int], *, read_committed: bool
    ) -> None:
        self._cluster = cluster
        self._topics = topics
        self._missing = dict(at)
        self._read_committed = read_committed
        self.found: dict[TopicPartition, int] = {}

    def attempt(self) -> dict[TopicPartition, int]:
        """All that is found, or an error that passes; what was found before it is not asked for again."""
        led: dict[Address, dict[TopicPartition, int]] = {}
        self._topics.find({topic for topic, _ in self._missing})
        for partition in self._missing:
            address, epoch = self._topics.leader(partition)
            led.setdefault(address, {})[partition] = epoch
        asked: list[tuple[Link, Sent]] = []
        try:
            for address, epochs in led.items():
                link = self._cluster.borrow(address)
                asked.append((link, self._send(link, epochs)))
            for link, sent in asked:
                self._take(link.receive(sent))
        except BaseException:  # Raised again - whatever it was, others may lead by the next attempt.
            for topic, _ in self._missing:
                self._topics.doubt(topic)
            raise
        finally:
            for link, _ in asked:
                self._cluster.give_back(link)
        return self.found

    def _send(self, link: Link, epochs: Mapping[TopicPartition, int]) -> Sent:
        topics = [
            ListOffsetsTopic(
                name=topic,
                partitions=[
                    ListOffsetsPartition(
                        partition_index=number,
                        current_leader_epoch=epochs[TopicPartition(topic, number)],
                        timestamp=self._missing[TopicPartition(topic, number)],
                    )
                    for number in numbers
                ],
            )
            for topic, numbers in grouped(epochs).items()
        ]
        request = ListOffsetsRequest(replica_id=_CONSUMER, isolation_level=int(self._read_committed), topics=topics)
        at_least = _WITH_ISOLATION if self._read_committed else _BY_TIME
        return link.send(request, at_least=at_least, at_most=_VERSION_MAX)

    def _take(self, answer: ListOffsetsResponse) -> None:
        passing = None
        for topic in answer.topics:
            for row in topic.partitions:
                partition = TopicPartition(topic.name, row.partition_index)
                if not row.error_code:
                    self.found[partition] = row.offset
                    self._missing.pop(partition, None)
                elif row.error_code in PASSING:
                    passing = row.error_code, partition
                else:
                    check(row.error_code, f"the offsets of {partition}")
        if passing is not None:
            check(passing[0], f"the offsets of {passing[1]}")


def log_ends(cluster: Cluster, topics: SourceTopics, partition: TopicPartition) -> tuple[int, int]:
    """Where a partition's log starts and ends, asked once: (log start offset, high watermark)."""
    start = Search(cluster, topics, {partition: -2}, read_committed=False).attempt()[partition]
    end = Search(cluster, topics, {partition: -1}, read_committed=False).attempt()[partition]
    return start, end


def has_epoch(cluster: Cluster, topics: SourceTopics, partition: TopicPartition, epoch: int) -> bool:
    """Whether the leader's log reaches back to records of this epoch, asked once (KIP-320)."""
    address, current = topics.leader(partition)
    asked = OffsetForLeaderPartition(partition=partition.partition, current_leader_epoch=current, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(
        replica_id=_CONSUMER, topics=[OffsetForLeaderTopic(topic=partition.topic, partitions=[asked])]
    )
    answer: OffsetForLeaderEpochResponse = cluster.ask(request, address)
    (row,) = (row for topic in answer.topics for row in topic.partitions)
    check(row.error_code, f"the epochs of {partition}")
    return row.end_offset >= 0
