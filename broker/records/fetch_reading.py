"""One pass over the partitions of a fetch, and the response made from it.

Up to TARGETS_AT_ONCE partitions are read at once, more in slices of the loop's time. What is read are slices of files,
pinned until they are sent or dropped. Whether a fetch waits, and for how long, `fetch_handler.py` decides; what wakes
it is `replication/purgatory.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sordini.broker.network.ports import release_parts
from sordini.broker.records.down_conversion import FIRST_OF_FORMAT_2, Unconverted
from sordini.broker.records.fetch_sessions import FetchPlan, SessionPartition
from sordini.broker.records.fetched_rows import UNKNOWN_TOPIC_CODES, begins_whole, found, refused
from sordini.broker.records.known_leaders import FETCH_CODES, KnownLeaders
from sordini.broker.requests.call import Call
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
from sordini.replication.follower_truncation import EpochEnd, FetchPosition, find_divergence
from sordini.replication.leader import Leader
from sordini.replication.partition import Partition
from sordini.replication.purgatory import WatchedLog
from sordini.storage.errors import StorageError
from sordini.storage.file_slice import FileSlice
from sordini.storage.log import Log

TARGETS_AT_ONCE = 500
TARGET_STEPS = 3
"""The cost of one partition in a pass over more than TARGETS_AT_ONCE."""

READ_UNCOMMITTED = 0
READ_COMMITTED = 1

SERVED_BY_FOLLOWERS = 11
"""The first version in which consumers name their rack and may fetch from followers (KIP-392)."""
GONE_CODES = UNKNOWN_TOPIC_CODES | {ErrorCode.INCONSISTENT_TOPIC_ID}
"""Of topics that are deleted: another request for them gets the same error."""

PreferredReplica = Callable[[Leader, int], BrokerId | None]
"""The preferred read replica at an offset; None for the leader itself."""


class Reading:
    """One pass over the partitions of a fetch, and the response made from it."""

    needs_names = True
    """Whether a topic id without a name is not read, as access to the topic has not been checked."""

    __slots__ = (
        "_answers",
        "_by_id",
        "_call",
        "_committed_only",
        "_has_new_unknown",
        "_leaders",
        "_names_leaders",
        "_plan",
        "_preference",
        "_repeats",
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
        leaders: KnownLeaders,
        call: Call,
        plan: FetchPlan,
        preference: PreferredReplica | None = None,
        *,
        bytes_max: int,
    ) -> None:
        request: FetchRequest = call.body
        self._leaders = leaders
        self._replicas = leaders.replicas
        self._call = call
        self._names_leaders = False
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
        """Whether a row says what its reader has to act on, so that the response does not wait for records."""
        self._has_new_unknown = self._repeats = False
        self.unconverted: list[Unconverted] = []
        """What was read for versions below 4, and is down-converted before the response."""

    @property
    def may_wait(self) -> bool:
        """Whether nothing of the last pass is to be sent at once.

        As at Apache Kafka, a topic or partition that does not exist ends the wait only where no other one is requested:
        else a client that requests a deleted topic again and again would fetch without pause. For the same reason it
        does not even there once the session was sent that error.
        """
        return not self.urgent and (bool(self.partitions) or (self._repeats and not self._has_new_unknown))

    @property
    def is_long(self) -> bool:
        """Whether it has more partitions than are read at once."""
        return len(self._plan.targets) > TARGETS_AT_ONCE

    def is_behind(self) -> bool:
        """Whether a row's records are the rest of an older segment, which more of the log follows already.

        A response does not reach past a segment, so its reader would wait for records that come in the next response.
        """
        for _, answer in self._answers:
            piece = answer.records
            if not isinstance(piece, FileSlice):
                continue
            partition = self._replicas.get(*piece.topic_partition)
            if partition is not None:
                segments = partition.log.segments
                if segments.number_of(piece.base) < segments.number_of(piece.end_offset):
                    return True
        return False

    def read(self) -> None:
        """Read every partition, in order, until the response is full."""
        self._begin()
        whole_first = self._version >= 3
        for target in self._targets():
            answer = self._read_one(target, whole_first=whole_first and self.size == 0)
            self._answers.append((target, answer))
            if answer.records is not None:
                self.size += _size(answer.records)

    def read_cached(self) -> bool:
        """As `read`, from the disk's cache of small appends; False, with nothing done, where that is not possible."""
        return False

    def read_in_steps(self) -> Work[None]:
        """As `read`, in slices; closing it releases what was read."""
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
        """The logs to watch for more records."""
        return self.partitions

    def drop(self) -> None:
        """Release what was read: the partitions will be read again."""
        release_parts([answer.records for _, answer in self._answers if isinstance(answer.records, FileSlice)])
        self._answers.clear()
        self.unconverted.clear()

    def _read_one(self, target: SessionPartition, *, whole_first: bool) -> PartitionData:
        requested = target.requested
        try:
            if self._by_id:
                if self.needs_names and not target.topic:  # It was unknown when the request was checked.
                    raise BrokerError(ErrorCode.UNKNOWN_TOPIC_ID, "there was no topic of that id")
                partition = self._replicas.partition_by_id(target.topic_id, requested.partition)
            else:
                partition = self._replicas.partition(target.topic, requested.partition)
            return self._answer(partition, target, whole_first=whole_first)
        except BrokerError as error:
            code = error.code
            if code == ErrorCode.UNKNOWN_TOPIC_ID and target.topic:
                code = self._code_of_former_topic(target)
            if code not in GONE_CODES:
                self.urgent = True
            elif target.sent_error == code:
                self._repeats = True
            elif code == ErrorCode.INCONSISTENT_TOPIC_ID:
                self.urgent = True
            else:
                self._has_new_unknown = True
            if code in FETCH_CODES and not self._names_leaders:
                self._names_leaders = True
                self._leaders.name_in_fetch(self._call)
            return refused(requested.partition, code)
        except StorageError:
            self.urgent = True
            return refused(requested.partition, ErrorCode.KAFKA_STORAGE_ERROR)

    def _code_of_former_topic(self, target: SessionPartition) -> ErrorCode:
        """For an id that was known when its partition was requested: the topic is deleted, or made again.

        As at Apache Kafka, which keeps the name beside the id, and compares the ids when it reads.
        """
        try:
            self._replicas.partition(target.topic, target.requested.partition)
        except BrokerError as error:
            return error.code
        return ErrorCode.INCONSISTENT_TOPIC_ID

    def _answer(self, partition: Partition, target: SessionPartition, *, whole_first: bool) -> PartitionData:
        requested = target.requested
        epoch, serves = max(requested.current_leader_epoch, -1), self._version >= SERVED_BY_FOLLOWERS
        leader = partition.require_leader_or_follower(epoch) if serves else partition.require_leader(epoch)
        log = partition.log
        self.partitions.append(partition)
        answer = found(partition, leader, requested.partition)
        if self._preference is not None and leader is not None and requested.fetch_offset >= log.log_start_offset:
            preferred = self._preference(leader, requested.fetch_offset)
            if preferred is not None:
                answer.preferred_read_replica = preferred
                self.urgent = True  # The preferred replica may have the records already.
                return answer
        if requested.last_fetched_epoch >= 0 and self._diverges(log, target, answer):
            return answer
        if self._committed_only:
            answer.aborted_transactions = []
        allowed = self._allowed(requested.partition_max_bytes)
        piece = partition.read(
            requested.fetch_offset, allowed, whole_first=whole_first, committed_only=self._committed_only
        )
        if piece is not None:
            if self._version >= 3 and not whole_first and not begins_whole(piece):
                piece.release()  # From version 3 on, a batch that does not fit is left for the next fetch.
            elif self._version < FIRST_OF_FORMAT_2:
                if not partition.settings.down_conversion:
                    return self._not_convertible(requested.partition, piece)
                answer.records = piece
                self.unconverted.append(Unconverted(answer, piece, requested.fetch_offset, allowed))
            else:
                answer.records = piece
        if self._committed_only and piece is not None and answer.records:
            # Those of these records alone: a reader far behind would be sent the aborts of the whole log each time.
            answer.aborted_transactions = [
                AbortedTransaction(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
                for aborted in log.aborted_transactions(requested.fetch_offset, log.end_bound(piece))
            ]
        return answer

    def _not_convertible(self, index: int, piece: FileSlice) -> PartitionData:
        """The row of a topic with message.downconversion.enable=false; its bytes end the wait as those of others do."""
        self.size += piece.size
        piece.release()
        return refused(index, ErrorCode.UNSUPPORTED_VERSION)

    def _allowed(self, partition_bytes_max: int) -> int:
        """How many bytes the next partition may add."""
        return max(min(partition_bytes_max, self.bytes_max - self.size), 0)

    def _diverges(self, log: Log, target: SessionPartition, answer: PartitionData) -> bool:
        """Whether the reader's log diverges from this one (KIP-595); its row says where."""
        requested = target.requested
        position = FetchPosition(
            Offset(requested.fetch_offset), LeaderEpoch(requested.current_leader_epoch), requested.last_fetched_epoch
        )
        return self._set_divergence(find_divergence(position, log.epochs, Offset(log.log_end_offset)), answer)

    def _set_divergence(self, divergence: EpochEnd | None, answer: PartitionData) -> bool:
        if divergence is None:
            return False
        answer.diverging_epoch = EpochEndOffset(epoch=divergence.epoch, end_offset=divergence.end_offset)
        self.urgent = True
        return True

    def response(self) -> FetchResponse:
        """The response to the last pass; in an incremental session only rows with news."""
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
        """Whether a session's response needs this row; remembers what is sent."""
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
        target.sent_error = answer.error_code
        target.sent_high_watermark = -1 if answer.error_code else answer.high_watermark
        target.sent_log_start_offset = answer.log_start_offset
        if has_records and self._plan.incremental:
            session.move_to_end(target)
        return news or not self._plan.incremental


def _size(records: Any) -> int:
    return records.size if isinstance(records, FileSlice) else len(records)
