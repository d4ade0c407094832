"""Rules of prepared requests (`broker/records/prepared`), which reach no handler.

A shape that one peer has sent may be sent by another one: who may do so is looked up for each request, and remembered
until an access control entry changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sordini.broker.network.ports import Peer
from sordini.broker.network.principal import Principal
from sordini.broker.records.fetch_sessions import FetchSessions
from sordini.broker.requests.call import Call
from sordini.broker.requests.prepared_requests import Declined, PreparedRequest, Served
from sordini.broker.security.acls.authorizer import Authorizer
from sordini.broker.security.rules.rule import RuleDeps, name_of
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.messages.fetch import FetchRequest
from sordini.protocol.messages.produce import ProduceRequest
from sordini.replication.metadata_store.acl_model import CLUSTER_NAME, AclOperation, ResourceType

REMEMBERED_MAX: Final = 1_000
"""Peers whose permission is remembered for one shape."""

Need = tuple[AclOperation, ResourceType, str]


class GuardedRequest:
    """A prepared request that serves only peers that may send it; others go the general way, which refuses them."""

    __slots__ = ("_allowed", "_authorizer", "_needs", "_request", "_revision")

    def __init__(self, request: PreparedRequest, authorizer: Authorizer, needs: list[Need]) -> None:
        self._request = request
        self._authorizer = authorizer
        self._needs = needs
        self._allowed: set[tuple[Principal, str]] = set()
        self._revision = authorizer.revision

    def serve(self, peer: Peer, frame: memoryview, correlation_id: int) -> Served:
        if self._revision != self._authorizer.revision:
            self._revision = self._authorizer.revision
            self._allowed.clear()
        if (peer.principal, peer.address) not in self._allowed and not self._admits(peer):
            return Declined.UNUSUAL
        return self._request.serve(peer, frame, correlation_id)

    def _admits(self, peer: Peer) -> bool:
        if not all(self._authorizer.allows(peer, *need) for need in self._needs):
            return False
        if len(self._allowed) >= REMEMBERED_MAX:
            self._allowed.clear()
        self._allowed.add((peer.principal, peer.address))
        return True


class PreparedGuard:
    """Puts the rules of Produce and Fetch in front of prepared requests."""

    def __init__(self, authorizer: Authorizer, deps: RuleDeps, sessions: FetchSessions) -> None:
        self._authorizer = authorizer
        self._deps = deps
        self._sessions = sessions

    def __call__(self, call: Call, request: PreparedRequest) -> PreparedRequest | None:
        """The guarded request; None for one that must not be prepared."""
        needs = self._needs(call)
        return None if needs is None else GuardedRequest(request, self._authorizer, needs)

    def _needs(self, call: Call) -> list[Need] | None:
        body = call.body
        if call.versioned_api.api.key == ApiKey.PRODUCE:
            return self._of_produce(body)
        return self._of_fetch(body)

    def _of_produce(self, request: ProduceRequest) -> list[Need] | None:
        needs = self._of_topics(request.topic_data, AclOperation.WRITE)
        if needs is not None and request.transactional_id is not None:
            needs.append((AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id))
        return needs

    def _of_fetch(self, request: FetchRequest) -> list[Need] | None:
        if request.replica_id >= 0 or (request.replica_state is not None and request.replica_state.replica_id >= 0):
            return [(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)]
        session = self._sessions.find(request.session_id) if request.session_id else None
        of_session = [] if session is None else list(session.targets.values())
        return self._of_topics([*request.topics, *of_session], AclOperation.READ)

    def _of_topics(self, topics: Sequence[object], operation: AclOperation) -> list[Need] | None:
        names = [name_of(topic, self._deps.metadata) for topic in topics]
        if not names or None in names:
            return None
        return [(operation, ResourceType.TOPIC, name) for name in dict.fromkeys(names) if name is not None]
