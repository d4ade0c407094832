"""Rules of Produce, Fetch and ListOffsets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from sordini.broker.records.fetch_sessions import FIRST_EPOCH, LAST_EPOCH, FetchSessions, Session, SessionPartition
from sordini.broker.requests.call import Call
from sordini.broker.requests.slice_scheduler import Work
from sordini.broker.security.rules.rule import RuleDeps, error_response, name_of, refuse_part, split
from sordini.broker.security.rules.simple_rules import BrokerOrClient, ClusterOr, on_topics
from sordini.broker.transactions.transaction_rules import is_transactional_denied
from sordini.protocol.errors import ErrorCode, WireError
from sordini.protocol.messages.fetch import FetchRequest, FetchResponse, FetchTopic
from sordini.protocol.messages.produce import ProduceRequest
from sordini.protocol.records.peek import is_transactional
from sordini.protocol.types import TopicId
from sordini.replication.metadata_store.acl_model import AclOperation
from sordini.system.named_tuple import NamedTuple

FIRST_BY_TOPIC_ID = 13
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

        def may_read(topic: Any) -> bool:
            name = name_of(topic, deps.metadata)
            return name is None or access.to_topic(peer, AclOperation.READ, name)

        session = self._session_of(call)
        if session is not None:
            self.sessions.forget_denied(session, request.forgotten_topics_data)
            yield from self._check_session(call, session, deps)
        allowed, refused = yield from split(request.topics, may_read)
        if session is not None:
            self.sessions.deny(session, refused)
            refused = _as_requested(session.denied.values())
        elif refused and not allowed:
            return _refusal(call, request)
        elif refused and request.session_epoch == FIRST_EPOCH:
            self._deny_in_new_session(call, refused)
        return refuse_part(call, "topics", allowed, refused, code=DENIED, rows="responses", is_all=False)

    def _session_of(self, call: Call) -> Session | None:
        """The session that a request continues, if it is the next one of it."""
        request: FetchRequest = call.body
        if request.session_epoch in (FIRST_EPOCH, LAST_EPOCH):
            return None
        session = self.sessions.find(request.session_id)
        if session is None or session.epoch != request.session_epoch:
            return None
        return session if session.uses_topic_ids == (call.version >= FIRST_BY_TOPIC_ID) else None

    def _deny_in_new_session(self, call: Call, refused: list[FetchTopic]) -> None:
        """Keep what is refused in the session that the response names: its client does not request it again."""

        def amend(response: FetchResponse) -> FetchResponse:
            session = self.sessions.find(response.session_id)
            if session is not None:
                self.sessions.deny(session, refused)
            return response

        call.amend = amend

    def _check_session(self, call: Call, session: Session, deps: RuleDeps) -> Work[None]:
        """Move partitions of a session whose topics may no longer be read, or may be read again.

        As at Apache Kafka, the client is sent TOPIC_AUTHORIZATION_FAILED for them in every response.
        """
        peer, access = call.peer, deps.access
        reader = peer.principal, peer.address, access.revision
        if session.reader == reader:
            return
        self.sessions.resolve_names(session)
        for key, target in [*session.targets.items(), *session.denied.items()]:
            yield 1
            # A topic of an unknown id has no name, and is not read before it has one.
            may_read = not target.topic or access.to_topic(peer, AclOperation.READ, target.topic)
            if may_read == (key in session.denied):
                session.move(key, is_denied=not may_read)
        if not session.has_nameless:
            session.reader = reader


def _as_requested(denied: Iterable[SessionPartition]) -> list[FetchTopic]:
    """Partitions of a session as a request names them."""
    topics: dict[tuple[str, TopicId], FetchTopic] = {}
    for target in denied:
        key = target.topic, target.topic_id
        if key not in topics:
            topics[key] = FetchTopic(topic=target.topic, topic_id=target.topic_id)
        topics[key].partitions.append(target.requested)
    return list(topics.values())


def _is_replica(request: object) -> bool:
    replica_id: int = getattr(request, "replica_id", -1)
    return replica_id >= 0


LIST_OFFSETS_RULE: Final = BrokerOrClient(
    _is_replica,
    ClusterOr(AclOperation.CLUSTER_ACTION, on_topics(AclOperation.DESCRIBE)),
    on_topics(AclOperation.DESCRIBE),
)
