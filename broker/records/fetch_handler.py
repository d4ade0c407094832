"""Fetch: record batches from logs to consumers and followers, without copying them.

What is read are slices of segment files, which the network sends as they are. A fetch that finds less than min.bytes
waits in the purgatories of its partitions, and reads again when enough bytes have arrived or its time is up
(`tail_fetch.py` and `prepared/fetch.py` are the same rule for fetches at the log end, and for those that repeat).
Fetches of followers differ as `replica_fetch.py` says. Consumers that name their rack may be referred to a replica
there (KIP-392), and every replica here serves consumers up to its high watermark.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from sordini.broker.network.ports import DelayedResponse
from sordini.broker.records.down_conversion import FIRST_OF_FORMAT_2, DownConversions
from sordini.broker.records.fetch_reading import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    SERVED_BY_FOLLOWERS,
    PreferredReplica,
    Reading,
)
from sordini.broker.records.fetch_sessions import FetchPlan, FetchSessions
from sordini.broker.records.fetched_rows import refused
from sordini.broker.records.known_leaders import KnownLeaders
from sordini.broker.records.record_rules import FetchRule
from sordini.broker.records.tail_fetch import ConsumerTail, TailFetches, TailReader
from sordini.broker.requests.call import Call, Route
from sordini.broker.requests.slice_scheduler import Work
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
)
from sordini.protocol.records.work_budget import BudgetExceeded
from sordini.replication.fetching.session import FETCH_SESSION_ERRORS
from sordini.replication.ports import CallLater, Clock
from sordini.replication.purgatory import DelayedOperation
from sordini.system.named_tuple import NamedTuple


class Readers(NamedTuple):
    """How fetches are served that are not those of consumers at the leader."""

    followers: FollowerFetches | None = None
    """None: fetches of followers are refused."""
    closest: ReplicaSelector | None = None
    """None: consumers always read from the leader."""
    tails: TailFetches | None = None
    """Fetches that wait at the end of one partition; None: every fetch reads before it waits."""


class FetchHandler:
    """Serves fetches: sessions, isolation levels, size limits and long polls."""

    def __init__(
        self,
        leaders: KnownLeaders,
        sessions: FetchSessions,
        clock: Clock,
        call_later: CallLater,
        *,
        readers: Readers,
        conversions: DownConversions,
        bytes_max: int,
    ) -> None:
        """`bytes_max` is fetch.max.bytes; `call_later` takes seconds, as the loop's does."""
        self._leaders = leaders
        self._sessions = sessions
        self._clock = clock
        self._call_later = call_later
        self._followers, self._closest, self._tails = readers
        self._conversions = conversions
        self._bytes_max = bytes_max

    def route(self) -> Route:
        return Route(ApiKey.FETCH, self.handle, self.error_response, FetchRule(self._sessions))

    def handle(self, call: Call) -> FetchResponse | DelayedResponse | Work[FetchResponse | DelayedResponse]:
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
            reading_of = partial(Reading, self._leaders, call, plan, preference, bytes_max=bytes_max)
            tail: TailReader | None = None
            if preference is None:
                tail = ConsumerTail(reading_of, committed_only=request.isolation_level == READ_COMMITTED)
        else:
            if self._followers is None:
                raise BrokerError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "fetches of followers are not served here")
            self._followers.check(call)
            plan = self._sessions.plan(request, call.version, now_ms, privileged=self._followers.privileged)
            reading_of = partial(self._followers.reading, self._leaders, call, plan, bytes_max=bytes_max, now_ms=now_ms)
            tail = self._followers.tail(self._leaders, call, plan, bytes_max=bytes_max, now_ms=now_ms)
        if tail is not None and self._tails is not None:
            waiting = self._tails.wait(call, plan, tail, bytes_max)
            if waiting is not None:
                return waiting
        reading = reading_of()
        if reading.is_long:
            return self._read_in_slices(call, reading)
        reading.read()
        return self._respond_or_delay(call, reading)

    def _respond_or_delay(self, call: Call, reading: Reading) -> FetchResponse | DelayedResponse:
        """The response, or a pending one if less was read than min.bytes."""
        request: FetchRequest = call.body
        # A response never holds more than its limit, so waiting for more would be in vain.
        missing = min(request.min_bytes, reading.bytes_max) - reading.size
        if request.max_wait_ms > 0 and missing > 0 and reading.may_wait and not reading.is_behind():
            return self._delay(call, reading, missing)
        if reading.unconverted and not self._converted(call, reading):
            return self._conversions.later(call, reading.unconverted, reading.response)
        return reading.response()

    def _read_in_slices(self, call: Call, reading: Reading) -> Work[FetchResponse | DelayedResponse]:
        """As above, in slices. If a log is truncated meanwhile, the connection is reset (`Channel.may_hold`)."""
        yield from reading.read_in_steps()
        return self._respond_or_delay(call, reading)

    def _read_again(self, call: Call, reading: Reading) -> Work[FetchResponse | DelayedResponse]:
        yield from reading.read_in_steps()
        if reading.unconverted and not self._converted(call, reading):
            return self._conversions.later(call, reading.unconverted, reading.response)
        return reading.response()

    def _delay(self, call: Call, reading: Reading, missing_bytes: int) -> DelayedResponse:
        reading.drop()
        watched = reading.watched()

        def finish() -> None:
            timer.cancel()
            if reading.is_long:
                call.complete_by(pending, self._read_again(call, reading))
                return
            try:
                reading.read()
                if reading.unconverted and not self._converted(call, reading):
                    self._convert_later(call, reading, pending)
                    return
                parts = call.frame(reading.response())
            except BrokerError as error:
                parts = call.frame(self.error_response(call.body, error.code))
            pending.resolve(parts)

        def abandon() -> None:
            timer.cancel()
            operation.cancel()

        pending = DelayedResponse(on_abandon=abandon)
        operation = DelayedOperation(missing_bytes, watched, finish)
        timer = self._call_later(call.body.max_wait_ms / 1000, operation.complete)
        return pending

    def _converted(self, call: Call, reading: Reading) -> bool:
        """Down-convert what was read, if that can be done at once."""
        try:
            self._conversions.at_once(call, reading.unconverted)
        except BudgetExceeded:
            return False
        return True

    def _convert_later(self, call: Call, reading: Reading, pending: DelayedResponse) -> None:
        """Complete a delayed response when its records are down-converted."""
        converting = self._conversions.later(call, reading.unconverted, reading.response)
        pending.on_abandon = converting.abandon
        converting.attach(lambda: pending.resolve(converting.parts))

    @staticmethod
    def error_response(request: FetchRequest, code: ErrorCode) -> FetchResponse:
        """The whole fetch failed: a code for it (from version 7 on) and for each partition."""
        return FetchResponse(
            error_code=code,
            responses=[
                FetchableTopicResponse(
                    topic=topic.topic,
                    topic_id=topic.topic_id,
                    partitions=[refused(requested.partition, code) for requested in topic.partitions],
                )
                for topic in request.topics
            ]
            if code not in FETCH_SESSION_ERRORS
            else [],
        )


ReplicaSelector = Callable[[Call], PreferredReplica]
"""Gives the preferred replica for a fetch that names a rack."""


class FollowerFetches(Protocol):
    """Serves the fetches of other brokers."""

    @property
    def privileged(self) -> bool:
        """Whether their fetch sessions displace those of consumers."""

    def check(self, call: Call) -> None:
        """Raise BrokerError when the caller may not fetch as a follower."""

    def reading(self, leaders: KnownLeaders, call: Call, plan: FetchPlan, *, bytes_max: int, now_ms: int) -> Reading:
        """How such a fetch reads."""

    def tail(self, leaders: KnownLeaders, call: Call, plan: FetchPlan, *, bytes_max: int, now_ms: int) -> TailReader:
        """How such a fetch waits at the end of one partition."""
