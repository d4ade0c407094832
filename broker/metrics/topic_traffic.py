"""Records and bytes appended per topic, counted at scrapes from the ends of logs: nothing is counted at an append.

Of each led partition the end of its log is remembered, and what was appended since is added to its topic at the next
reading. A new leader epoch counts from where it began. So counters never fall; what is appended between the last
reading and the end of a leadership is not counted, and of a partition that is led with records in it already, bytes
count from the first reading on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from sordini.replication.leader import Leader
from sordini.replication.partition import Partition
from sordini.storage.log import Log
from sordini.system.named_tuple import NamedTuple


class LogEnd(NamedTuple):
    """Where a led partition's log ended at the last reading."""

    leader_epoch: int
    offset: int
    segment_base: int
    segment_bytes: int


class TopicTraffic:
    """The counters of all topics. There is an entry for each led partition, and for each topic that was led."""

    def __init__(self) -> None:
        self._ends: dict[tuple[str, int], LogEnd] = {}
        self._records: defaultdict[str, int] = defaultdict(int)
        self._bytes: defaultdict[str, int] = defaultdict(int)

    def records(self, partitions: Iterable[Partition]) -> Iterator[tuple[str, int] | None]:
        """Topic and records appended to it, after None for each of `partitions`: all that this broker has."""
        yield from self._read(partitions)
        for topic in list(self._records):
            yield topic, self._records[topic]

    def stored_bytes(self, partitions: Iterable[Partition]) -> Iterator[tuple[str, int] | None]:
        """As `records`, with the bytes as they are stored."""
        yield from self._read(partitions)
        for topic in list(self._records):
            yield topic, self._bytes[topic]

    def _read(self, partitions: Iterable[Partition]) -> Iterator[None]:
        """Count what was appended, and forget partitions that are not led any more. It may end after any step."""
        led = set()
        for partition in partitions:
            if partition.leader is not None and partition.log.log_dir.failure is None:
                led.add((partition.name.topic, partition.name.partition))
                self._count(partition.name.topic, partition, partition.leader)
            yield None
        for name in list(self._ends):
            if name not in led:
                del self._ends[name]
            yield None

    def _count(self, topic: str, partition: Partition, leader: Leader) -> None:
        log, name = partition.log, (topic, partition.name.partition)
        former = self._ends.get(name)
        active = log.segments.active
        end = self._ends[name] = LogEnd(leader.leader_epoch, log.log_end_offset, active.base, active.size)
        if former is None or former.leader_epoch != end.leader_epoch:
            self._records[topic] += end.offset - leader.epoch_start_offset
            if leader.epoch_start_offset == log.log_start_offset:
                self._bytes[topic] += log.size
            return
        self._records[topic] += max(0, end.offset - former.offset)
        self._bytes[topic] += max(0, _bytes_from(log, former.segment_base) - former.segment_bytes)


def _bytes_from(log: Log, base: int) -> int:
    """Bytes of the segments from the one with this base offset on; less where it was compacted meanwhile."""
    segments = log.segments
    if segments.active.base == base:
        return segments.active.size
    return sum(segment.size for segment in segments.all() if segment.base >= base)
