"""One partition of which this broker holds a copy: the log, its part in the replication, and those who wait.

As a leader it appends, notes what followers have, and asks for changes of the in-sync set; as a follower it takes what
the leader sends. What follows from a fact is decided by `leader.py` and `follower.py`; here it is carried out.

Everything here runs between two awaits of the loop, so nothing needs a lock. Appending promises the page cache; what
is on the disk is the log's business (`Log.flush`).
"""

from __future__ import annotations

from functools import partial

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records.fetch_validation import check_fetched
from sordini.protocol.records.legacy_validation import Storable
from sordini.protocol.records.produce_validation import CheckedBatches
from sordini.protocol.types import BrokerId, Offset, TopicId, TopicPartition
from sordini.replication.follower import (
    EpochEnd,
    EpochEndRequest,
    FetchPosition,
    Follower,
    Reaction,
    Start,
    find_divergence,
    watermark,
)
from sordini.replication.leader import IsrProposal, Leader, Term
from sordini.replication.partition_deps import (
    INTERNAL_TOPICS,
    NO_EPOCH,
    NO_PEERS,
    LogEndWaiters,
    PartitionSettings,
    Peers,
)
from sordini.replication.pending_commits import PendingCommits
from sordini.replication.ports import IsrGrant, IsrRefusal
from sordini.replication.purgatory import DelayedOperation, tell_all
from sordini.replication.uncommitted_bytes import UncommittedBytes
from sordini.storage.appending import LogAppendInfo
from sordini.storage.file_slice import FileSlice
from sordini.storage.follower_append import append_as_follower
from sordini.storage.log import Log
from sordini.storage.old_format_append import append_old_messages


class Partition:
    """A partition this broker leads or follows, or is between the two."""

    __slots__ = (
        "_growth",
        "_peers",
        "commits",
        "follower",
        "is_internal",
        "leader",
        "leader_epoch",
        "log",
        "name",
        "replicas",
        "settings",
        "tail",
        "topic_id",
        "waiters",
    )

    def __init__(
        self, name: TopicPartition, topic_id: TopicId, log: Log, settings: PartitionSettings, peers: Peers = NO_PEERS
    ) -> None:
        self.name = name
        self.is_internal = name.topic in INTERNAL_TOPICS
        self.topic_id = topic_id
        self.log = log
        self.settings = settings
        self.leader: Leader | None = None
        self.follower: Follower | None = None
        self.leader_epoch = NO_EPOCH
        """The newest that is known here; -1 for none."""
        self.replicas: tuple[BrokerId, ...] = ()
        self.purgatory: dict[DelayedOperation, None] = {}
        """Consumers, who wait for the high watermark."""
        self.tail = LogEndWaiters()
        self.commits = PendingCommits()
        self._peers = peers
        self._growth = UncommittedBytes()
        log.on_flushed = self.flushed

    @property
    def is_under_min_isr(self) -> bool:
        """Whether so few copies are in sync that acks=all is refused; False where this broker does not lead."""
        return self.leader is not None and len(self.leader.isr) < self._in_sync_wanted

    @property
    def _in_sync_wanted(self) -> int:
        """A topic may ask for more in-sync replicas than it has: then all of them are enough."""
        return min(self.settings.min_insync_replicas, len(self.replicas))

    # Terms begin and end.

    def lead(self, broker_id: BrokerId, term: Term, now_ms: int) -> None:
        """Begin a term as leader: the epoch's first offset is entered at once (KIP-101). `now_ms` is monotonic."""
        self._end_term(goes_on=self.leader is not None)
        self.replicas = term.replicas
        self.leader_epoch = term.leader_epoch
        self.log.assign_epoch(term.leader_epoch)
        self.leader = Leader(
            broker_id,
            term,
            high_watermark=Offset(self.log.high_watermark),
            log_end_offset=Offset(self.log.committable_end),
            now_ms=now_ms,
            lag_ms_max=self._peers.lag_ms_max,
        )
        self.leader.epoch_start_offset = Offset(self.log.log_end_offset)  # Records that do not count yet included.
        self.log.high_watermark = self.leader.high_watermark
        self.settle()  # Who is in sync now may have all that was waited for.

    def follow(self, leader_id: BrokerId, term: Term, *, truncates_before_fetch: bool = False) -> None:
        """Begin a term as follower. The high watermark stays; the log is cut only when the leader says where."""
        self._end_term()
        self.replicas = term.replicas
        self.leader_epoch = term.leader_epoch
        self.follower = Follower(
            leader_id, term.leader_epoch, term.partition_epoch, truncates_before_fetch=truncates_before_fetch
        )

    def resign(self) -> None:
        """Lead and follow no more; the epoch is remembered, so that nothing older begins again."""
        self._end_term()

    def _end_term(self, *, goes_on: bool = False) -> None:
        """With `goes_on` this broker leads on, so what was appended may still come to count."""
        was_leader = self.leader is not None
        self.leader = self.follower = None
        if was_leader and self._peers.changes is not None:
            self._peers.changes.withdraw(self.name)
        if not goes_on:
            self._growth.clear()
            self.commits.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._wake_all()

    def _wake_all(self) -> None:
        for waiter in [*self.purgatory, *self.tail.purgatory]:
            waiter.wake()

    def led(self, current_leader_epoch: int = NO_EPOCH) -> Leader:
        """The term in force.

        Raises BrokerError: NOT_LEADER_OR_FOLLOWER when there is none, FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH
        when the caller believes in another one (KIP-320; -1 believes nothing).
        """
        if current_leader_epoch not in (NO_EPOCH, self.leader_epoch):
            is_over = current_leader_epoch < self.leader_epoch
            code = ErrorCode.FENCED_LEADER_EPOCH if is_over else ErrorCode.UNKNOWN_LEADER_EPOCH
            raise BrokerError(code, f"{self.name} is in epoch {self.leader_epoch}")
        leader = self.leader
        if leader is None:
            raise BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self.name} is not led by this broker")
        return leader

    def require_leader_or_follower(self, current_leader_epoch: int = NO_EPOCH) -> Leader | None:
        """The term in force of whoever may serve consumers: as `led`, but None where this broker follows (KIP-392)."""
        if self.follower is not None and current_leader_epoch in (NO_EPOCH, self.leader_epoch):
            return None
        return self.led(current_leader_epoch)

    # Leading.

    def append(self, checked: Storable, now_ms: int, *, all_replicas: bool) -> LogAppendInfo:
        """Write checked batches to the end of the log.

        Raises BrokerError (not leader, too few in-sync replicas, producer out of order) and StorageError.
        """
        leader = self.leader or self.led()
        if all_replicas:
            wanted = self._in_sync_wanted
            if len(leader.isr) < wanted:
                raise BrokerError(
                    ErrorCode.NOT_ENOUGH_REPLICAS,
                    f"{self.name} has {len(leader.isr)} in-sync replicas, min.insync.replicas is {wanted}",
                )
        if isinstance(checked, CheckedBatches):
            appended = self.log.append(checked.buffer, checked.batches, leader.leader_epoch, now_ms)
        else:
            appended = append_old_messages(self.log, checked, now_ms)
        log = self.log
        if log.log_end_offset < log.flush_at and leader.appended(Offset(log.log_end_offset)):
            log.high_watermark = leader.high_watermark
            growth = self._growth
            if growth.held or leader.high_watermark != log.log_end_offset:
                growth.hold(log.log_end_offset, len(checked.buffer))
                growth.reached(leader.high_watermark)
            elif self.purgatory:
                growth.readable_bytes += len(checked.buffer)
            if self.commits:
                self.settle()
        elif not appended.duplicate:
            # It counts once it is on the disk, or on the other replicas.
            self._growth.hold(log.log_end_offset, len(checked.buffer))
        tail = self.tail
        if tail.purgatory:
            tail.grown_bytes += len(checked.buffer)
        return appended

    def flushed(self) -> None:
        """More of the log may count as committed: it is on the disk, or need not be any more."""
        leader = self.leader
        if leader is not None and leader.appended(Offset(self.log.committable_end)):
            self._advanced(leader)

    def update_follower_fetch_state(
        self,
        replica_id: BrokerId,
        position: FetchPosition,
        now_ms: int,
        *,
        log_start_offset: int = -1,
        broker_epoch: int = -1,
    ) -> EpochEnd | None:
        """Note that a follower asks for what follows `position`; where its log and this one part, if they do.

        To be called before reading, so that the answer has the watermark that follows from the question. A fetch that
        carries no epoch may read but counts for nothing (KIP-320), nor does one whose log parts from this one, or one
        from beyond the end. `now_ms` is monotonic. Raises BrokerError as `led`, and for who holds no replica.
        """
        leader = self.led(position.leader_epoch)
        if replica_id not in leader.replicas:
            raise BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"broker {replica_id} holds no replica of {self.name}")
        log = self.log
        if position.last_fetched_epoch >= 0:
            parted = find_divergence(position, log.epochs, Offset(log.log_end_offset))
            if parted is not None:
                return parted
        if position.leader_epoch == NO_EPOCH or not log.log_start_offset <= position.fetch_offset <= log.log_end_offset:
            return None
        if leader.fetched(
            replica_id,
            position.fetch_offset,
            Offset(log.log_end_offset),
            now_ms,
            log_start_offset=Offset(log_start_offset),
            broker_epoch=broker_epoch,
            is_registered=replica_id in leader.isr or self._peers.may_join(replica_id),
        ):
            self._advanced(leader)
        if leader.may_join(replica_id) and self._peers.changes is not None and self._peers.may_join(replica_id):
            self._propose(leader, leader.expand(replica_id))
        return None

    def check_isr(self, now_ms: int) -> None:
        """Ask to go on without followers that have fallen behind; due twice in `lag_ms_max`, and when brokers went."""
        leader = self.leader
        if leader is not None and self._peers.changes is not None:
            if (proposal := leader.shrink(now_ms, self._peers.may_join)) is not None:
                self._propose(leader, proposal)
            elif leader.appended(Offset(self.log.committable_end)):
                self._advanced(leader)  # Somebody not in sync, who held the watermark, was let go of.

    def _propose(self, leader: Leader, proposal: IsrProposal) -> None:
        assert self._peers.changes is not None
        self._peers.changes.propose(self.name, self.topic_id, proposal, partial(self._answered, leader, proposal))

    def _answered(self, leader: Leader, proposal: IsrProposal, answer: IsrGrant | IsrRefusal) -> None:
        """Whoever grants changes has answered; an answer to another term's proposal is nobody's."""
        if leader is not self.leader:
            return
        if isinstance(answer, IsrGrant):
            if answer.leader_epoch != leader.leader_epoch or leader.broker_id not in answer.isr:
                return  # Another state altogether: a LeaderAndIsr is on its way, and until then nothing is known.
            if not leader.granted(proposal, answer.isr, answer.partition_epoch):
                return
        elif answer is IsrRefusal.STALE or not leader.ineligible(proposal):
            return
        self._advanced(leader)

    def _advanced(self, leader: Leader) -> None:
        """The high watermark has moved: whoever waited for that is told."""
        self.log.high_watermark = leader.high_watermark
        self._growth.reached(leader.high_watermark)
        self.settle()
        self.notify_purgatory()

    def settle(self) -> None:
        """Answer those who waited for the watermark to come where it is now."""
        leader = self.leader
        if leader is not None and self.commits:
            few = len(leader.isr) < self._in_sync_wanted
            code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND if few else ErrorCode.NONE
            self.commits.reached(leader.high_watermark, code)

    def notify_purgatory(self) -> None:
        """Tell whoever waits how much more there is to read since the last time."""
        tell_all(self.purgatory, self._growth.taken())
        grown_bytes, self.tail.grown_bytes = self.tail.grown_bytes, 0
        tell_all(self.tail.purgatory, grown_bytes)

    @property
    def has_delayed_operations(self) -> bool:
        return bool(self.purgatory or self.tail.purgatory)

    # Following.

    def next_question(self) -> FetchPosition | EpochEndRequest | None:
        """What to ask the leader next; None while this broker does not follow."""
        return None if self.follower is None else self.follower.next(self.log.epochs, Offset(self.log.log_end_offset))

    def take(
        self,
        follower: Follower,
        fetch_offset: int,
        records: memoryview,
        high_watermark: int,
        log_start_offset: int,
        now_ms: int,
    ) -> int:
        """Append what the leader sent for `fetch_offset`, and take its watermark and log start; the bytes appended.

        An answer to another term's question, or from when the log ended elsewhere, is thrown away. Before the next one
        `log.flush_if_due` is due: what it acknowledges must be as durable here. Raises BrokerError and StorageError.
        """
        log = self.log
        if follower is not self.follower or fetch_offset != log.log_end_offset:
            return 0
        known = log.high_watermark
        fetched = check_fetched(records)
        if fetched.batches:
            first = fetched.batches[0][1]
            if first.base_offset < log.log_end_offset < first.next_offset:
                # This log ends (or is empty) in the middle of what is one batch at the leader: take it whole.
                log.truncate_to(first.base_offset, now_ms)
                if log.log_end_offset > first.base_offset:
                    log.truncate_fully_and_start_at(first.base_offset, now_ms)
            append_as_follower(log, fetched, now_ms)
            self._growth.hold(log.log_end_offset, len(fetched.buffer))
        log.high_watermark = watermark(Offset(known), Offset(high_watermark), Offset(log.log_end_offset))
        if log_start_offset > log.log_start_offset:
            log.advance_log_start(min(log_start_offset, log.high_watermark))
        if log.high_watermark != known:
            self._growth.reached(log.high_watermark)
            self.notify_purgatory()
        return len(fetched.buffer)

    def cut(self, follower: Follower, leader_end: EpochEnd, now_ms: int) -> int | None:
        """Cut the log where the leader says that both part; where it ends then, if so. Raises StorageError."""
        if follower is not self.follower:
            return None
        log = self.log
        offset = follower.truncation_offset(
            leader_end, log.epochs, Offset(log.log_end_offset), Offset(log.high_watermark)
        )
        is_cut = log.truncate_to(offset, now_ms)
        self._growth.cut(log.log_end_offset)
        return log.log_end_offset if is_cut else None

    def go_on_from(self, follower: Follower, start: Start, now_ms: int) -> None:
        """Go on at an offset that the leader has; raises StorageError."""
        if follower is not self.follower:
            return
        go_on = self.log.truncate_fully_and_start_at if start.begin_anew else self.log.truncate_to
        go_on(start.offset, now_ms)
        self._growth.cut(self.log.log_end_offset)

    def refused(self, follower: Follower, code: int) -> Reaction:
        """What the leader's refusal means."""
        return follower.refused(code) if follower is self.follower else Reaction.WAIT

    # Reading.

    def readable_end(self, *, committed_only: bool) -> Offset:
        """The first offset a client may not read: the high watermark or, for read_committed, the last stable offset.

        A follower's is what the leader told it last. Raises BrokerError NOT_LEADER_OR_FOLLOWER.
        """
        leader = self.leader or self.require_leader_or_follower()
        high_watermark = self.log.high_watermark if leader is None else leader.high_watermark
        return Offset(self.log.last_stable_offset(high_watermark) if committed_only else high_watermark)

    def read(self, start: int, bytes_max: int, *, whole_first: bool, committed_only: bool) -> FileSlice | None:
        """Bytes of whole or cut batches from the one that holds `start`; None when there is nothing to read yet.

        Raises BrokerError OFFSET_OUT_OF_RANGE when `start` lies outside the log or past what may be read.
        """
        return self.log.read(
            start, bytes_max, self.readable_end(committed_only=committed_only), whole_first=whole_first
        )

    def read_replica(self, start: int, bytes_max: int, *, whole_first: bool) -> FileSlice | None:
        """As `read`, for a follower: to the end of the log."""
        self.led()
        return self.log.read(start, bytes_max, self.log.log_end_offset, whole_first=whole_first)
