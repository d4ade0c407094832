"""ShareAcknowledge: acknowledge what a member holds, without fetching; answered when it is written (KIP-932)."""

from __future__ import annotations

from sordini.broker.network.ports import DelayedResponse
from sordini.broker.requests.call import Call, Route
from sordini.broker.requests.slice_scheduler import Work
from sordini.broker.shares.acknowledging import Acknowledging, Refused
from sordini.broker.shares.machine.sessions import CLOSE, OPEN, SessionKey
from sordini.broker.shares.member_sessions import MemberSessions
from sordini.broker.shares.share_answer import ShareAnswer, by_topic
from sordini.broker.shares.share_fetch_handler import check_names, session_key
from sordini.broker.shares.share_partitions import SharePartitions
from sordini.broker.shares.share_rules import ShareAcknowledgeRule
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.share_acknowledge import (
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)


class ShareAcknowledgeHandler:
    """Serves the acknowledgements of share groups."""

    def __init__(self, sessions: MemberSessions, partitions: SharePartitions) -> None:
        self._sessions = sessions
        self._partitions = partitions

    def route(self) -> Route:
        rule = ShareAcknowledgeRule(self._sessions)
        return Route(ApiKey.SHARE_ACKNOWLEDGE, self.handle, self.error_response, rule)

    def handle(self, call: Call) -> Work[ShareAcknowledgeResponse | DelayedResponse]:
        key = session_key(call.body)
        return self._serve(call, key, self._sessions.take_refused(key))

    def _serve(self, call: Call, key: SessionKey, refused: Refused) -> Work[ShareAcknowledgeResponse | DelayedResponse]:
        request: ShareAcknowledgeRequest = call.body
        check_names(request)
        epoch = request.share_session_epoch
        if epoch == OPEN:
            raise BrokerError(ErrorCode.INVALID_SHARE_SESSION_EPOCH, "an acknowledgement opens no session")
        session = self._sessions.next(key, epoch)
        acknowledging = Acknowledging(self._partitions, key, is_renewal=request.is_renew_ack, refused=refused)
        answer = ShareAnswer(call, lambda: self._response(call, key, acknowledging))
        yield from acknowledging.begin(request.topics, answer.begin)
        if epoch == CLOSE:
            self._sessions.end(session)
        result: ShareAcknowledgeResponse | DelayedResponse = answer.result()
        return result

    def _response(self, call: Call, key: SessionKey, acknowledging: Acknowledging) -> ShareAcknowledgeResponse:
        rows = (
            (target, PartitionData(partition_index=target.partition, error_code=code))
            for target, code in acknowledging.codes.items()
        )
        response = ShareAcknowledgeResponse(
            acquisition_lock_timeout_ms=self._partitions.deps.settings_of(key.group_id).limits.lock_ms,
            responses=[
                ShareAcknowledgeTopicResponse(topic_id=topic_id, partitions=found)
                for topic_id, found in by_topic(rows).items()
            ],
        )
        self._partitions.leaders.name_in_shares(response, call.peer)
        return response

    @staticmethod
    def error_response(_request: ShareAcknowledgeRequest, code: ErrorCode) -> ShareAcknowledgeResponse:
        return ShareAcknowledgeResponse(error_code=code)
