"""Rules of ShareFetch and ShareAcknowledge: READ on the group as a whole, and on each topic.

A session advances with each request, also where topics may not be read: so these are noted for the handler, which
refuses their rows, those of the session, too.
"""

from __future__ import annotations

from typing import Any

from sordini.broker.requests.call import Call
from sordini.broker.requests.slice_scheduler import Work
from sordini.broker.security.rules.rule import RuleDeps
from sordini.broker.shares.machine.sessions import SessionKey
from sordini.broker.shares.member_sessions import MemberSessions
from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import TopicId
from sordini.replication.metadata_store.acl_model import AclOperation
from sordini.system.named_tuple import NamedTuple


class ShareFetchRule(NamedTuple):
    """READ on the group, and on each topic, those of the share session, too."""

    sessions: MemberSessions

    @property
    def meaning(self) -> str:
        return "READ on the group; READ on each topic"

    def check(self, call: Call, deps: RuleDeps) -> Work[Any]:
        yield from _check(self.sessions, call, deps, with_session=True)
        return None


class ShareAcknowledgeRule(NamedTuple):
    """READ on the group, and on each topic."""

    sessions: MemberSessions

    @property
    def meaning(self) -> str:
        return "READ on the group; READ on each topic"

    def check(self, call: Call, deps: RuleDeps) -> Work[Any]:
        yield from _check(self.sessions, call, deps, with_session=False)
        return None


def _check(sessions: MemberSessions, call: Call, deps: RuleDeps, *, with_session: bool) -> Work[None]:
    """Raises BrokerError GROUP_AUTHORIZATION_FAILED."""
    request, access, peer = call.body, deps.access, call.peer
    key = SessionKey(request.group_id or "", request.member_id or "")
    access.require_group(peer, AclOperation.READ, key.group_id)
    topics: dict[TopicId, str] = {}
    session = sessions.find(key) if with_session else None
    if session is not None:
        for target, known in list(session.targets.items()):
            yield 1
            topics[target.topic_id] = known.topic or deps.metadata.name_of(target.topic_id) or ""
    for topic in request.topics:
        yield 1
        topic_id = TopicId(topic.topic_id)
        topics[topic_id] = topics.get(topic_id) or deps.metadata.name_of(topic_id) or ""
    refused: dict[TopicId, ErrorCode] = {}
    for topic_id, name in topics.items():
        yield 1
        if not name:  # It may become known while the request is served, and was not checked.
            refused[topic_id] = ErrorCode.UNKNOWN_TOPIC_ID
        elif not access.to_topic(peer, AclOperation.READ, name):
            refused[topic_id] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if refused:
        sessions.refuse(key, refused)
