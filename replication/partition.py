"""One partition with a replica on this broker: its log, its role, and the operations that wait for it.

A leader appends, tracks its followers and proposes changes of the in-sync set; a follower appends what it fetched. The
decisions are made in `leader.py` and `follower.py` and carried out here; `follower_log.py` appends and truncates what a
follower fetched.

Everything here runs between two awaits of the loop, so nothing needs a lock. An append promises the page cache; the
disk is `Log.flush`'s.
"""

from __future__ import annotations

from functools import partial

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records.legacy_validation import Storable
from sordini.protocol.records.produce_validation import CheckedBatches
from sordini.protocol.types import BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from sordini.replication.follower import EpochEndRequest, FetchErrorAction, Follower
from sordini.replication.follower_truncation import EpochEnd, FetchPosition, find_divergence
from sordini.replication.leader import IsrProposal, Leader, Term
from sordini.replication.min_insync_replicas import (
    code_after_append,
    effective_min_isr,
    is_under_min_isr,
    too_few_replicas,
)
from sordini.replication.partition_deps import INTERNAL_TOPICS, NO_EPOCH, NO_PEERS, PartitionSettings, Peers
from sordini.replication.pending_commits import PendingCommits
from sordini.replication.ports import IsrGrant, IsrRefusal
from sordini.replication.purgatory import DelayedOperation, LogEndWaiters, notify
from sordini.replication.uncommitted_bytes import UncommittedBytes
from sordini.storage.appending import LogAppendInfo
from sordini.storage.file_slice import FileSlice
from sordini.storage.log import Log
from sordini.storage.old_format_append import append_old_messages
from sordini.system.named_tuple import NamedTuple


class KnownLeader(NamedTuple):
    """Which broker leads a partition, in which leader epoch."""

    broker_id: BrokerId
    leader_epoch: LeaderEpoch


class Partition:
    """A partition that this broker leads or follows, or that is between two terms."""

    __slots__ = (
        "_peers",
        "follower",
        "is_internal",
        "known_leader",
        "leader",
        "leader_epoch",
        "log",
        "log_end_waiters",
        "name",
        "pending_commits",
        "purgatory",
        "replicas",
        "settings",
        "shared_answers",
        "topic_id",
        "uncommitted",
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
        """The newest that this broker knows; -1 for none."""
        self.known_leader: KnownLeader | None = None
        """The leader of this term, or of the next one while operations of the last one are completed."""
        self.replicas: tuple[BrokerId, ...] = ()
        self.purgatory: dict[DelayedOperation, None] = {}
        """Operations that wait for the high watermark, such as fetches of consumers."""
        self.log_end_waiters = LogEndWaiters()
        self.pending_commits = PendingCommits()
        self.shared_answers: dict[object, object] | None = None
        """What the operations completed by one notification share; None outside of one, when the log may change."""
        self._peers = peers
        self.uncommitted = UncommittedBytes()
        log.on_flushed = self.flushed

    @property
    def is_under_min_isr(self) -> bool:
        """Whether too few replicas are in sync for acks=all; False where this broker does not lead."""
        leader, assigned = self.leader, len(self.replicas)
        return leader is not None and is_under_min_isr(len(leader.isr), self.settings.min_insync_replicas, assigned)

    # Begin and end of terms.

    def become_leader(self, broker_id: BrokerId, term: Term, now_ms: int) -> None:
        """Begin a term as leader: the epoch's start offset is recorded at once (KIP-101). `now_ms` is monotonic."""
        self.known_leader = KnownLeader(broker_id, term.leader_epoch)
        self._end_term(still_leader=self.leader is not None)
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
        self.leader.epoch_start_offset = Offset(self.log.log_end_offset)  # Unflushed records included.
        self.log.high_watermark = self.leader.high_watermark
        self.complete_commits()  # All replicas that are in sync now may have the pending appends.

    def become_follower(self, leader_id: BrokerId, term: Term, *, truncates_before_fetch: bool = False) -> None:
        """Begin a term as follower. The high watermark stays; the log is truncated only where the leader says."""
        self.known_leader = KnownLeader(leader_id, term.leader_epoch)
        self._end_term()
        self.replicas = term.replicas
        self.leader_epoch = term.leader_epoch
        self.follower = Follower(
            leader_id, term.leader_epoch, term.partition_epoch, truncates_before_fetch=truncates_before_fetch
        )

    def resign(self, successor: KnownLeader | None = None) -> None:
        """End the term without another one here. The epoch is kept, so that no older term can begin.

        `successor` is the next leader, where it is known.
        """
        self.known_leader = successor
        self._end_term()

    def _end_term(self, *, still_leader: bool = False) -> None:
        """With `still_leader` this broker leads in the next term, too: pending appends may still be committed."""
        was_leader = self.leader is not None
        self.leader = self.follower = None
        if was_leader and self._peers.changes is not None:
            self._peers.changes.withdraw(self.name)
        if not still_leader:
            self.uncommitted.clear()
            self.pending_commits.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        for operation in [*self.purgatory, *self.log_end_waiters.purgatory]:
            operation.complete()

    def require_leader(self, current_leader_epoch: int = NO_EPOCH) -> Leader:
        """The current term as leader.

        Raises BrokerError: NOT_LEADER_OR_FOLLOWER when there is none, FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH
        when the caller's leader epoch is another one (KIP-320; -1 is not compared).
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
        """As `require_leader`, but None where this broker follows: followers serve consumers, too (KIP-392)."""
        if self.follower is not None and current_leader_epoch in (NO_EPOCH, self.leader_epoch):
            return None
        return self.require_leader(current_leader_epoch)

    # As a leader.

    def append(self, checked: Storable, now_ms: int, *, all_replicas: bool) -> LogAppendInfo:
        """Append checked batches to the log. `acks.finish_appends` follows.

        Raises BrokerError (not leader, too few in-sync replicas, producer out of order) and StorageError.
        """
        leader = self.leader or self.require_leader()
        # Compared here first: two calls less for each append to a partition that has the whole number in sync.
        if all_replicas and len(leader.isr) < self.settings.min_insync_replicas and self.is_under_min_isr:
            min_isr = effective_min_isr(self.settings.min_insync_replicas, len(self.replicas))
            reason = f"{self.name} has {len(leader.isr)} in-sync replicas, min.insync.replicas is {min_isr}"
            raise too_few_replicas(checked, self.log.producers, reason)
        if isinstance(checked, CheckedBatches):
            appended = self.log.append(checked.buffer, checked.batches, leader.leader_epoch, now_ms)
        else:
            appended = append_old_messages(self.log, checked, now_ms)
        log = self.log
        if log.log_end_offset < log.flush_at and leader.appended(Offset(log.log_end_offset)):
            log.high_watermark = leader.high_watermark
            uncommitted = self.uncommitted
            if uncommitted.appends or leader.high_watermark != log.log_end_offset:
                uncommitted.add(log.log_end_offset, len(checked.buffer))
                uncommitted.commit(leader.high_watermark)
            elif self.purgatory:
                uncommitted.readable_bytes += len(checked.buffer)
            if self.pending_commits.waiting:
                self.complete_commits()
        elif not appended.duplicate:
            # Committed once it is on the disk, or on the other replicas.
            self.uncommitted.add(log.log_end_offset, len(checked.buffer))
        log_end_waiters = self.log_end_waiters
        if log_end_waiters.purgatory:
            log_end_waiters.new_bytes += len(checked.buffer)
        return appended

    def flushed(self) -> None:
        """More of the log may be committed: it is on the disk, or no longer has to be."""
        leader = self.leader
        if leader is not None and leader.appended(Offset(self.log.committable_end)):
            self._high_watermark_advanced(leader)

    def update_follower_fetch_state(
        self,
        replica_id: BrokerId,
        position: FetchPosition,
        now_ms: int,
        *,
        log_start_offset: int = -1,
        broker_epoch: int = -1,
    ) -> EpochEnd | None:
        """Record that a follower fetches from `position`; returns where its log diverges from this one, if it does.

        Called before the log is read, so that the response has the resulting high watermark. A fetch without a leader
        epoch may read but changes nothing (KIP-320), nor does one of a diverging log or from beyond the log end.
        `now_ms` is monotonic. Raises BrokerError as `require_leader`, and for a broker that holds no replica.
        """
        leader = self.leader if position.leader_epoch == self.leader_epoch else None
        leader = leader or self.require_leader(position.leader_epoch)
        if replica_id not in leader.replicas:
            raise BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"broker {replica_id} holds no replica of {self.name}")
        log = self.log
        if position.last_fetched_epoch >= 0:
            divergence = find_divergence(position, log.epochs, Offset(log.log_end_offset))
            if divergence is not None:
                return divergence
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
            self._high_watermark_advanced(leader)
        may_join = replica_id not in leader.isr and self._peers.changes is not None and leader.may_join(replica_id)
        if may_join and self._peers.may_join(replica_id):
            self._propose(leader, leader.expand(replica_id))
        return None

    def maybe_shrink_isr(self, now_ms: int) -> None:
        """Propose to remove lagging followers; due every half of `lag_ms_max`, and when brokers have failed."""
        leader = self.leader
        if leader is not None and self._peers.changes is not None:
            if (proposal := leader.shrink(now_ms, self._peers.may_join)) is not None:
                self._propose(leader, proposal)
            elif leader.appended(Offset(self.log.committable_end)):
                self._high_watermark_advanced(leader)  # A replica that is not in sync no longer holds the watermark.

    def _propose(self, leader: Leader, proposal: IsrProposal) -> None:
        assert self._peers.changes is not None
        self._peers.changes.propose(self.name, self.topic_id, proposal, partial(self._on_isr_answer, leader, proposal))

    def _on_isr_answer(self, leader: Leader, proposal: IsrProposal, answer: IsrGrant | IsrRefusal) -> None:
        """A proposal was answered; one of an earlier term is dropped."""
        if leader is not self.leader:
            return
        if isinstance(answer, IsrGrant):
            if answer.leader_epoch != leader.leader_epoch or leader.broker_id not in answer.isr:
                return  # The state of another term: its LeaderAndIsr is on the way, and until then nothing changes.
            old_isr = leader.isr
            is_advanced = leader.granted(proposal, answer.isr, answer.partition_epoch)
            if leader.isr != old_isr:
                if self._peers.log is not None:
                    self._peers.log.changed(self.name, leader, old_isr)
                if self._peers.counts is not None:
                    self._peers.counts.changed(old_isr, leader.isr)
            if not is_advanced:
                return
        elif answer is IsrRefusal.STALE or not leader.ineligible(proposal):
            return
        self._high_watermark_advanced(leader)

    def _high_watermark_advanced(self, leader: Leader) -> None:
        self.log.high_watermark = leader.high_watermark
        self.uncommitted.commit(leader.high_watermark)
        self.complete_commits()
        self.notify_purgatory()

    def complete_commits(self) -> None:
        """Complete the pending appends up to the high watermark."""
        leader = self.leader
        if leader is not None and self.pending_commits:
            in_sync, min_isr = len(leader.isr), self.settings.min_insync_replicas
            # Compared here first, as in `append`.
            code = ErrorCode.NONE if in_sync >= min_isr else code_after_append(in_sync, min_isr, len(self.replicas))
            self.pending_commits.complete(leader.high_watermark, code)

    def notify_purgatory(self) -> None:
        """Report what became readable since the last call to the delayed operations."""
        notify(self, self.uncommitted.take_readable())

    @property
    def has_delayed_operations(self) -> bool:
        return bool(self.purgatory or self.log_end_waiters.purgatory)

    # As a follower.

    def next_request(self) -> FetchPosition | EpochEndRequest | None:
        """What to request from the leader next; None while this broker does not follow."""
        if self.follower is None:
            return None
        return self.follower.next_request(self.log.epochs, Offset(self.log.log_end_offset))

    def on_fetch_error(self, follower: Follower, code: int) -> FetchErrorAction:
        """What to do after an error of the leader."""
        return follower.on_error(code) if follower is self.follower else FetchErrorAction.WAIT

    # Reading.

    def readable_end(self, *, committed_only: bool) -> Offset:
        """The first offset a client may not read: the high watermark or, for read_committed, the last stable offset.

        A follower's is what its last fetch returned. Raises BrokerError NOT_LEADER_OR_FOLLOWER.
        """
        leader = self.leader or self.require_leader_or_follower()
        high_watermark = self.log.high_watermark if leader is None else leader.high_watermark
        return Offset(self.log.last_stable_offset(high_watermark) if committed_only else high_watermark)

    def read(self, start: int, bytes_max: int, *, whole_first: bool, committed_only: bool) -> FileSlice | None:
        """Whole or partial batches from the one that contains `start`; None when there is nothing to read yet.

        Raises BrokerError OFFSET_OUT_OF_RANGE when `start` lies outside the log or past what may be read.
        """
        return self.log.read(
            start, bytes_max, self.readable_end(committed_only=committed_only), whole_first=whole_first
        )

    def read_replica(self, start: int, bytes_max: int, *, whole_first: bool) -> FileSlice | None:
        """As `read`, for a follower: up to the log end offset."""
        self.require_leader()
        return self.log.read(start, bytes_max, self.log.log_end_offset, whole_first=whole_first)
