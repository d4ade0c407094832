"""Fetches of followers: what such a fetch tells the leader, and what it may read.

A follower's fetch says that it has everything below its offset. That is noted before anything is read, so that the
answer carries the high watermark that follows from the question: the fetch after the one that brought the last
records is answered with a watermark past them (or waits, when there is nothing else to tell; the watermark alone is
no reason to answer, as with Apache Kafka, where it would double the number of fetches).

Followers read to the end of the log, wait at its tail, and are told where their logs part from this one. They are
served on the listener that brokers use among themselves only (CVE-2018-1288), and as replicas only of what they were
assigned.

A follower's session may have thousands of partitions of which one has news. Those that had none when they were looked
at last, and to whose logs nothing was appended since, are passed over with one comparison (0.1 us instead of 15); that
their follower still has everything is noted when all are looked at, twice in a second at most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from sordini.broker.dispatch import Call
from sordini.broker.handlers.fetch_reading import Reading
from sordini.broker.handlers.fetched_rows import begins_whole, found
from sordini.broker.requests.fetch_sessions import FetchPlan, SessionPartition
from sordini.broker.requests.slice_scheduler import Work
from sordini.protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData
from sordini.protocol.types import BrokerId, LeaderEpoch, Offset, TopicPartition
from sordini.replication.follower import FetchPosition
from sordini.replication.leader import Leader
from sordini.replication.partition import Partition
from sordini.replication.purgatory import WatchedLog
from sordini.replication.replica_quota import ReplicaQuota
from sordini.replication.replica_set import ReplicaSet

LOOK_MS = 500
"""How long partitions without news may be passed over: as long as an idle follower's fetch waits by default."""


class Quiet(NamedTuple):
    """A partition of which the follower has and knows everything, while it has this leader and this end."""

    partition: Partition
    leader: Leader
    log_end_offset: int


class ReplicaFetches(NamedTuple):
    """Serves the fetches of other brokers."""

    check: Callable[[Call], None]
    """Raises BrokerError for a call that does not come from a broker."""
    quota: ReplicaQuota
    """What leaders here may send to followers that are not in sync (KIP-73)."""
    privileged: bool = True
    """Their fetch sessions displace those of consumers, where there are other brokers at all (KIP-227)."""

    def reading(
        self, replicas: ReplicaSet, call: Call, plan: FetchPlan, *, bytes_max: int, now_ms: int
    ) -> FollowerFetchReading:
        """How such a fetch reads; `now_ms`, on the monotonic clock, is when it came."""
        return FollowerFetchReading(replicas, call, plan, self.quota, bytes_max=bytes_max, now_ms=now_ms)


class FollowerFetchReading(Reading):
    """One pass over the partitions of a follower's fetch. Only the first says how far the follower has come."""

    __slots__ = ("_broker_epoch", "_came_ms", "_is_first", "_looks_at_all", "_quiet", "_quota", "_replica_id", "_sent")

    def __init__(
        self, replicas: ReplicaSet, call: Call, plan: FetchPlan, quota: ReplicaQuota, *, bytes_max: int, now_ms: int
    ) -> None:
        super().__init__(replicas, call, plan, bytes_max=bytes_max)
        request: FetchRequest = call.body
        state = request.replica_state
        self._replica_id = BrokerId(request.replica_id if state is None else state.replica_id)
        self._broker_epoch = -1 if state is None else state.replica_epoch
        self._quota = quota
        self._came_ms = now_ms
        self._is_first = True
        self._sent: list[tuple[TopicPartition, int]] = []
        self._quiet: list[tuple[SessionPartition, Quiet]] = []
        session = plan.session
        self._looks_at_all = session is None or now_ms - session.full_scan_ms >= LOOK_MS
        if session is not None and self._looks_at_all:
            session.full_scan_ms = now_ms

    def read(self) -> None:
        self._sent.clear()
        self._quiet.clear()
        super().read()
        self._is_first = self._looks_at_all = False

    def read_in_steps(self) -> Work[None]:
        self._sent.clear()
        self._quiet.clear()
        yield from super().read_in_steps()
        self._is_first = self._looks_at_all = False

    def _targets(self) -> Iterable[SessionPartition]:
        if self._looks_at_all:
            return self._plan.targets
        news = []
        for target in self._plan.targets:
            quiet = target.quiet
            if type(quiet) is Quiet:
                partition, leader, log_end_offset = quiet
                if partition.leader is leader and partition.log.log_end_offset == log_end_offset:
                    self.partitions.append(partition)  # To be waited for.
                    continue
                target.quiet = None
            news.append(target)
        return news

    def watched(self) -> Sequence[WatchedLog]:
        return [partition.log_end_waiters for partition in self.partitions]

    def _answer(self, partition: Partition, target: SessionPartition, *, whole_first: bool) -> PartitionData:
        wish = target.requested
        epoch = LeaderEpoch(max(wish.current_leader_epoch, -1))
        parted = None
        if self._is_first:
            parted = partition.update_follower_fetch_state(
                self._replica_id,
                FetchPosition(Offset(wish.fetch_offset), epoch, wish.last_fetched_epoch),
                self._came_ms,
                log_start_offset=wish.log_start_offset,
                broker_epoch=self._broker_epoch,
            )
        leader = partition.require_leader(epoch)
        self.partitions.append(partition)
        answer = found(partition, leader, wish.partition)
        if self._parts(parted, answer):
            return answer
        if self._replica_id not in leader.isr and self._quota.is_throttled(partition.name, self._came_ms):
            return answer
        piece = partition.read_replica(
            wish.fetch_offset, self._allowed(wish.partition_max_bytes), whole_first=whole_first
        )
        if piece is not None:
            if whole_first or begins_whole(piece):
                answer.records = piece
                self._sent.append((partition.name, piece.size))
            else:
                piece.release()
        elif wish.fetch_offset == partition.log.log_end_offset == leader.high_watermark:
            self._quiet.append((target, Quiet(partition, leader, wish.fetch_offset)))
        return answer

    def response(self) -> FetchResponse:
        for name, size in self._sent:
            self._quota.record(name, size, self._came_ms)
        for target, quiet in self._quiet:
            target.quiet = quiet  # With this answer it is told all that there is to tell.
        return super().response()
