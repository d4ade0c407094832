"""Reading a range of one partition: fetch by fetch from its leader, one ahead of whoever works on the records.

The request for what comes next leaves before the records that came are handed out, so that the broker reads and the
network carries while they are decoded. Each fetch names the leader epoch that we believe in and the epoch of the last
record we have (KIP-320): a leader of another epoch refuses, and one whose log parts from ours says so. All that
interrupts a reading in passing (a leader that moves, a broker that restarts) is tried again until nothing has come for
`Limits.api_ms`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from sordini.pipeline.errors import NoProgress, OffsetLost, Refused, TopicRecreated
from sordini.pipeline.source.client.broker_connection import Link, Sent
from sordini.pipeline.source.client.connection_pool import Cluster, check, given_up, passes
from sordini.pipeline.source.client.extent import extent
from sordini.pipeline.source.client.offsets import has_epoch, log_ends
from sordini.pipeline.source.client.settings import Address
from sordini.pipeline.source.client.topics import SourceTopics, Topic
from sordini.pipeline.source.client.transport import Lost
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
"""The first Fetch that knows of transactions (Apache Kafka 0.11)."""
_BY_NAME_MAX: Final = 12
"""The last Fetch that names topics; later ones need their ids."""
_NO_SESSION_EPOCH: Final = -1
_BYTES_MAX: Final = 2**31 - 1
_TAIL_BYTES: Final = 64 * 1024
"""What is asked for beyond the estimate of what a range still holds."""
_WAIT_MS_MIN: Final = 10
"""So long a broker shall hold back an empty answer at least, so that we do not ask without a pause."""
_GAPS_MAX: Final = 3
_NEARBY_SECONDS: Final = 300.0
"""How long a copy near by is read from before the leader is asked for one again (as Apache Kafka's clients do)."""


class Range(NamedTuple):
    """What is to be read."""

    partition: TopicPartition
    start: int
    end: int
    read_committed: bool
    topic_id: str
    """In 22 characters; nothing: the one that the topic has when the reading begins."""


class Nearby(NamedTuple):
    """A copy to read from instead of the leader (KIP-392)."""

    address: Address
    until: float


class Asked(NamedTuple):
    """A fetch under way."""

    link: Link
    sent: Sent
    offset: int


class Reading:
    """One pass over a range; `fetches` is the pass."""

    def __init__(self, cluster: Cluster, topics: SourceTopics, wanted: Range) -> None:
        self._cluster = cluster
        self._topics = topics
        self._wanted = wanted
        self._limits = cluster.settings.limits
        self._patience = cluster.patience()
        self._topic_id = wanted.topic_id
        self._last_epoch = -1
        self._link: Link | None = None
        self._nearby: Nearby | None = None
        self._bytes_max = self._limits.fetch_bytes
        self._bytes_seen = 0
        self._offsets_seen = 0
        self._gaps = 0

    def fetches(self) -> Iterator[Fetched]:
        """The range, piece by piece. The time between two pieces is the caller's own and counts for nothing."""
        offset = self._wanted.start
        asked: Asked | None = None
        try:
            while offset < self._wanted.end:
                fetched = self._fetched(asked, offset)
                asked = self._ahead(fetched.next_offset)
                yield fetched
                if fetched.next_offset <= offset:
                    # The decoder could not read it either, and has said so unless its caller went on all the same.
                    raise Refused(f"{self._wanted.partition}", ErrorCode.CORRUPT_MESSAGE, f"no batch at {offset}")
                offset = fetched.next_offset
        finally:
            self._give_back()

    def _fetched(self, asked: Asked | None, offset: int) -> Fetched:
        """The answer to what was asked ahead, or to as many fetches as it takes."""
        self._patience.renew()
        while True:
            try:
                fetched = self._take(self._ask(offset) if asked is None else asked)
            except (Lost, Refused) as error:
                if not passes(error):
                    raise
                self._topics.doubt(self._wanted.partition.topic)
                self._nearby = None
                self._give_back()
                if not self._patience.wait(error):
                    raise given_up(error, self._patience.seconds) from None
            else:
                if fetched is not None:
                    return fetched
                if self._patience.is_over:
                    raise NoProgress(self._wanted.partition, offset, self._patience.seconds, self._patience.problem)
            asked = None

    def _ahead(self, offset: int) -> Asked | None:
        """The next fetch, if there is one and it can be sent; what is wrong will be found out when it is needed."""
        if offset >= self._wanted.end:
            return None
        try:
            return self._ask(offset)
        except (Lost, Refused):
            self._give_back()
            return None

    def _ask(self, offset: int) -> Asked:
        topic, number = self._wanted.partition
        life = self._topics.find([topic])[topic]
        self._check_life(life)
        address, epoch = self._topics.leader(self._wanted.partition)
        link = self._connected(address)
        bytes_max = self._bytes_wanted(offset)
        wish = FetchPartition(
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
            topics=[FetchTopic(topic=topic, topic_id=life.topic_id, partitions=[wish])],
            rack_id=self._cluster.settings.rack,
        )
        at_most = _BY_NAME_MAX if life.topic_id == NO_TOPIC_ID else None
        return Asked(link, link.send(request, at_least=_WITH_ISOLATION, at_most=at_most), offset)

    def _take(self, asked: Asked) -> Fetched | None:
        """What came, or None when nothing did."""
        answer: FetchResponse = asked.link.receive(asked.sent)
        check(answer.error_code, f"fetching {self._wanted.partition}")
        rows = [row for topic in answer.responses for row in topic.partitions]
        if not rows:
            return None  # We fetch more than our quota, and the broker holds back.
        row = rows[0]
        self._check_row(row, asked.offset)
        if row.preferred_read_replica >= 0 and not row.records:
            self._go_nearby(row.preferred_read_replica)
            return None
        records = memoryview(b"") if row.records is None else row.records
        assert isinstance(records, memoryview), "records that are read are a view of the answer"
        found = extent(records, asked.offset, self._wanted.end)
        if not found.size and found.next_offset == asked.offset:
            if records:
                self._bytes_max = min(2 * self._bytes_max, _BYTES_MAX)  # Not even one batch came whole.
                return None
            return self._after_nothing(row)
        self._gaps = 0
        self._last_epoch = found.last_epoch
        self._bytes_seen += found.size
        self._offsets_seen += found.next_offset - asked.offset
        return self._fetched_of(row, records[: found.size], found.next_offset)

    def _check_row(self, row: PartitionData, offset: int) -> None:
        partition = self._wanted.partition
        if row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._look_where_it_went(offset)
        check(row.error_code, f"fetching {partition}")
        parting = row.diverging_epoch
        if parting is not None and parting.end_offset >= 0:
            self._check_life(self._topics.find([partition.topic], fresh=True)[partition.topic])
            raise OffsetLost(partition, offset, max(row.log_start_offset, 0), parting.end_offset, was_truncated=True)

    def _look_where_it_went(self, offset: int) -> None:
        """The broker asked has no such offset: raise what became of it, or Lost if its leader has it after all."""
        partition = self._wanted.partition
        if self._nearby is None:
            self._check_life(self._topics.find([partition.topic], fresh=True)[partition.topic])
            start, end = log_ends(self._cluster, self._topics, partition)
            if not start <= offset <= end:
                raise OffsetLost(partition, offset, start, end)
            epoch = self._last_epoch
            if epoch >= 0 and not has_epoch(self._cluster, self._topics, partition, epoch):
                raise OffsetLost(partition, offset, start, end, was_truncated=True)
        raise Lost(f"{partition} has no offset {offset} where we asked for it")

    def _check_life(self, life: Topic) -> None:
        """See that the topic is still the one that is being read."""
        if not self._topic_id:
            self._topic_id = life.id_text
        elif life.id_text and life.id_text != self._topic_id:
            raise TopicRecreated(self._wanted.partition.topic, self._topic_id, life.id_text)

    def _after_nothing(self, row: PartitionData) -> Fetched | None:
        """An empty answer: is there nothing yet, or nothing any more up to the end?

        A broker that could give more would have. When the last records before the end were removed (tombstones whose
        time was over), every answer is empty though the log reaches further; we believe it the third time.
        """
        limit = row.last_stable_offset if self._wanted.read_committed else row.high_watermark
        if limit >= self._wanted.end:
            self._gaps += 1
            if self._gaps >= _GAPS_MAX:
                return self._fetched_of(row, memoryview(b""), self._wanted.end)
        held = "an open transaction holds back what is behind" if limit < row.high_watermark else "its log ends at"
        self._patience.problem = f"{held} offset {limit}"
        return None

    def _fetched_of(self, row: PartitionData, records: memoryview, next_offset: int) -> Fetched:
        aborted = [Aborted(one.producer_id, one.first_offset) for one in row.aborted_transactions or ()]
        ends = row.high_watermark, row.last_stable_offset, row.log_start_offset
        return Fetched(records, aborted, *ends, next_offset)

    def _connected(self, leader: Address) -> Link:
        """Our connection to the leader, or to the copy near by."""
        nearby, now = self._nearby, self._cluster.outside.monotonic()
        if nearby is not None and now >= nearby.until:
            nearby = self._nearby = None
        address = leader if nearby is None else nearby.address
        link = self._link
        if link is None or link.address != address or not link.is_open or not link.is_fresh:
            self._give_back()
            self._link = link = self._cluster.borrow(address)
        return link

    def _go_nearby(self, broker_id: int) -> None:
        self._nearby = Nearby(self._cluster.address(broker_id), self._cluster.outside.monotonic() + _NEARBY_SECONDS)

    def _bytes_wanted(self, offset: int) -> int:
        """How much to ask for: towards the end no more than is likely to be left."""
        if not self._offsets_seen:
            return self._bytes_max
        left = (self._wanted.end - offset) * self._bytes_seen // self._offsets_seen
        return min(self._bytes_max, left + left // 4 + _TAIL_BYTES)

    def _give_back(self) -> None:
        if self._link is not None:
            self._cluster.give_back(self._link)
            self._link = None
