"""ConsumerGroupHeartbeat (KIP-848): members of groups whose partitions the coordinator assigns."""

from __future__ import annotations

from sordini.broker.groups.consumer.machine import request_validation
from sordini.broker.groups.consumer.machine.events import ConsumerHeartbeat, HeartbeatAnswer, Refusal
from sordini.broker.groups.consumer.machine.patterns.cursor import PatternError
from sordini.broker.groups.consumer.machine.state import JOIN_EPOCH, Partitions
from sordini.broker.groups.consumer.machine.topic_patterns import TopicPatterns
from sordini.broker.groups.consumer.member_connections import OlderConnection
from sordini.broker.groups.coordinator import GroupCoordinator
from sordini.broker.network.ports import DelayedResponse
from sordini.broker.requests.call import Call, Route
from sordini.broker.requests.responder import Responder
from sordini.broker.requests.slice_scheduler import Work
from sordini.broker.security.rules.simple_rules import on_group
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode, WireError
from sordini.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from sordini.protocol.types import TopicId
from sordini.replication.metadata_store.acl_model import AclOperation

PARTITIONS_PER_STEP = 10

NO_TOPIC_IDS = "topics have no ids here: inter.broker.protocol.version is below 2.8, set group.protocol=classic"
DISABLED = "group.coordinator.rebalance.protocols of this broker lacks consumer, set group.protocol=classic"


class ConsumerHeartbeatHandler:
    """Serves the members of consumer groups."""

    def __init__(
        self,
        groups: GroupCoordinator,
        patterns: TopicPatterns,
        *,
        unserved: str | None,
    ) -> None:
        """`unserved` is the reason for which all are refused; None where they are served."""
        self._groups = groups
        self._patterns = patterns
        self._unserved = unserved

    def route(self) -> Route:
        return Route(ApiKey.CONSUMER_GROUP_HEARTBEAT, self.heartbeat, self.error_response, on_group(AclOperation.READ))

    def heartbeat(self, call: Call) -> Work[ConsumerGroupHeartbeatResponse | DelayedResponse]:
        request: ConsumerGroupHeartbeatRequest = call.body
        if self._unserved is not None:
            return _refused(ErrorCode.UNSUPPORTED_VERSION, self._unserved)
        try:
            request_validation.check(request, call.version, self._groups.settings_of(request.group_id).assignors)
            self._check_regex(request.subscribed_topic_regex)
            owned = None if request.topic_partitions is None else (yield from _owned(request.topic_partitions))
            return self._submit(call, self._event(call, owned))
        except BrokerError as error:
            return _refused(error.code, str(error))

    def _check_regex(self, regex: str | None) -> None:
        """Raises BrokerError INVALID_REGULAR_EXPRESSION."""
        if regex:
            try:
                self._patterns.compiled(regex)
            except PatternError as error:
                message = f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {error}."
                raise BrokerError(ErrorCode.INVALID_REGULAR_EXPRESSION, message) from None

    def _event(self, call: Call, owned: Partitions | None) -> ConsumerHeartbeat:
        request: ConsumerGroupHeartbeatRequest = call.body
        names, member_id = request.subscribed_topic_names, request.member_id
        if not member_id and request.member_epoch == JOIN_EPOCH:
            member_id = self._groups.new_consumer_id()
        return ConsumerHeartbeat(
            member_id=member_id,
            member_epoch=request.member_epoch,
            instance_id=request.instance_id,
            rack_id=request.rack_id,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            subscribed_topics=None if names is None else frozenset(names),
            subscribed_regex=request.subscribed_topic_regex,
            server_assignor=request.server_assignor,
            owned=owned,
            client_id=call.client_id or "",
            client_host=f"/{call.peer.address}",
        )

    def _submit(self, call: Call, event: ConsumerHeartbeat) -> ConsumerGroupHeartbeatResponse | DelayedResponse:
        """Raises BrokerError; and WireError for an older connection than the member's newest, to be closed."""
        responder: Responder[ConsumerGroupHeartbeatResponse] = Responder(call)

        def answered(answer: HeartbeatAnswer | Refusal | OlderConnection) -> None:
            if isinstance(answer, OlderConnection):
                responder.refuse(WireError(f"member {event.member_id} has a newer connection"))
            elif isinstance(answer, Refusal):
                responder.answer(_refused(answer.code, answer.message or None))
            else:
                responder.answer(_response(answer))

        self._groups.heartbeat(call.body.group_id, event, call.peer, answered)
        return responder.result()

    @staticmethod
    def error_response(_request: ConsumerGroupHeartbeatRequest, code: ErrorCode) -> ConsumerGroupHeartbeatResponse:
        return ConsumerGroupHeartbeatResponse(error_code=code)


def _owned(rows: list[TopicPartitions]) -> Work[Partitions]:
    owned: dict[TopicId, set[int]] = {}
    for row in rows:
        yield 1 + len(row.partitions) // PARTITIONS_PER_STEP
        owned.setdefault(TopicId(row.topic_id), set()).update(row.partitions)
    return {topic_id: frozenset(partitions) for topic_id, partitions in owned.items()}


def _refused(code: ErrorCode, message: str | None) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=code, error_message=message)


def _response(answer: HeartbeatAnswer) -> ConsumerGroupHeartbeatResponse:
    response = ConsumerGroupHeartbeatResponse(
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
