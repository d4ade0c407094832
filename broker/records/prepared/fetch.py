"""Fetch requests of one partition at its log end, served in straight-line code (see `table`).

A consumer or a follower that keeps up sends the same request after every record: only the session epoch, the fetch
offset and the log start offset change. Where nothing can be read yet, such a request enters the purgatory as in the
general way (`records/tail_fetch.py`); where records are there already, or anything is unusual, the general way serves
it.

    ... session id | session epoch | middle: topic, partition, leader epoch | position | rest: limits, rack
    prefix --------'               '--------------- equal ------------------'          '----- equal -------
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from sordini.broker.network.ports import Peer
from sordini.broker.records.fetch_handler import Readers
from sordini.broker.records.fetch_reading import READ_COMMITTED, Reading
from sordini.broker.records.fetch_sessions import (
    LAST_EPOCH,
    NO_SESSION,
    FetchPlan,
    FetchSessions,
    Session,
    SessionPartition,
)
from sordini.broker.records.known_leaders import KnownLeaders
from sordini.broker.records.prepared.fetch_shape import FetchShape, unpack_int32
from sordini.broker.records.tail_fetch import (
    BY_TOPIC_ID_VERSION,
    ConsumerTail,
    TailFetches,
    TailReader,
    WaitingFetch,
)
from sordini.broker.requests.call import Call
from sordini.broker.requests.prepared_requests import Declined, PreparedRequest, Served
from sordini.protocol.messages.fetch import FetchPartition, FetchRequest
from sordini.protocol.types import TopicId
from sordini.replication.leader import Leader
from sordini.replication.partition import Partition
from sordini.system.named_tuple import NamedTuple

FIRST_VERSION: Final = 7
"""From here on a request has a session."""

_UNUSUAL: Final = Declined.UNUSUAL
_STALE: Final = Declined.STALE


class FetchDeps(NamedTuple):
    """What a prepared Fetch needs of the broker; the same objects as the general way."""

    leaders: KnownLeaders
    sessions: FetchSessions
    monotonic_ms: Callable[[], int]
    readers: Readers
    bytes_max: int
    """fetch.max.bytes."""


class FetchPreparer:
    """Prepares Fetch requests of one partition that this broker leads."""

    def __init__(self, deps: FetchDeps) -> None:
        self._deps = deps

    def prepare(self, call: Call) -> tuple[bytes, PreparedRequest] | None:
        request: FetchRequest = call.body
        tails, topics = self._deps.readers.tails, request.topics
        if call.version < FIRST_VERSION or len(topics) != 1 or len(topics[0].partitions) != 1 or tails is None:
            return None
        requested = topics[0].partitions[0]
        if (
            (request.session_epoch == LAST_EPOCH and request.session_id != NO_SESSION)
            or request.forgotten_topics_data
            or request.max_wait_ms <= 0
            or min(request.min_bytes, request.max_bytes, self._deps.bytes_max) <= 0
            or (request.session_epoch == LAST_EPOCH and _is_followers(request))
            or (request.rack_id and self._deps.readers.closest is not None)
        ):
            return None
        partition = self._partition_of(call, requested)
        if partition is None or partition.leader is None:
            return None
        if 0 <= requested.current_leader_epoch != partition.leader_epoch:
            return None
        held = None
        if request.session_epoch != LAST_EPOCH:
            session = self._deps.sessions.find(request.session_id)
            if session is None or len(session.targets) != 1 or session.denied:
                return None
            (target,) = session.targets.values()
            held = HeldPartition(session, target, FetchPlan([target], session, incremental=True))
        shape = FetchShape.of(call)
        return shape.prefix, PreparedFetch(call, partition, partition.leader, held, shape, tails, self._deps)

    def _partition_of(self, call: Call, requested: FetchPartition) -> Partition | None:
        (topic,) = call.body.topics
        if call.version < BY_TOPIC_ID_VERSION:
            return self._deps.leaders.replicas.get(topic.topic, requested.partition)
        return self._deps.leaders.replicas.get_by_id(TopicId(topic.topic_id), requested.partition)


class HeldPartition(NamedTuple):
    """A session with one partition."""

    session: Session
    target: SessionPartition
    plan: FetchPlan


class PreparedFetch:
    """Serves the fetches of one session, or those without a session that have the same bytes, in one leader epoch."""

    __slots__ = (
        "_bytes_max",
        "_client_id",
        "_deps",
        "_follower",
        "_held",
        "_key",
        "_leader",
        "_limit",
        "_listener",
        "_missing_bytes",
        "_monotonic_ms",
        "_partition",
        "_reader",
        "_request",
        "_requested",
        "_shape",
        "_tails",
        "_topic_id",
        "_versioned_api",
    )

    def __init__(
        self,
        call: Call,
        partition: Partition,
        leader: Leader,
        held: HeldPartition | None,
        shape: FetchShape,
        tails: TailFetches,
        deps: FetchDeps,
    ) -> None:
        request: FetchRequest = call.body
        self._partition = partition
        self._leader = leader
        self._held = held
        self._key = None if held is None else next(iter(held.session.targets))
        self._shape = shape
        self._tails = tails
        self._deps = deps
        self._monotonic_ms = deps.monotonic_ms
        self._request = request
        self._requested = request.topics[0].partitions[0]
        self._topic_id = TopicId(request.topics[0].topic_id)
        self._client_id = call.client_id
        self._versioned_api = call.versioned_api
        self._bytes_max = min(request.max_bytes, deps.bytes_max)
        self._missing_bytes = min(request.min_bytes, self._bytes_max)
        self._limit = min(self._bytes_max, self._requested.partition_max_bytes)
        self._listener = call.peer.listener if _is_followers(request) else None
        """The listener on which a follower's request was served; None for a consumer's, which any listener serves."""
        self._follower: TailReader | None = None
        self._reader: TailReader | None = None
        """Of all fetches of a session; without one each fetch has its own."""
        followers = deps.readers.followers
        if held is not None and self._listener is not None and followers is not None:
            self._follower = self._reader = followers.tail(
                deps.leaders, call, held.plan, bytes_max=self._bytes_max, now_ms=0
            )
        elif held is not None:
            self._reader = self._consumer(call, held.plan)

    def serve(self, peer: Peer, frame: memoryview, correlation_id: int) -> Served:
        """Enter the purgatory, or decline with nothing done."""
        partition, shape, held = self._partition, self._shape, self._held
        if partition.leader is not self._leader:
            return _STALE
        epoch_end, at, end = shape.epoch_end, shape.position_at, shape.position_end
        if (
            frame[epoch_end:at] != shape.middle
            or frame[end:] != shape.rest
            or (self._listener is not None and peer.listener != self._listener)
        ):
            return _UNUSUAL
        position = shape.position.unpack_from(frame, at)
        if position[0] < self._leader.high_watermark:
            return _UNUSUAL  # There is something to read, and no need to make the objects below.
        (epoch,) = unpack_int32(frame, epoch_end - 4)
        if held is None:
            if epoch != LAST_EPOCH:
                return _UNUSUAL
            plan = self._sessionless_plan()
            target = plan.targets[0]
        else:
            session, target, plan = held
            targets = session.targets
            if not session.is_kept or session.epoch != epoch or len(targets) != 1 or self._key not in targets:
                return _UNUSUAL
            if session.denied:
                return _UNUSUAL
            target.requested = self._requested
            target.quiet = None
        requested = target.requested
        requested.fetch_offset = position[0]
        requested.log_start_offset = position[-1]
        if len(position) == 3:
            requested.last_fetched_epoch = position[1]
        now_ms = self._monotonic_ms()
        call = Call(self._versioned_api, peer, correlation_id, self._client_id, self._request)
        reader = self._reader or self._consumer(call, plan)
        if self._follower is not None:
            self._follower.received_ms = now_ms
        if not reader.may_wait(partition, target):
            return _UNUSUAL
        reader.begin(partition, target)
        if held is not None:
            self._deps.sessions.advance(held.session, now_ms)
        self._versioned_api.requests += 1
        missing_bytes, call_later = self._missing_bytes, self._tails.call_later
        return WaitingFetch(call, plan, (partition,), reader, self._limit, missing_bytes, call_later).response

    def _sessionless_plan(self) -> FetchPlan:
        """Several connections may send the same bytes, so each fetch has a row of its own."""
        one, by_id = self._requested, self._versioned_api.version >= BY_TOPIC_ID_VERSION
        row = FetchPartition(
            partition=one.partition,
            current_leader_epoch=one.current_leader_epoch,
            partition_max_bytes=one.partition_max_bytes,
        )
        name = self._deps.sessions.name_of(self._request.topics[0], uses_topic_ids=by_id)
        return FetchPlan([SessionPartition(name, self._topic_id, row)], None, incremental=False)

    def _consumer(self, call: Call, plan: FetchPlan) -> ConsumerTail:
        reading = partial(Reading, self._deps.leaders, call, plan, bytes_max=self._bytes_max)
        return ConsumerTail(reading, committed_only=self._request.isolation_level == READ_COMMITTED)


def _is_followers(request: FetchRequest) -> bool:
    return request.replica_id >= 0 or (request.replica_state is not None and request.replica_state.replica_id >= 0)
