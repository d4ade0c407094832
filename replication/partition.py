"""One partition as its leader serves it: the log, the leader's view of the copies, and those who wait for records.

Everything here runs between two awaits of the loop, so nothing needs a lock. Appending promises the page cache; what
is on the disk is the log's business (`Log.flush`).
"""

from __future__ import annotations

from typing import NamedTuple

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records.old_produced import OldMessages
from sordini.protocol.records.produced import CheckedBatches, ProduceRules
from sordini.protocol.types import BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from sordini.replication.leader import Leader
from sordini.replication.waiters import Waiter
from sordini.storage.file_slice import FileSlice
from sordini.storage.log import Log
from sordini.storage.log_config import LogConfig
from sordini.storage.log_values import Appended
from sordini.storage.old_formats import append_messages

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state"})


class PartitionSettings(NamedTuple):
    """What a topic's configuration means for each of its partitions."""

    log: LogConfig
    rules: ProduceRules
    min_insync_replicas: int
    down_conversion: bool


class Partition:
    """A partition this broker leads."""

    __slots__ = (
        "_grown_bytes",
        "_held_bytes",
        "_replicas_count",
        "is_internal",
        "leader",
        "log",
        "name",
        "settings",
        "topic_id",
        "waiters",
    )

    def __init__(self, name: TopicPartition, topic_id: TopicId, log: Log, settings: PartitionSettings) -> None:
        self.name = name
        self.is_internal = name.topic in INTERNAL_TOPICS
        self.topic_id = topic_id
        self.log = log
        self.settings = settings
        self.leader: Leader | None = None
        self.waiters: dict[Waiter, None] = {}
        self._grown_bytes = 0
        self._held_bytes = 0
        """Bytes appended past the high watermark, because they must be on the disk first."""
        log.on_flushed = self.flushed
        self._replicas_count = 1

    @property
    def is_under_min_isr(self) -> bool:
        """Whether so few copies are in sync that acks=all is refused; False where this broker does not lead."""
        leader = self.leader
        return leader is not None and len(leader.in_sync_replicas) < self._in_sync_wanted

    @property
    def _in_sync_wanted(self) -> int:
        """A topic may ask for more in-sync replicas than it has: then all of them are enough."""
        return min(self.settings.min_insync_replicas, self._replicas_count)

    def lead(
        self, broker_id: BrokerId, leader_epoch: LeaderEpoch, in_sync_replicas: list[BrokerId], replicas_count: int
    ) -> None:
        """Begin a term as leader: the epoch's first offset is entered at once (KIP-101)."""
        self._replicas_count = replicas_count
        self.log.assign_epoch(leader_epoch)
        self.leader = Leader(
            broker_id,
            leader_epoch,
            in_sync_replicas,
            high_watermark=Offset(self.log.high_watermark),
            log_end_offset=Offset(self.log.committable_end),
        )
        self.log.high_watermark = self.leader.high_watermark

    def resign(self) -> None:
        """Leadership is gone, or the partition is: whoever waits is told to look again."""
        self.leader = None
        for waiter in list(self.waiters):
            waiter.wake()

    def led(self, current_leader_epoch: int = -1) -> Leader:
        """The term in force.

        Raises BrokerError: NOT_LEADER_OR_FOLLOWER when there is none, FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH
        when the caller believes in another one (KIP-320; -1 believes nothing).
        """
        leader = self.leader
        if leader is None:
            raise BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self.name} is not led by this broker")
        if current_leader_epoch not in (-1, leader.leader_epoch):
            if current_leader_epoch < leader.leader_epoch:
                raise BrokerError(ErrorCode.FENCED_LEADER_EPOCH, f"{self.name} is in epoch {leader.leader_epoch}")
            raise BrokerError(ErrorCode.UNKNOWN_LEADER_EPOCH, f"{self.name} is in epoch {leader.leader_epoch}")
        return leader

    def append(self, checked: CheckedBatches | OldMessages, now_ms: int, *, all_replicas: bool) -> Appended:
        """Write checked batches to the end of the log.

        Raises BrokerError (not leader, too few in-sync replicas, producer out of order) and StorageError.
        """
        leader = self.leader or self.led()
        if all_replicas:
            wanted = self._in_sync_wanted
            if len(leader.in_sync_replicas) < wanted:
                raise BrokerError(
                    ErrorCode.NOT_ENOUGH_REPLICAS,
                    f"{self.name} has {len(leader.in_sync_replicas)} in-sync replicas, min.insync.replicas is {wanted}",
                )
        if isinstance(checked, CheckedBatches):
            appended = self.log.append(checked.buffer, checked.batches, leader.leader_epoch, now_ms)
        else:
            appended = append_messages(self.log, checked, now_ms)
        if self.log.log_end_offset >= self.log.flush_at:
            self._held_bytes += len(checked.buffer)  # With flush.messages they count once they are on the disk.
        elif leader.appended(Offset(self.log.log_end_offset)):
            self.log.high_watermark = leader.high_watermark
            if self.waiters:
                self._grown_bytes += len(checked.buffer)
        return appended

    def flushed(self) -> None:
        """More of the log may count as committed: it is on the disk, or need not be any more."""
        leader = self.leader
        if leader is not None and leader.appended(Offset(self.log.committable_end)):
            self.log.high_watermark = leader.high_watermark
            self._grown_bytes += self._held_bytes
            self._held_bytes = 0
            self.tell_waiters()

    def tell_waiters(self) -> None:
        """Tell whoever waits how much more there is to read since the last time."""
        grown, self._grown_bytes = self._grown_bytes, 0
        if grown:
            for waiter in list(self.waiters):
                waiter.grown(grown)

    def delete_records(self, before: int | None) -> int:
        """Drop the records below an offset, or below the high watermark; where the log then starts.

        Raises BrokerError: INVALID_TOPIC_EXCEPTION for a topic of the broker's own, POLICY_VIOLATION for one that is
        only compacted, OFFSET_OUT_OF_RANGE for an offset that no reader could have come to.
        """
        high_watermark = self.led().high_watermark
        if self.is_internal:
            raise BrokerError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"records of {self.name.topic} cannot be deleted")
        if not self.log.config.cleanup_delete:
            raise BrokerError(ErrorCode.POLICY_VIOLATION, f"the cleanup.policy of {self.name.topic} is not delete")
        end = high_watermark if before is None else before
        if not 0 <= end <= high_watermark:
            raise BrokerError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{self.name} can be cut from 0 to {high_watermark}")
        self.log.advance_log_start(end)
        return self.log.log_start_offset

    def readable_end(self, *, committed_only: bool) -> Offset:
        """The first offset a client may not read: the high watermark or, for read_committed, the last stable offset."""
        leader = self.led()
        end = self.log.last_stable_offset(leader.high_watermark) if committed_only else leader.high_watermark
        return Offset(end)

    def read(self, start: int, bytes_max: int, *, whole_first: bool, committed_only: bool) -> FileSlice | None:
        """Bytes of whole or cut batches from the one that holds `start`; None when there is nothing to read yet.

        Raises BrokerError OFFSET_OUT_OF_RANGE when `start` lies outside the log or past what may be read.
        """
        below = self.readable_end(committed_only=committed_only)
        return self.log.read(start, bytes_max, below, whole_first=whole_first)
