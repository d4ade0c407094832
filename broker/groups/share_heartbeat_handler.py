"""ShareGroupHeartbeat (KIP-932): members of share groups."""

from __future__ import annotations

from sordini.broker.groups.consumer.machine.events import HeartbeatAnswer, Refusal
from sordini.broker.groups.consumer.member_connections import OlderConnection
from sordini.broker.groups.coordinator import GroupCoordinator
from sordini.broker.groups.share.machine.events import ShareHeartbeat
from sordini.broker.groups.share.machine.state import JOIN_EPOCH, LEAVE_EPOCH
from sordini.broker.groups.share_rules import SubscribedTopicsRule
from sordini.broker.network.ports import DelayedResponse
from sordini.broker.requests.call import Call, Route
from sordini.broker.requests.responder import Responder
from sordini.broker.requests.slice_scheduler import Work
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode, WireError
from sordini.protocol.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

NO_TOPIC_IDS = "topics have no ids here: inter.broker.protocol.version is below 2.8"
NAMES_PER_STEP = 100
MEMBER_ID_LENGTH_MAX = 36
"""Of the members' ids, which clients make: a UUID's text. In Java's letters."""


class ShareHeartbeatHandler:
    """Serves the members of share groups."""

    def __init__(self, groups: GroupCoordinator, *, unserved: str | None) -> None:
        """`unserved` is the reason for which all are refused; None where they are served."""
        self._groups = groups
        self._unserved = unserved

    def route(self) -> Route:
        return Route(ApiKey.SHARE_GROUP_HEARTBEAT, self.heartbeat, self.error_response, SubscribedTopicsRule())

    def heartbeat(self, call: Call) -> Work[ShareGroupHeartbeatResponse | DelayedResponse]:
        request: ShareGroupHeartbeatRequest = call.body
        yield 1 + len(request.subscribed_topic_names or ()) // NAMES_PER_STEP
        if self._unserved is not None:
            return _refused(ErrorCode.UNSUPPORTED_VERSION, self._unserved)
        try:
            if not 1 <= _java_length(request.member_id) <= MEMBER_ID_LENGTH_MAX:
                return _refused(ErrorCode.INVALID_REQUEST, None)
            _check(request)
            return self._submit(call)
        except BrokerError as error:
            return _refused(error.code, str(error))

    def _submit(self, call: Call) -> ShareGroupHeartbeatResponse | DelayedResponse:
        """Raises BrokerError; and WireError for an older connection than the member's newest, to be closed."""
        request: ShareGroupHeartbeatRequest = call.body
        names = request.subscribed_topic_names
        event = ShareHeartbeat(
            member_id=request.member_id,
            member_epoch=request.member_epoch,
            rack_id=request.rack_id,
            subscribed_topics=None if names is None else frozenset(names),
            client_id=call.client_id or "",
            client_host=f"/{call.peer.address}",
        )
        responder: Responder[ShareGroupHeartbeatResponse] = Responder(call)

        def answered(answer: HeartbeatAnswer | Refusal | OlderConnection) -> None:
            if isinstance(answer, OlderConnection):
                responder.refuse(WireError(f"member {event.member_id} has a newer connection"))
            elif isinstance(answer, Refusal):
                responder.answer(_refused(answer.code, answer.message or None))
            else:
                responder.answer(_response(answer))

        self._groups.submit_to_share_group(request.group_id, event, answered, call.peer)
        return responder.result()

    @staticmethod
    def error_response(_request: ShareGroupHeartbeatRequest, code: ErrorCode) -> ShareGroupHeartbeatResponse:
        return ShareGroupHeartbeatResponse(error_code=code)


def _java_length(text: str) -> int:
    return len(text.encode("utf-16-be", "surrogatepass")) // 2


def _check(request: ShareGroupHeartbeatRequest) -> None:
    """Raise BrokerError INVALID_REQUEST for what no member sends."""
    fields = (("MemberId", request.member_id), ("GroupId", request.group_id), ("RackId", request.rack_id))
    for name, value in fields:
        if value is not None and not value.strip():
            raise BrokerError(ErrorCode.INVALID_REQUEST, f"{name} can't be empty.")
    if request.member_epoch == JOIN_EPOCH and not request.subscribed_topic_names:
        raise BrokerError(ErrorCode.INVALID_REQUEST, "SubscribedTopicNames must be set in first request.")
    if request.member_epoch < LEAVE_EPOCH:
        raise BrokerError(ErrorCode.INVALID_REQUEST, "MemberEpoch is invalid.")


def _refused(code: ErrorCode, message: str | None) -> ShareGroupHeartbeatResponse:
    return ShareGroupHeartbeatResponse(error_code=code, error_message=message)


def _response(answer: HeartbeatAnswer) -> ShareGroupHeartbeatResponse:
    response = ShareGroupHeartbeatResponse(
        member_id=answer.member_id,
        member_epoch=answer.member_epoch,
        heartbeat_interval_ms=answer.heartbeat_interval_ms,
    )
    if answer.assignment is not None:
        response.assignment = Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=topic, partitions=sorted(indexes))
                for topic, indexes in answer.assignment.items()
            ]
        )
    return response
