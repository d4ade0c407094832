"""Fetches of followers: how they update the leader's state, and what they may read.

A follower's fetch offset means that it has everything below. The leader records that before it reads, so that the
response has the resulting high watermark: the fetch after the one that brought the last records returns a watermark
past them, or waits in the purgatory (a new watermark alone does not complete it, as in Apache Kafka: that would double
the number of fetches).

Followers read up to the log end offset, wait there, and learn where their logs diverge. They are served on the
inter-broker listener only (CVE-2018-1288), and only partitions of which they are assigned replicas.

A follower's session may have thousands of partitions, few of them with news. An idle one, to whose log nothing was
appended since the last pass, is skipped with one comparison (0.1 us instead of 15); a full pass, twice per second at
most, records that its follower is still caught up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from sordini.broker.records.fetch_reading import TARGETS_AT_ONCE, Reading
from sordini.broker.records.fetch_sessions import FetchPlan, SessionPartition
from sordini.broker.records.fetched_rows import begins_whole, found
from sordini.broker.records.known_leaders import KnownLeaders
from sordini.broker.requests.call import Call
from sordini.broker.requests.slice_scheduler import Work
from sordini.protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData
from sordini.protocol.types import BrokerId, LeaderEpoch, Offset, TopicPartition
from sordini.replication.follower_truncation import FetchPosition
from sordini.replication.leader import Leader
from sordini.replication.partition import Partition
from sordini.replication.partition_deps import NO_EPOCH
from sordini.replication.purgatory import WatchedLog
from sordini.replication.replica_throttling import ReplicaQuota
from sordini.storage.cached_tail import cached_tail
from sordini.system.named_tuple import NamedTuple

FULL_SCAN_MS = 500
"""How long idle partitions may be skipped: as long as an idle follower's fetch waits by default."""


_new = tuple.__new__


class UnchangedPartition(NamedTuple):
    """A partition without news for the follower, as long as it has this term and this log end offset."""

    partition: Partition
    leader: Leader
    log_end_offset: int


class ReplicaFetches(NamedTuple):
    """Serves the fetches of other brokers."""

    check: Callable[[Call], None]
    """Raises BrokerError for a call that is not a broker's."""
    quota: ReplicaQuota
    """The quota for sending to followers that are not in sync (KIP-73)."""
    privileged: bool = True
    """Their fetch sessions evict those of consumers, where there are other brokers (KIP-227)."""

    def reading(
        self,
        leaders: KnownLeaders,
        call: Call,
        plan: FetchPlan,
        *,
        bytes_max: int,
        now_ms: int,
        is_first: bool = True,
    ) -> FollowerFetchReading:
        """How such a fetch reads; `now_ms`, on the monotonic clock, is when it was received."""
        return FollowerFetchReading(
            leaders, call, plan, self.quota, bytes_max=bytes_max, now_ms=now_ms, is_first=is_first
        )

    def tail(self, leaders: KnownLeaders, call: Call, plan: FetchPlan, *, bytes_max: int, now_ms: int) -> FollowerTail:
        """How such a fetch waits at the end of one partition."""
        reading = partial(self.reading, leaders, call, plan, bytes_max=bytes_max, is_first=False)
        return FollowerTail(call.body, plan, self.quota, now_ms, reading)


class FollowerTail:
    """A follower's fetch of one partition at the log end: it records where the follower is, and waits.

    The fetches of one session may share an object: they come one after the other.
    """

    __slots__ = ("_broker_epoch", "_plan", "_reading", "_replica_id", "quota", "received_ms")

    is_at_log_end = True
    targets_max = TARGETS_AT_ONCE

    def __init__(
        self,
        request: FetchRequest,
        plan: FetchPlan,
        quota: ReplicaQuota,
        received_ms: int,
        reading: Callable[..., Reading],
    ) -> None:
        """`received_ms`, on the monotonic clock, is when the fetch was received."""
        state = request.replica_state
        self._replica_id = BrokerId(request.replica_id if state is None else state.replica_id)
        self._broker_epoch = -1 if state is None else state.replica_epoch
        self._plan = plan
        self.quota: ReplicaQuota | None = quota
        self._reading = reading
        self.received_ms = received_ms

    def reading(self) -> Reading:
        return self._reading(now_ms=self.received_ms)

    def may_skip(self, target: SessionPartition) -> Partition | None:
        """As the pass that reads: no quiet partition is skipped when a full one is due."""
        quiet, session = target.quiet, self._plan.session
        if (
            type(quiet) is not UnchangedPartition
            or session is None
            or self.received_ms - session.full_scan_ms >= FULL_SCAN_MS
        ):
            return None
        partition, leader, log_end_offset = quiet
        is_unchanged = partition.leader is leader and partition.log.log_end_offset == log_end_offset
        return partition if is_unchanged else None

    def may_wait(self, partition: Partition, target: SessionPartition) -> bool:
        session, log, leader, requested = self._plan.session, partition.log, partition.leader, target.requested
        if session is None or requested.current_leader_epoch < 0 or target.quiet is not None:
            return False
        if requested.fetch_offset != log.log_end_offset or leader is None or self._replica_id not in leader.replicas:
            return False
        # Else the logs may diverge.
        return requested.last_fetched_epoch < 0 or requested.last_fetched_epoch == log.epochs.latest

    def begin(self, partition: Partition, target: SessionPartition) -> None:
        session, requested = self._plan.session, target.requested
        assert session is not None, "may_wait was called before"
        if self.received_ms - session.full_scan_ms >= FULL_SCAN_MS:
            session.full_scan_ms = self.received_ms
        partition.update_follower_fetch_state(
            self._replica_id,
            # Without the last fetched epoch: that the logs do not diverge is known.
            _new(FetchPosition, (requested.fetch_offset, partition.leader_epoch, NO_EPOCH)),
            self.received_ms,
            log_start_offset=requested.log_start_offset,
            broker_epoch=self._broker_epoch,
        )

    def packed_end(self, partition: Partition) -> int | None:
        return partition.log.log_end_offset

    def may_share(self, partition: Partition) -> bool:
        """Whether the follower is in sync, so that no quota applies."""
        return partition.leader is not None and self._replica_id in partition.leader.isr


class FollowerFetchReading(Reading):
    """One pass over the partitions of a follower's fetch.

    A partition's first pass updates what is known of its follower, and finds out where their logs diverge. That is the
    first pass of the fetch, but for a partition that this broker learns of later, while the fetch waits.
    """

    needs_names = False
    """CLUSTER_ACTION allows all topics. A follower may fetch one before UpdateMetadata has named it to its leader."""

    __slots__ = (
        "_broker_epoch",
        "_is_first",
        "_is_full_scan",
        "_late",
        "_quiet",
        "_quota",
        "_received_ms",
        "_replica_id",
        "_sent",
    )

    def __init__(
        self,
        leaders: KnownLeaders,
        call: Call,
        plan: FetchPlan,
        quota: ReplicaQuota,
        *,
        bytes_max: int,
        now_ms: int,
        is_first: bool,
    ) -> None:
        """`is_first`: what this fetch says of the follower is not recorded yet."""
        super().__init__(leaders, call, plan, bytes_max=bytes_max)
        request: FetchRequest = call.body
        state = request.replica_state
        self._replica_id = BrokerId(request.replica_id if state is None else state.replica_id)
        self._broker_epoch = -1 if state is None else state.replica_epoch
        self._quota = quota
        self._received_ms = now_ms
        self._is_first = is_first
        self._sent: list[tuple[TopicPartition, int]] = []
        self._quiet: list[tuple[SessionPartition, UnchangedPartition]] = []
        self._late: set[int] = set()
        """Of the targets without a first pass, the `id`."""
        session = plan.session
        self._is_full_scan = is_first and (session is None or now_ms - session.full_scan_ms >= FULL_SCAN_MS)
        if session is not None and self._is_full_scan:
            session.full_scan_ms = now_ms

    def read(self) -> None:
        self._sent.clear()
        self._quiet.clear()
        super().read()
        self._end_pass()

    def read_in_steps(self) -> Work[None]:
        self._sent.clear()
        self._quiet.clear()
        yield from super().read_in_steps()
        self._end_pass()

    def _end_pass(self) -> None:
        if self._is_first:
            self._late = {id(target) for target, answer in self._answers if answer.error_code}
        self._is_first = self._is_full_scan = False

    def read_cached(self) -> bool:
        """The pass of a follower that is in sync, and had everything when it began to wait."""
        found_rows: list[tuple[SessionPartition, Partition, Leader, bytes]] = []
        bytes_left = self.bytes_max
        for target in self._plan.targets:
            requested, quiet = target.requested, target.quiet
            partition = quiet.partition if type(quiet) is UnchangedPartition else self._led(target)
            leader = None if partition is None else partition.leader
            if self._is_first or partition is None or leader is None:
                return False
            end = partition.log.log_end_offset
            if type(quiet) is UnchangedPartition and quiet.leader is leader and quiet.log_end_offset == end:
                continue
            if self._replica_id not in leader.isr:
                return False  # A quota may apply.
            records = b""
            if requested.fetch_offset != end:
                bytes_max = min(requested.partition_max_bytes, bytes_left)
                cached = cached_tail(partition.log, requested.fetch_offset, end, bytes_max)
                if cached is None:
                    return False
                records, bytes_left = cached, bytes_left - len(cached)
            found_rows.append((target, partition, leader, records))
        for target, partition, leader, records in found_rows:
            answer = found(partition, leader, target.requested.partition)
            self._answers.append((target, answer))
            target.quiet = None
            if records:
                answer.records = records
                self._sent.append((partition.name, len(records)))
            elif target.requested.fetch_offset == leader.high_watermark:
                self._quiet.append((target, UnchangedPartition(partition, leader, target.requested.fetch_offset)))
        return True

    def _led(self, target: SessionPartition) -> Partition | None:
        if self._by_id:
            return self._replicas.get_by_id(target.topic_id, target.requested.partition)
        return self._replicas.get(target.topic, target.requested.partition)

    def _targets(self) -> Iterable[SessionPartition]:
        if self._is_full_scan:
            return self._plan.targets
        news = []
        for target in self._plan.targets:
            quiet = target.quiet
            if type(quiet) is UnchangedPartition:
                partition, leader, log_end_offset = quiet
                if partition.leader is leader and partition.log.log_end_offset == log_end_offset:
                    self.partitions.append(partition)  # Watched by the delayed fetch.
                    continue
                target.quiet = None
            news.append(target)
        return news

    def watched(self) -> Sequence[WatchedLog]:
        return [partition.log_end_waiters for partition in self.partitions]

    def _answer(self, partition: Partition, target: SessionPartition, *, whole_first: bool) -> PartitionData:
        requested = target.requested
        epoch = LeaderEpoch(max(requested.current_leader_epoch, -1))
        divergence = None
        if self._is_first or id(target) in self._late:
            divergence = partition.update_follower_fetch_state(
                self._replica_id,
                FetchPosition(Offset(requested.fetch_offset), epoch, requested.last_fetched_epoch),
                self._received_ms,
                log_start_offset=requested.log_start_offset,
                broker_epoch=self._broker_epoch,
            )
            self._late.discard(id(target))
        leader = partition.require_leader(epoch)
        self.partitions.append(partition)
        answer = found(partition, leader, requested.partition)
        if self._set_divergence(divergence, answer):
            return answer
        if self._replica_id not in leader.isr and self._quota.is_throttled(partition.name, self._received_ms):
            return answer
        piece = partition.read_replica(
            requested.fetch_offset, self._allowed(requested.partition_max_bytes), whole_first=whole_first
        )
        if piece is not None:
            if whole_first or begins_whole(piece):
                answer.records = piece
                self._sent.append((partition.name, piece.size))
            else:
                piece.release()
        elif requested.fetch_offset == partition.log.log_end_offset == leader.high_watermark:
            self._quiet.append((target, UnchangedPartition(partition, leader, requested.fetch_offset)))
        return answer

    def response(self) -> FetchResponse:
        for name, size in self._sent:
            self._quota.record(name, size, self._received_ms)
        for target, quiet in self._quiet:
            target.quiet = quiet  # This response has all of its news.
        return super().response()
