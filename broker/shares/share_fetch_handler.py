"""ShareFetch: acknowledge what a member holds, and hand it more records (KIP-932, KIP-1206, KIP-1222).

Records are acquired when what is acknowledged is written: their locks would run while the response waits for that, and
others might have acknowledged them before it is sent. A fetch that waits is in the purgatories of its partitions and of
its share partitions; it is woken by new records, by those that others give back, and at its time. A request that renews
locks fetches nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sordini.broker.network.ports import DelayedResponse
from sordini.broker.requests.call import Call, Route
from sordini.broker.requests.slice_scheduler import Work
from sordini.broker.shares.acknowledging import Acknowledging, Refused
from sordini.broker.shares.machine.sessions import CLOSE, OPEN, SessionKey, ShareSession, Target
from sordini.broker.shares.member_sessions import MemberSessions
from sordini.broker.shares.share_answer import Countdown, ShareAnswer, by_topic
from sordini.broker.shares.share_partitions import SharePartitions
from sordini.broker.shares.share_reading import ShareReading
from sordini.broker.shares.share_rules import ShareFetchRule
from sordini.broker.shares.woken_fetches import WokenFetches
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.share_fetch import (
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from sordini.protocol.types import TopicId
from sordini.replication.ports import CallLater
from sordini.replication.purgatory import DelayedOperation


class ShareFetchHandler:
    """Serves the fetches of share groups."""

    def __init__(self, sessions: MemberSessions, partitions: SharePartitions, call_later: CallLater) -> None:
        self._sessions = sessions
        self._partitions = partitions
        self._call_later = call_later

    def route(self) -> Route:
        return Route(ApiKey.SHARE_FETCH, self.handle, self.error_response, ShareFetchRule(self._sessions))

    def handle(self, call: Call) -> Work[ShareFetchResponse | DelayedResponse]:
        request: ShareFetchRequest = call.body
        key = session_key(request)
        return self._serve(call, key, self._sessions.take_refused(key))

    def _serve(self, call: Call, key: SessionKey, refused: Refused) -> Work[ShareFetchResponse | DelayedResponse]:
        request: ShareFetchRequest = call.body
        _check(request)
        requested = yield from self._named(request)
        session = yield from self._session(call, key, requested)
        acknowledging = Acknowledging(self._partitions, key, is_renewal=request.is_renew_ack, refused=refused)
        reading = ShareReading(self._partitions, session, request, refused)
        answer = ShareAnswer(call, lambda: self._response(call, key, acknowledging, reading))
        is_closing = request.share_session_epoch == CLOSE
        if is_closing or request.is_renew_ack or request.max_records <= 0 or request.max_bytes == 0:
            yield from acknowledging.begin(request.topics, answer.begin)
        else:
            waiting = WaitingShareFetch(reading, request, self._call_later, self._partitions.woken, answer.begin())
            answer.on_abandon = waiting.abandon
            acknowledged = Countdown(waiting.begin)
            yield from acknowledging.begin(request.topics, acknowledged.begin)
            acknowledged.release()
        if is_closing:
            self._sessions.end(session)
        result: ShareFetchResponse | DelayedResponse = answer.result()
        return result

    def _named(self, request: ShareFetchRequest) -> Work[dict[Target, str]]:
        """The partitions of a request with their topics' names; raises BrokerError for one that is twice there."""
        names = self._partitions.leaders.metadata.name_of
        found: dict[Target, str] = {}
        for topic in request.topics:
            topic_id = TopicId(topic.topic_id)
            name = names(topic_id) or ""
            for row in topic.partitions:
                yield 1
                target = Target(topic_id, row.partition_index)
                if target in found:
                    raise BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{target} is named twice")
                found[target] = name
        return found

    def _session(self, call: Call, key: SessionKey, requested: dict[Target, str]) -> Work[ShareSession]:
        """Raises BrokerError as `ShareSessions.open` and `next`."""
        request: ShareFetchRequest = call.body
        if request.share_session_epoch == OPEN:
            for topic in request.topics:
                yield 1
                if any(row.acknowledgement_batches for row in topic.partitions):
                    raise BrokerError(ErrorCode.INVALID_REQUEST, "nothing can be acknowledged before a session is open")
            return self._sessions.open(call.peer, key, requested)
        session = self._sessions.next(key, request.share_session_epoch)
        if request.share_session_epoch != CLOSE:
            forgotten = []
            for gone in request.forgotten_topics_data:
                yield 1 + len(gone.partitions) // 10
                forgotten += [Target(TopicId(gone.topic_id), index) for index in gone.partitions]
            self._sessions.change(session, requested, forgotten)
        return session

    def _response(
        self, call: Call, key: SessionKey, acknowledging: Acknowledging, reading: ShareReading
    ) -> ShareFetchResponse:
        rows = dict(reading.rows)
        for target, code in acknowledging.codes.items():
            row = rows.get(target)
            if row is None:
                row = rows[target] = PartitionData(partition_index=target.partition, records=b"")
            row.acknowledge_error_code = code
        reading.sent()
        response = ShareFetchResponse(
            acquisition_lock_timeout_ms=self._partitions.deps.settings_of(key.group_id).limits.lock_ms,
            responses=[
                ShareFetchableTopicResponse(topic_id=topic_id, partitions=found)
                for topic_id, found in by_topic(rows.items()).items()
            ],
        )
        self._partitions.leaders.name_in_shares(response, call.peer)
        return response

    @staticmethod
    def error_response(_request: ShareFetchRequest, code: ErrorCode) -> ShareFetchResponse:
        return ShareFetchResponse(error_code=code)


class WaitingShareFetch:
    """The fetch of one request: it acquires at once, or when there is something, or nothing at its time."""

    __slots__ = (
        "_bytes_min",
        "_call_later",
        "_is_abandoned",
        "_is_over",
        "_max_wait_ms",
        "_on_done",
        "_operation",
        "_reading",
        "_timer",
        "_woken",
    )

    def __init__(
        self,
        reading: ShareReading,
        request: ShareFetchRequest,
        call_later: CallLater,
        woken: WokenFetches,
        on_done: Callable[[], None],
    ) -> None:
        self._reading = reading
        self._bytes_min = min(request.min_bytes, request.max_bytes)
        self._max_wait_ms = request.max_wait_ms
        self._call_later = call_later
        self._woken = woken
        self._on_done = on_done
        self._is_abandoned = False
        self._is_over = request.max_wait_ms <= 0
        self._operation: DelayedOperation | None = None
        self._timer: Any = None

    def begin(self) -> None:
        """Acquire, or begin to wait."""
        if self._is_abandoned:
            return
        reading, bytes_min, errors_before = self._reading, self._bytes_min, self._reading.errors
        missing = 0
        if bytes_min > 1 and not self._is_over:
            missing = bytes_min - reading.readable_bytes(bytes_min)
        reading.read(acquires=missing <= 0)
        has_failed = self._operation is not None and reading.errors > errors_before
        if self._is_over or has_failed or not reading.may_wait:
            self._finish()
            return
        # It acquires nothing less when it is woken for nothing: then it waits again, with those that came after it.
        self._operation = DelayedOperation(max(missing, 1), tuple(dict.fromkeys(reading.watched)), self._wake)
        if self._timer is None:
            self._timer = self._call_later(self._max_wait_ms / 1000, self._time_is_up)

    def _wake(self) -> None:
        self._woken.resume(self.begin)

    def _time_is_up(self) -> None:
        self._is_over = True
        if self._operation is not None and not self._operation.done:
            self._operation.complete()

    def _finish(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._on_done()

    def abandon(self) -> None:
        """The connection is closed; what was acquired is released with the session."""
        self._is_abandoned = True
        if self._timer is not None:
            self._timer.cancel()
        if self._operation is not None:
            self._operation.cancel()
        self._reading.drop()


def session_key(request: Any) -> SessionKey:
    """Whose session a request is about; names that are missing are refused later."""
    return SessionKey(request.group_id or "", request.member_id or "")


def check_names(request: Any) -> None:
    """Raise BrokerError INVALID_REQUEST for a request without a group or a member."""
    if request.group_id is None or not request.member_id:
        raise BrokerError(ErrorCode.INVALID_REQUEST, "a request of a share group names its group and its member")


def _check(request: ShareFetchRequest) -> None:
    check_names(request)
    if request.share_acquire_mode not in (0, 1):
        raise BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, f"there is no mode {request.share_acquire_mode}")
    sizes: Sequence[int] = (
        request.max_wait_ms,
        request.min_bytes,
        request.max_bytes,
        request.max_records,
        request.batch_size,
    )
    if request.is_renew_ack and any(sizes):
        raise BrokerError(ErrorCode.INVALID_REQUEST, "a request that renews locks fetches nothing")
