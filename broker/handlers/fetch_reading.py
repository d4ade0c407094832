"""One pass over the partitions of a fetch, and the answer made from it.

A pass over few partitions is made at once, one over more than TARGETS_AT_ONCE in slices. What was read are slices of
files, pinned until they are sent or dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sordini.broker.dispatch import Call
from sordini.broker.handlers.down_conversion import FIRST_OF_FORMAT_2, Unconverted, check_allowed
from sordini.broker.handlers.fetched_rows import begins_whole, found, leader_of, refused
from sordini.broker.network.ports import release_parts
from sordini.broker.requests.fetch_sessions import FetchPlan, SessionPartition
from sordini.broker.requests.slice_scheduler import Work
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from sordini.protocol.types import BrokerId, LeaderEpoch, Offset
from sordini.replication.follower import EpochEnd, FetchPosition, find_divergence
from sordini.replication.leader import Leader
from sordini.replication.partition import Partition
from sordini.replication.purgatory import WatchedLog
from sordini.replication.replica_set import ReplicaSet
from sordini.storage.errors import StorageError
from sordini.storage.file_slice import FileSlice
from sordini.storage.log import Log

TARGETS_AT_ONCE = 500
TARGET_STEPS = 3
"""What it takes to read one partition of more than TARGETS_AT_ONCE."""

READ_UNCOMMITTED = 0
READ_COMMITTED = 1

SERVED_BY_FOLLOWERS = 11
"""The first version in which consumers may read from followers and say where they stand (KIP-392)."""
TELLS_THE_LEADER = 16
"""The first version in which who asked the wrong broker is told which one leads (KIP-951)."""
ELSEWHERE_CODES = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})

PreferredReplica = Callable[[Leader, int], BrokerId | None]
"""Whom to read from rather than from this leader, from an offset on; None for the leader itself."""


class Reading:
    """One pass over the partitions of a fetch, and the answer made from it."""

    __slots__ = (
        "_answers",
        "_by_id",
        "_committed_only",
        "_plan",
        "_preference",
        "_replicas",
        "_version",
        "bytes_max",
        "partitions",
        "size",
        "unconverted",
        "urgent",
    )

    def __init__(
        self,
        replicas: ReplicaSet,
        call: Call,
        plan: FetchPlan,
        preference: PreferredReplica | None = None,
        *,
        bytes_max: int,
    ) -> None:
        request: FetchRequest = call.body
        self._replicas = replicas
        self._plan = plan
        self._preference = preference
        self._version = call.version
        self._by_id = call.version >= 13
        self.bytes_max = bytes_max
        self._committed_only = request.isolation_level == READ_COMMITTED
        self._answers: list[tuple[SessionPartition, PartitionData]] = []
        self.partitions: list[Partition] = []
        self.size = 0
        self.urgent = False
        self.unconverted: list[Unconverted] = []
        """What was read for versions before 4, and is to be rewritten before the answer."""

    @property
    def has_targets(self) -> bool:
        """Whether any partition is asked for."""
        return bool(self._plan.targets)

    @property
    def is_long(self) -> bool:
        """Whether it has more partitions than are read in one go."""
        return len(self._plan.targets) > TARGETS_AT_ONCE

    def read(self) -> None:
        """Read every partition, in order, until the answer is full."""
        self._begin()
        whole_first = self._version >= 3
        for target in self._targets():
            answer = self._read_one(target, whole_first=whole_first and self.size == 0)
            self._answers.append((target, answer))
            if answer.records is not None:
                self.size += _size(answer.records)

    def read_in_steps(self) -> Work[None]:
        """As `read`, in slices; what was read is given back when it is closed."""
        self._begin()
        is_whole = False
        try:
            for target in self._targets():
                answer = self._read_one(target, whole_first=self._version >= 3 and self.size == 0)
                self._answers.append((target, answer))
                if answer.records is not None:
                    self.size += _size(answer.records)
                yield TARGET_STEPS
            is_whole = True
        finally:
            if not is_whole:
                self.drop()

    def _begin(self) -> None:
        self._answers.clear()
        self.partitions.clear()
        self.size = 0

    def _targets(self) -> Iterable[SessionPartition]:
        return self._plan.targets

    def watched(self) -> Sequence[WatchedLog]:
        """Where to wait for more."""
        return self.partitions

    def drop(self) -> None:
        """Give back what was read: the answer will be read anew."""
        release_parts([answer.records for _, answer in self._answers if isinstance(answer.records, FileSlice)])
        self._answers.clear()
        self.unconverted.clear()

    def _read_one(self, target: SessionPartition, *, whole_first: bool) -> PartitionData:
        wish = target.requested
        partition = None
        try:
            if self._by_id:
                partition = self._replicas.partition_by_id(target.topic_id, wish.partition)
            else:
                partition = self._replicas.partition(target.topic, wish.partition)
            return self._answer(partition, target, whole_first=whole_first)
        except BrokerError as error:
            self.urgent = True
            # A topic that a session knew by name, and that is gone now, is no unknown id to its reader.
            was_known = error.code == ErrorCode.UNKNOWN_TOPIC_ID and target.topic
            answer = refused(wish.partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if was_known else error.code)
            if partition is not None and error.code in ELSEWHERE_CODES and self._version >= TELLS_THE_LEADER:
                answer.current_leader = leader_of(partition)
            return answer
        except StorageError:
            self.urgent = True
            return refused(wish.partition, ErrorCode.KAFKA_STORAGE_ERROR)

    def _answer(self, partition: Partition, target: SessionPartition, *, whole_first: bool) -> PartitionData:
        wish = target.requested
        epoch, serves = max(wish.current_leader_epoch, -1), self._version >= SERVED_BY_FOLLOWERS
        leader = partition.require_leader_or_follower(epoch) if serves else partition.require_leader(epoch)
        log = partition.log
        self.partitions.append(partition)
        answer = found(partition, leader, wish.partition)
        if self._preference is not None and leader is not None and wish.fetch_offset >= log.log_start_offset:
            preferred = self._preference(leader, wish.fetch_offset)
            if preferred is not None:
                answer.preferred_read_replica = preferred
                self.urgent = True  # What is asked for may be there already.
                return answer
        if wish.last_fetched_epoch >= 0 and self._diverges(log, target, answer):
            return answer
        allowed = self._allowed(wish.partition_max_bytes)
        piece = partition.read(wish.fetch_offset, allowed, whole_first=whole_first, committed_only=self._committed_only)
        if piece is not None:
            if self._version >= 3 and not whole_first and not begins_whole(piece):
                piece.release()  # From version 3 on, a batch that does not fit is left for the next fetch.
            elif self._version < FIRST_OF_FORMAT_2:
                check_allowed(partition, piece)
                answer.records = piece
                self.unconverted.append(Unconverted(answer, piece, wish.fetch_offset, allowed))
            else:
                answer.records = piece
        if self._committed_only and answer.records:
            answer.aborted_transactions = [
                AbortedTransaction(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
                for aborted in log.aborted_transactions(wish.fetch_offset, answer.last_stable_offset)
            ]
        return answer

    def _allowed(self, partition_bytes_max: int) -> int:
        """What the next partition may add."""
        return max(min(partition_bytes_max, self.bytes_max - self.size), 0)

    def _diverges(self, log: Log, target: SessionPartition, answer: PartitionData) -> bool:
        """Tell a reader whose last epoch ended elsewhere in our log where the two part (KIP-595's check)."""
        wish = target.requested
        position = FetchPosition(
            Offset(wish.fetch_offset), LeaderEpoch(wish.current_leader_epoch), wish.last_fetched_epoch
        )
        return self._parts(find_divergence(position, log.epochs, Offset(log.log_end_offset)), answer)

    def _parts(self, parted: EpochEnd | None, answer: PartitionData) -> bool:
        if parted is None:
            return False
        answer.diverging_epoch = EpochEndOffset(epoch=parted.epoch, end_offset=parted.end_offset)
        self.urgent = True
        return True

    def response(self) -> FetchResponse:
        """The answer to what was read last; a session's incremental one holds only what is news."""
        session = self._plan.session
        response = FetchResponse(session_id=session.number if session is not None else 0)
        topic: FetchableTopicResponse | None = None
        for target, answer in self._answers:
            if session is not None and not self._is_news(target, answer):
                continue
            if topic is None or topic.topic != target.topic or topic.topic_id != target.topic_id:
                topic = FetchableTopicResponse(topic=target.topic, topic_id=target.topic_id)
                response.responses.append(topic)
            topic.partitions.append(answer)
        return response

    def _is_news(self, target: SessionPartition, answer: PartitionData) -> bool:
        """Whether a session's reader must hear of this partition; remembers what it is told."""
        session = self._plan.session
        assert session is not None
        has_records = bool(answer.records)
        news = (
            has_records
            or answer.error_code != 0
            or answer.high_watermark != target.sent_high_watermark
            or answer.log_start_offset != target.sent_log_start_offset
            or answer.diverging_epoch is not None
            or answer.preferred_read_replica >= 0
        )
        target.sent_high_watermark = -1 if answer.error_code else answer.high_watermark
        target.sent_log_start_offset = answer.log_start_offset
        if has_records and self._plan.incremental:
            session.move_to_end(target)
        return news or not self._plan.incremental


def _size(records: Any) -> int:
    return records.size if isinstance(records, FileSlice) else len(records)
