"""Rules of Produce and Fetch."""

from __future__ import annotations

from typing import Any, NamedTuple

from sordini.broker.dispatch import Call
from sordini.broker.requests.fetch_sessions import FetchSessions, Session
from sordini.broker.requests.slice_scheduler import Work
from sordini.broker.security.rules.rule import RuleDeps, error_response, name_of, refuse_part, split
from sordini.broker.security.rules.transaction_rules import is_transactional_denied
from sordini.protocol.errors import BrokerError, ErrorCode, WireError
from sordini.protocol.messages.fetch import FetchRequest
from sordini.protocol.messages.produce import ProduceRequest
from sordini.protocol.records.peek import is_transactional
from sordini.replication.metadata_store.acl_model import AclOperation

DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


class ProduceRule(NamedTuple):
    """WRITE on each topic; for transactional batches, of whichever partition, WRITE on the transactional id."""

    @property
    def meaning(self) -> str:
        return "WRITE on each topic; with transactional batches WRITE on the transactional id"

    def check(self, call: Call, deps: RuleDeps) -> Work[Any]:
        request: ProduceRequest = call.body
        # By the attributes of every batch, not by what the request says of itself (CVE-2018-17196).
        own_id = request.transactional_id
        if is_transactional_denied(call, deps, own_id) and (yield from _has_transactional(request)):
            assert own_id is not None
            deps.access.require_transactional_id(call.peer, AclOperation.WRITE, own_id)

        def is_allowed(topic: Any) -> bool:
            name = name_of(topic, deps.metadata)
            return name is None or deps.access.to_topic(call.peer, AclOperation.WRITE, name)

        allowed, refused = yield from split(request.topic_data, is_allowed)
        if refused and request.acks == 0:
            raise WireError(f"produce with acks=0 was refused for {len(refused)} topics")
        return refuse_part(call, "topic_data", allowed, refused, code=DENIED, rows="responses")


def _has_transactional(request: ProduceRequest) -> Work[bool]:
    for topic in request.topic_data:
        for data in topic.partition_data:
            yield 1
            if data.records is not None and is_transactional(data.records):
                return True
    return False


def _refusal(call: Call, request: FetchRequest) -> Any:
    """A refused topic says nothing about the response as a whole."""
    response = error_response(call, request, DENIED)
    response.error_code = ErrorCode.NONE
    return response


class FetchRule(NamedTuple):
    """READ on each topic, those of the fetch session, too; of a follower CLUSTER_ACTION on the cluster."""

    sessions: FetchSessions

    @property
    def meaning(self) -> str:
        return "READ on each topic; of a broker: CLUSTER_ACTION on the cluster"

    def check(self, call: Call, deps: RuleDeps) -> Work[Any]:
        request: FetchRequest = call.body
        access, peer = deps.access, call.peer
        if request.replica_id >= 0 or (request.replica_state is not None and request.replica_state.replica_id >= 0):
            yield 1
            return None if access.to_cluster(peer, AclOperation.CLUSTER_ACTION) else _refusal(call, request)

        def may_read(name: str | None) -> bool:
            return name is None or access.to_topic(peer, AclOperation.READ, name)

        session = self.sessions.find(request.session_id) if request.session_id else None
        if session is not None:
            yield from self._check_session(call, session, deps)
        allowed, refused = yield from split(request.topics, lambda topic: may_read(name_of(topic, deps.metadata)))
        if refused and not allowed and session is None:
            return _refusal(call, request)
        return refuse_part(call, "topics", allowed, refused, code=DENIED, rows="responses", is_all=False)

    def _check_session(self, call: Call, session: Session, deps: RuleDeps) -> Work[None]:
        """Raises BrokerError FETCH_SESSION_ID_NOT_FOUND when the peer may not read a topic of the session.

        Its client opens another one, and is told then which topics it may not read.
        """
        peer, access = call.peer, deps.access
        reader = peer.principal, peer.address, access.revision
        if session.reader == reader:
            return
        for target in session.targets.values():
            yield 1
            if not access.to_topic(peer, AclOperation.READ, target.topic):
                raise BrokerError(
                    ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"{peer.principal} may not read {target.topic} of the session"
                )
        session.reader = reader
