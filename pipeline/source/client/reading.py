"""Reading a range of one partition: fetch by fetch from its leader, one ahead of the caller.

The request for what comes next leaves before the records that came are handed out, so that the broker reads and the
network carries while they are decoded. Each fetch names the leader epoch that we believe in and the epoch of the last
record we have (KIP-320): a leader of another epoch refuses, and one whose log diverges reports it. Temporary
failures (a leader that moves, a broker that restarts) are retried until no records have arrived for `Limits.api_ms`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from sordini.client.addresses import Address
from sordini.client.blocking_link import OpenLink
from sordini.client.errors import ClientError, Refused, Unreachable
from sordini.pipeline.errors import NoProgress, OffsetLost, TopicRecreated
from sordini.pipeline.source.client.connection_pool import ConnectionPool
from sordini.pipeline.source.client.extent import extent
from sordini.pipeline.source.client.offsets import has_epoch, is_remote, log_ends
from sordini.pipeline.source.client.topics import Topic, Topics
from sordini.pipeline.source.client.types import Fetched
from sordini.pipeline.source.decode import Aborted
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from sordini.protocol.types import NO_TOPIC_ID, TopicPartition

_WITH_ISOLATION: Final = 4
"""The first Fetch with an isolation level (Apache Kafka 0.11)."""
_BY_NAME_MAX: Final = 12
"""The last Fetch that names topics; later ones need their ids."""
_NO_SESSION_EPOCH: Final = -1
_BYTES_MAX: Final = 2**31 - 1
_TAIL_BYTES: Final = 64 * 1024
"""What is requested beyond the estimate of what a range still holds."""
_WAIT_MS_MIN: Final = 10
"""The least time for which a broker delays an empty response, so that requests do not follow each other at once."""
_GAPS_MAX: Final = 3
_PREFERRED_SECONDS: Final = 300.0
"""How long a preferred read replica is used before the leader is used again (as in Apache Kafka's clients)."""


class Range(NamedTuple):
    """What is to be read."""

    partition: TopicPartition
    start: int
    end: int
    read_committed: bool
    topic_id: str
    """In 22 characters; empty: the id that the topic has when the reading begins."""


class PreferredReplica(NamedTuple):
    """A replica to read from instead of the leader (KIP-392)."""

    address: Address
    until: float


class PendingFetch(NamedTuple):
    """A fetch in flight."""

    link: OpenLink
    offset: int


class Reading:
    """One pass over a range; `fetches` is the pass."""

    def __init__(self, pool: ConnectionPool, topics: Topics, wanted: Range) -> None:
        self._pool = pool
        self._topics = topics
        self._wanted = wanted
        self._limits = pool.settings.limits
        self._timer = pool.retry_timer()
        self._topic_id = wanted.topic_id
        self._last_epoch = -1
        self._link: OpenLink | None = None
        self._preferred: PreferredReplica | None = None
        self._bytes_max = self._limits.fetch_bytes
        self._bytes_seen = 0
        self._offsets_seen = 0
        self._gaps = 0

    def fetches(self) -> Iterator[Fetched]:
        """The range, piece by piece. The caller's time between two pieces does not count towards a timeout."""
        offset = self._wanted.start
        pending: PendingFetch | None = None
        try:
            while offset < self._wanted.end:
                fetched = self._fetched(pending, offset)
                pending = self._ahead(fetched.next_offset)
                yield fetched
                if fetched.next_offset <= offset:
                    # The decoder could not read it either, and has raised unless its caller continued nevertheless.
                    raise Refused(f"{self._wanted.partition}", ErrorCode.CORRUPT_MESSAGE, f"no batch at {offset}")
                offset = fetched.next_offset
        finally:
            self._give_back()

    def _fetched(self, pending: PendingFetch | None, offset: int) -> Fetched:
        """The result of the pending fetch, or of as many fetches as it takes."""
        self._timer.restart()
        while True:
            try:
                fetched = self._take(self._ask(offset) if pending is None else pending)
            except ClientError as error:
                self._topics.mark_stale(self._wanted.partition.topic)
                self._preferred = None
                self._give_back()
                self._timer.pause(error)
            else:
                if fetched is not None:
                    return fetched
                if self._timer.is_expired:
                    raise NoProgress(self._wanted.partition, offset, self._timer.seconds, self._timer.problem)
            pending = None

    def _ahead(self, offset: int) -> PendingFetch | None:
        """Send the next fetch, if there is one and it can be sent; an error is raised when the fetch is needed."""
        if offset >= self._wanted.end:
            return None
        try:
            return self._ask(offset)
        except (Unreachable, Refused):
            self._give_back()
            return None

    def _ask(self, offset: int) -> PendingFetch:
        topic, number = self._wanted.partition
        found = self._topics.find([topic])[topic]
        self._check_incarnation(found)
        address, epoch = self._topics.leader(self._wanted.partition)
        link = self._connected(address)
        bytes_max = self._bytes_wanted(offset)
        row = FetchPartition(
            partition=number,
            current_leader_epoch=epoch,
            fetch_offset=offset,
            last_fetched_epoch=self._last_epoch,
            partition_max_bytes=bytes_max,
        )
        request = FetchRequest(
            max_wait_ms=min(max(self._limits.fetch_wait_ms, _WAIT_MS_MIN), self._limits.request_ms // 2),
            min_bytes=1,
            max_bytes=bytes_max,
            isolation_level=int(self._wanted.read_committed),
            session_epoch=_NO_SESSION_EPOCH,
            topics=[FetchTopic(topic=topic, topic_id=found.topic_id, partitions=[row])],
            rack_id=self._pool.settings.rack,
        )
        at_most = _BY_NAME_MAX if found.topic_id == NO_TOPIC_ID else None
        link.send(request, at_least=_WITH_ISOLATION, at_most=at_most)
        return PendingFetch(link, offset)

    def _take(self, pending: PendingFetch) -> Fetched | None:
        """The fetched records, or None without any."""
        answer: FetchResponse = pending.link.receive()
        self._pool.check(answer.error_code, f"fetching {self._wanted.partition}")
        rows = [row for topic in answer.responses for row in topic.partitions]
        if not rows:
            return None  # A quota is exceeded, and the broker throttles this client.
        row = rows[0]
        self._check_row(row, pending.offset)
        if row.preferred_read_replica >= 0 and not row.records:
            self._use_preferred_replica(row.preferred_read_replica)
            return None
        records = memoryview(b"") if row.records is None else row.records
        assert isinstance(records, memoryview), "records that are read are a view of the response"
        found = extent(records, pending.offset, self._wanted.end)
        if not found.size and found.next_offset == pending.offset:
            if records:
                self._bytes_max = min(2 * self._bytes_max, _BYTES_MAX)  # Not even one batch is complete.
                return None
            return self._after_nothing(row, pending.offset)
        self._gaps = 0
        self._last_epoch = found.last_epoch
        self._bytes_seen += found.size
        self._offsets_seen += found.next_offset - pending.offset
        return self._fetched_of(row, records[: found.size], found.next_offset)

    def _check_row(self, row: PartitionData, offset: int) -> None:
        partition = self._wanted.partition
        if row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._raise_for_missing_offset(offset)
        self._pool.check(row.error_code, f"fetching {partition}")
        diverging = row.diverging_epoch
        if diverging is not None and diverging.end_offset >= 0:
            self._check_incarnation(self._topics.find([partition.topic], fresh=True)[partition.topic])
            raise OffsetLost(partition, offset, max(row.log_start_offset, 0), diverging.end_offset, was_truncated=True)

    def _raise_for_missing_offset(self, offset: int) -> None:
        """The broker has no such offset: raise the reason, or Unreachable if the leader has the offset."""
        partition = self._wanted.partition
        if self._preferred is None:
            self._check_incarnation(self._topics.find([partition.topic], fresh=True)[partition.topic])
            start, end = log_ends(self._pool, self._topics, partition)
            if not start <= offset <= end:
                raise OffsetLost(partition, offset, start, end)
            epoch = self._last_epoch
            if epoch >= 0 and not has_epoch(self._pool, self._topics, partition, epoch):
                raise OffsetLost(partition, offset, start, end, was_truncated=True)
        raise Unreachable(f"{partition} has no offset {offset} at the broker that was read from")

    def _check_incarnation(self, found: Topic) -> None:
        """Check that the topic is still the same."""
        if not self._topic_id:
            self._topic_id = found.id_text
        elif found.id_text and found.id_text != self._topic_id:
            raise TopicRecreated(self._wanted.partition.topic, self._topic_id, found.id_text)

    def _after_nothing(self, row: PartitionData, offset: int) -> Fetched | None:
        """Handle an empty response: there are no records yet, or none are left up to the end.

        When the last records before the end were removed (tombstones past delete.retention.ms), every response is
        empty though the log reaches further; the third empty response in a row is taken as that. A broker whose remote
        storage takes long responds in the same way (KIP-405), and there the records are still to come.
        """
        limit = row.last_stable_offset if self._wanted.read_committed else row.high_watermark
        if limit >= self._wanted.end:
            self._gaps += 1
            if self._gaps >= _GAPS_MAX and is_remote(self._pool, self._topics, self._wanted.partition, offset):
                self._timer.problem = f"remote storage does not return the records from offset {offset}"
                return None
            if self._gaps >= _GAPS_MAX:
                return self._fetched_of(row, memoryview(b""), self._wanted.end)
        held = "an open transaction holds back the records from" if limit < row.high_watermark else "its log ends at"
        self._timer.problem = f"{held} offset {limit}"
        return None

    def _fetched_of(self, row: PartitionData, records: memoryview, next_offset: int) -> Fetched:
        aborted = [Aborted(one.producer_id, one.first_offset) for one in row.aborted_transactions or ()]
        ends = row.high_watermark, row.last_stable_offset, row.log_start_offset
        return Fetched(records, aborted, *ends, next_offset)

    def _connected(self, leader: Address) -> OpenLink:
        """The connection to the leader, or to the preferred read replica."""
        preferred, now = self._preferred, self._pool.ports.monotonic()
        if preferred is not None and now >= preferred.until:
            preferred = self._preferred = None
        address = leader if preferred is None else preferred.address
        link = self._link
        if link is None or link.address != address or not link.is_open or not link.is_fresh:
            self._give_back()
            self._link = link = self._pool.borrow(address)
        return link

    def _use_preferred_replica(self, broker_id: int) -> None:
        self._preferred = PreferredReplica(
            self._pool.address(broker_id), self._pool.ports.monotonic() + _PREFERRED_SECONDS
        )

    def _bytes_wanted(self, offset: int) -> int:
        """How much to request: near the end no more than is likely to be left."""
        if not self._offsets_seen:
            return self._bytes_max
        left = (self._wanted.end - offset) * self._bytes_seen // self._offsets_seen
        return min(self._bytes_max, left + left // 4 + _TAIL_BYTES)

    def _give_back(self) -> None:
        if self._link is not None:
            self._pool.give_back(self._link)
            self._link = None
