"""Fetch: record batches from logs to readers, by reference.

What is read leaves as slices of segment files that the network sends without looking at them. A fetch that finds
less than it asked for waits in the partitions it watches and reads anew when they have grown or its time is up.
Followers' fetches go the same way, with the differences that `replica_fetch.py` makes. Consumers that say where they
stand may be sent to a copy close by (KIP-392), and every copy here serves consumers up to its high watermark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from sordini.broker.clock import Clock
from sordini.broker.dispatch import Call, Route
from sordini.broker.fetch_sessions import FetchPlan, FetchSessions, Target
from sordini.broker.handlers.conversions import FIRST_OF_FORMAT_2, Conversions, Unconverted, check_allowed
from sordini.broker.handlers.fetched_rows import begins_whole, found, leader_of, refused
from sordini.broker.network.ports import Pending, release_parts
from sordini.broker.slices import Work
from sordini.protocol.api import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from sordini.protocol.records.effort import TooLong
from sordini.protocol.types import BrokerId, LeaderEpoch, Offset
from sordini.replication.follower import EpochEnd, Position, parting
from sordini.replication.leader import Leader
from sordini.replication.partition import Partition
from sordini.replication.replica_set import ReplicaSet
from sordini.replication.waiters import Waiter, Watched
from sordini.storage.errors import StorageError
from sordini.storage.file_slice import FileSlice
from sordini.storage.log import Log

TARGETS_AT_ONCE = 500
TARGET_STEPS = 3
"""What it takes to read one partition of more than TARGETS_AT_ONCE."""

READ_UNCOMMITTED = 0
READ_COMMITTED = 1


class Timer(Protocol):
    """A call that is due later."""

    def cancel(self) -> None: ...


CallLater = Callable[[float, Callable[[], None]], Timer]


class Readers(NamedTuple):
    """How readers are served that are not consumers at the leader."""

    followers: Followers | None = None
    """Without it no fetch is served as a follower's."""
    closest: Closest | None = None
    """Without it no consumer is sent from the leader to another copy."""


class FetchHandler:
    """Reads for clients: sessions, isolation levels, size limits and long polls."""

    def __init__(
        self,
        replicas: ReplicaSet,
        sessions: FetchSessions,
        clock: Clock,
        call_later: CallLater,
        *,
        readers: Readers,
        conversions: Conversions,
        bytes_max: int,
    ) -> None:
        """`bytes_max` is fetch.max.bytes; `call_later` takes seconds, as the loop's does."""
        self._replicas = replicas
        self._sessions = sessions
        self._clock = clock
        self._call_later = call_later
        self._followers, self._closest = readers
        self._conversions = conversions
        self._bytes_max = bytes_max

    def route(self) -> Route:
        return Route(ApiKey.FETCH, self.handle, self.refuse)

    def handle(self, call: Call) -> FetchResponse | Pending | Work[FetchResponse | Pending]:
        request: FetchRequest = call.body
        if request.isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
            raise BrokerError(ErrorCode.INVALID_REQUEST, f"there is no isolation level {request.isolation_level}")
        now_ms, bytes_max = self._clock.monotonic_ms(), min(request.max_bytes, self._bytes_max)
        if call.version < FIRST_OF_FORMAT_2:
            bytes_max = min(bytes_max, self._conversions.bytes_max)
        if request.replica_id < 0 and (request.replica_state is None or request.replica_state.replica_id < 0):
            plan = self._sessions.plan(request, call.version, now_ms)
            preference = None
            if self._closest is not None and call.version >= SERVED_BY_FOLLOWERS and request.rack_id:
                preference = self._closest(call)
            reading = Reading(self._replicas, call, plan, preference, bytes_max=bytes_max)
        else:
            if self._followers is None:
                raise BrokerError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "nobody is served as a follower here")
            self._followers.check(call)
            plan = self._sessions.plan(request, call.version, now_ms, privileged=self._followers.privileged)
            reading = self._followers.reading(self._replicas, call, plan, bytes_max=bytes_max, now_ms=now_ms)
        if reading.is_long:
            return self._long(call, reading)
        reading.read()
        return self._answered(call, reading)

    def _answered(self, call: Call, reading: Reading) -> FetchResponse | Pending:
        """What was read, or, when that is less than was asked for, the promise of it."""
        request: FetchRequest = call.body
        if reading.unconverted and not self._converted(call, reading):
            return self._conversions.later(call, reading.unconverted, reading.response)
        # More than an answer may hold can never come together.
        missing = min(request.min_bytes, reading.bytes_max) - reading.size
        if request.max_wait_ms <= 0 or missing <= 0 or reading.urgent or not reading.has_targets:
            return reading.response()
        return self._park(call, reading, missing)

    def _long(self, call: Call, reading: Reading) -> Work[FetchResponse | Pending]:
        """The same of many partitions. When a log is cut meanwhile, the connection is reset (`Channel.may_hold`)."""
        yield from reading.read_in_steps()
        return self._answered(call, reading)

    def _read_anew(self, call: Call, reading: Reading) -> Work[FetchResponse | Pending]:
        yield from reading.read_in_steps()
        if reading.unconverted and not self._converted(call, reading):
            return self._conversions.later(call, reading.unconverted, reading.response)
        return reading.response()

    def _park(self, call: Call, reading: Reading, missing_bytes: int) -> Pending:
        reading.drop()
        watched = reading.watched()

        def finish() -> None:
            timer.cancel()
            if reading.is_long:
                call.complete_by(pending, self._read_anew(call, reading))
                return
            try:
                reading.read()
                if reading.unconverted and not self._converted(call, reading):
                    self._convert_later(call, reading, pending)
                    return
                parts = call.frame(reading.response())
            except BrokerError as error:
                parts = call.frame(self.refuse(call.body, error.code))
            pending.resolve(parts)

        def abandon() -> None:
            timer.cancel()
            waiter.leave()

        pending = Pending(on_abandon=abandon)
        waiter = Waiter(missing_bytes, watched, finish)
        timer = self._call_later(call.body.max_wait_ms / 1000, waiter.wake)
        return pending

    def _converted(self, call: Call, reading: Reading) -> bool:
        """Rewrite what was read for a reader of an old format, if that can be done at once."""
        try:
            reading.size = self._conversions.at_once(call, reading.unconverted)
        except TooLong:
            return False
        return True

    def _convert_later(self, call: Call, reading: Reading, pending: Pending) -> None:
        """Complete an answer that was parked when its records are rewritten."""
        converting = self._conversions.later(call, reading.unconverted, reading.response)
        pending.on_abandon = converting.abandon
        converting.attach(lambda: pending.resolve(converting.parts))

    @staticmethod
    def refuse(request: FetchRequest, code: ErrorCode) -> FetchResponse:
        """The whole fetch failed: a code for it (version 7 on) and for each partition asked for."""
        return FetchResponse(
            error_code=code,
            responses=[
                FetchableTopicResponse(
                    topic=topic.topic,
                    topic_id=topic.topic_id,
                    partitions=[refused(wish.partition, code) for wish in topic.partitions],
                )
                for topic in request.topics
            ]
            if code not in SESSION_CODES
            else [],
        )


SERVED_BY_FOLLOWERS = 11
"""The first version in which consumers may read from followers and say where they stand (KIP-392)."""
TELLS_THE_LEADER = 16
"""The first version in which who asked the wrong broker is told which one leads (KIP-951)."""
ELSEWHERE_CODES = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})
SESSION_CODES = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


Preference = Callable[[Leader, int], BrokerId | None]
"""Whom to read from rather than from this leader, from an offset on; None for the leader itself."""
Closest = Callable[[Call], Preference]
"""What a fetch that names its reader's rack prefers."""


class Followers(Protocol):
    """Who serves the fetches of other brokers."""

    @property
    def privileged(self) -> bool:
        """Whether their fetch sessions displace those of consumers."""

    def check(self, call: Call) -> None:
        """Raise BrokerError when whoever calls may not fetch as a follower."""

    def reading(self, replicas: ReplicaSet, call: Call, plan: FetchPlan, *, bytes_max: int, now_ms: int) -> Reading:
        """How such a fetch reads."""


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
        preference: Preference | None = None,
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
        self._answers: list[tuple[Target, PartitionData]] = []
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

    def _targets(self) -> Iterable[Target]:
        return self._plan.targets

    def watched(self) -> Sequence[Watched]:
        """Where to wait for more."""
        return self.partitions

    def drop(self) -> None:
        """Give back what was read: the answer will be read anew."""
        release_parts([answer.records for _, answer in self._answers if isinstance(answer.records, FileSlice)])
        self._answers.clear()
        self.unconverted.clear()

    def _read_one(self, target: Target, *, whole_first: bool) -> PartitionData:
        wish = target.wish
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

    def _answer(self, partition: Partition, target: Target, *, whole_first: bool) -> PartitionData:
        wish = target.wish
        epoch, serves = max(wish.current_leader_epoch, -1), self._version >= SERVED_BY_FOLLOWERS
        leader = partition.led_or_followed(epoch) if serves else partition.led(epoch)
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

    def _diverges(self, log: Log, target: Target, answer: PartitionData) -> bool:
        """Tell a reader whose last epoch ended elsewhere in our log where the two part (KIP-595's check)."""
        wish = target.wish
        position = Position(Offset(wish.fetch_offset), LeaderEpoch(wish.current_leader_epoch), wish.last_fetched_epoch)
        return self._parts(parting(position, log.epochs, Offset(log.log_end_offset)), answer)

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

    def _is_news(self, target: Target, answer: PartitionData) -> bool:
        """Whether a session's reader must hear of this partition; remembers what it is told."""
        session = self._plan.session
        assert session is not None
        has_records = bool(answer.records)
        news = (
            has_records
            or answer.error_code != 0
            or answer.high_watermark != target.told_high_watermark
            or answer.log_start_offset != target.told_log_start_offset
            or answer.diverging_epoch is not None
            or answer.preferred_read_replica >= 0
        )
        target.told_high_watermark = -1 if answer.error_code else answer.high_watermark
        target.told_log_start_offset = answer.log_start_offset
        if has_records and self._plan.incremental:
            session.move_to_end(target)
        return news or not self._plan.incremental


def _size(records: Any) -> int:
    return records.size if isinstance(records, FileSlice) else len(records)
