"""Rules of topics: their metadata, creation and deletion."""

from __future__ import annotations

from typing import Any

from sordini.broker.requests.call import Call, EncodedBody
from sordini.broker.requests.slice_scheduler import Work
from sordini.broker.security.access import Access
from sordini.broker.security.rules.rule import RuleDeps, add_rows, error_response, name_of, refuse_part, split
from sordini.protocol import codecs
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from sordini.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicState
from sordini.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)
from sordini.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from sordini.protocol.types import NO_TOPIC_ID, TopicId
from sordini.replication.metadata_store.acl_model import CLUSTER_NAME, AclOperation, ResourceType
from sordini.replication.partition_deps import INTERNAL_TOPICS
from sordini.system.named_tuple import NamedTuple

DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
FIRST_WITH_EMPTY_LISTS = 1
"""The first version of Metadata in which an empty list of topics is none, not all."""
FIRST_WITHOUT_CREATION = 4
"""The first version of Metadata in which clients say whether topics may be created."""
FIRST_DELETION_BY_ID = 6


class MetadataRule(NamedTuple):
    """DESCRIBE on each topic; topics that would be created need CREATE; of all topics the others are left out."""

    @property
    def meaning(self) -> str:
        return (
            "DESCRIBE on each topic, and of all topics the others are left out; "
            "CREATE on the cluster or the topic for one that is created"
        )

    def check(self, call: Call, deps: RuleDeps) -> Work[Any]:
        request: MetadataRequest = call.body
        access, peer = deps.access, call.peer
        if request.topics is None or (call.version < FIRST_WITH_EMPTY_LISTS and not request.topics):
            names, _ = yield from split(
                list(deps.metadata.topics), lambda name: access.quietly.to_topic(peer, AclOperation.DESCRIBE, name)
            )
            request.topics = [MetadataRequestTopic(name=name) for name in names]
            if not names and call.version < FIRST_WITH_EMPTY_LISTS:
                request.topics = None  # An empty list would be all of them.
                call.amend = lambda message: _without_topics(_decoded(call, message))
                return None
        else:
            yield from self._named(call, request, deps)
        self._fill_in_operations(call, request, access)
        return None

    def _named(self, call: Call, request: MetadataRequest, deps: RuleDeps) -> Work[None]:
        access, peer = deps.access, call.peer
        may_create = request.allow_auto_topic_creation or call.version < FIRST_WITHOUT_CREATION

        def is_allowed(topic: MetadataRequestTopic) -> bool:
            name = name_of(topic, deps.metadata)
            if name is None:
                return True  # The handler says that the id is unknown.
            if not access.to_topic(peer, AclOperation.DESCRIBE, name):
                return False
            return not (may_create and _is_created(name, deps)) or may_create_topic(access, peer, name)

        allowed, refused = yield from split(request.topics or [], is_allowed)
        if refused:
            request.topics = allowed
            rows = [_denied(topic) for topic in refused]
            call.amend = lambda message: _with_topics(_decoded(call, message), rows)

    def _fill_in_operations(self, call: Call, request: MetadataRequest, access: Access) -> None:
        """What the peer may do to the cluster and to each topic (KIP-430)."""
        wants_cluster = request.include_cluster_authorized_operations
        wants_topics = request.include_topic_authorized_operations
        if not wants_cluster and not wants_topics:
            return
        peer, former = call.peer, call.amend

        def amend(message: Any) -> MetadataResponse:
            response: MetadataResponse = _decoded(call, message if former is None else former(message))
            if wants_cluster:
                response.cluster_authorized_operations = cluster_operations(access, peer)
            for topic in response.topics if wants_topics else ():
                if not topic.error_code and topic.name is not None:
                    topic.topic_authorized_operations = access.operations(peer, ResourceType.TOPIC, topic.name)
            return response

        call.amend = amend


def _is_created(name: str, deps: RuleDeps) -> bool:
    """Whether a request of its metadata creates a topic, unless it says that it must not.

    A broker that has just registered does not know yet which topics exist, and creates none.
    """
    if name in deps.metadata.topics or not (deps.creates_topics or name in INTERNAL_TOPICS):
        return False
    return deps.metadata.unknown_topic_code(name) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _denied(topic: MetadataRequestTopic) -> MetadataResponseTopic:
    """A topic that was asked for by its id is unknown: its name stays a secret."""
    if topic.topic_id != NO_TOPIC_ID:
        return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic.topic_id)
    is_internal = topic.name in INTERNAL_TOPICS
    return MetadataResponseTopic(error_code=DENIED, name=topic.name, is_internal=is_internal)


def _decoded(call: Call, message: Any) -> Any:
    """A response as a message; one from the cache is encoded."""
    if type(message) is not EncodedBody:
        return message
    response, _ = codecs.decode(call.versioned_api.api.response, call.version, memoryview(message), 0)
    return response


def _with_topics(response: MetadataResponse, rows: list[MetadataResponseTopic]) -> MetadataResponse:
    response.topics = [*response.topics, *rows]
    return response


def _without_topics(response: MetadataResponse) -> MetadataResponse:
    response.topics = []
    return response


def cluster_operations(access: Access, peer: Any) -> int:
    return access.operations(peer, ResourceType.CLUSTER, CLUSTER_NAME)


def may_create_topic(access: Access, peer: Any, name: str) -> bool:
    return access.quietly.to_cluster(peer, AclOperation.CREATE) or access.to_topic(peer, AclOperation.CREATE, name)


class TopicPagesRule(NamedTuple):
    """DESCRIBE on each topic; of all topics the others are left out."""

    @property
    def meaning(self) -> str:
        return "DESCRIBE on each topic; of all topics the others are left out"

    def check(self, call: Call, deps: RuleDeps) -> Work[Any]:
        request: DescribeTopicPartitionsRequest = call.body
        access, peer = deps.access, call.peer

        def may_see(name: str) -> bool:
            return access.to_topic(peer, AclOperation.DESCRIBE, name)

        def fill_in(message: DescribeTopicPartitionsResponse) -> DescribeTopicPartitionsResponse:
            for topic in message.topics:
                if not topic.error_code and topic.name is not None:
                    topic.topic_authorized_operations = access.operations(peer, ResourceType.TOPIC, topic.name)
            return message

        call.amend = fill_in
        if not request.topics:
            quietly = access.quietly
            names, _ = yield from split(
                list(deps.metadata.topics), lambda name: quietly.to_topic(peer, AclOperation.DESCRIBE, name)
            )
            if not names:
                return DescribeTopicPartitionsResponse()
            request.topics = [TopicRequest(name=name) for name in names]
            if request.cursor is not None and request.cursor.topic_name not in names:
                request.topics.append(TopicRequest(name=request.cursor.topic_name))
            return None
        allowed, refused = yield from split(request.topics, lambda topic: may_see(topic.name))
        rows = [DescribeTopicPartitionsResponseTopic(error_code=DENIED, name=topic.name) for topic in refused]
        if not allowed:
            return DescribeTopicPartitionsResponse(topics=rows)
        request.topics = allowed
        add_rows(call, "topics", rows)
        return None


class CreateTopicsRule(NamedTuple):
    """CREATE on the cluster or on each topic; settings are shown with DESCRIBE_CONFIGS on the topic."""

    operation: AclOperation = AclOperation.CREATE

    @property
    def meaning(self) -> str:
        return "CREATE on the cluster or on each topic; the settings are answered with DESCRIBE_CONFIGS on the topic"

    def check(self, call: Call, deps: RuleDeps) -> Work[Any]:
        request: CreateTopicsRequest = call.body
        access, peer = deps.access, call.peer
        allowed, refused = yield from split(request.topics, lambda topic: may_create_topic(access, peer, topic.name))

        def hide_settings(message: CreateTopicsResponse) -> CreateTopicsResponse:
            for topic in message.topics:
                if topic.error_code:
                    continue
                if not access.quietly.to_topic(peer, AclOperation.DESCRIBE_CONFIGS, topic.name):
                    topic.topic_config_error_code, topic.configs = DENIED, None
                    topic.num_partitions = topic.replication_factor = -1
            return message

        call.amend = hide_settings
        return refuse_part(call, "topics", allowed, refused, code=DENIED, rows="topics")


class DeleteTopicsRule(NamedTuple):
    """DELETE on each topic; the name of one that was given by its id is shown with DESCRIBE."""

    operation: AclOperation = AclOperation.DELETE

    @property
    def meaning(self) -> str:
        return "DELETE on each topic; the name of one that is given by its id is answered with DESCRIBE"

    def check(self, call: Call, deps: RuleDeps) -> Work[Any]:
        request: DeleteTopicsRequest = call.body
        access, peer = deps.access, call.peer
        if call.version < FIRST_DELETION_BY_ID:
            names, denied = yield from split(
                request.topic_names, lambda name: access.to_topic(peer, AclOperation.DELETE, name)
            )
            return refuse_part(call, "topic_names", names, denied, code=DENIED, rows="responses")

        def is_allowed(topic: DeleteTopicState) -> bool:
            name = name_of(topic, deps.metadata)
            return name is None or access.to_topic(peer, AclOperation.DELETE, name)

        allowed, refused = yield from split(request.topics, is_allowed)
        if not refused:
            return None
        rows = [self._refused(topic, deps, access, peer) for topic in refused]
        if not allowed:
            response = error_response(call, DeleteTopicsRequest(), DENIED)
            response.responses = rows
            return response
        request.topics = allowed
        add_rows(call, "responses", rows)
        return None

    @staticmethod
    def _refused(topic: DeleteTopicState, deps: RuleDeps, access: Access, peer: Any) -> DeletableTopicResult:
        name = topic.name
        if topic.topic_id != NO_TOPIC_ID:
            known = deps.metadata.name_of(TopicId(topic.topic_id))
            may_see = known is not None and access.quietly.to_topic(peer, AclOperation.DESCRIBE, known)
            name = known if may_see else None
        return DeletableTopicResult(name=name, topic_id=topic.topic_id, error_code=DENIED, error_message=DENIED.name)
