"""Metadata: the live brokers, the topics, and the partitions with their leaders."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from sordini.broker.requests.call import Call, EncodedBody, Route
from sordini.broker.requests.slice_scheduler import Work
from sordini.broker.topics.metadata_cache import MetadataCache, PartitionMetadata, TopicMetadata
from sordini.broker.topics.topic_rules import MetadataRule
from sordini.protocol import codecs
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.metadata import (
    OPERATIONS_UNKNOWN,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from sordini.protocol.types import NO_TOPIC_ID, BrokerId, TopicId
from sordini.replication.partition_deps import INTERNAL_TOPICS

# Bits of KIP-430: without an authorizer every operation of the resource is allowed.
TOPIC_OPERATIONS = sum(1 << operation for operation in (3, 4, 5, 6, 7, 8, 10, 11))
CLUSTER_OPERATIONS = sum(1 << operation for operation in (5, 7, 8, 9, 10, 11, 12))

CACHED_NAMES_MAX = 2_000
"""Responses to requests that name more topics are not cached."""

Key = tuple[int, str, tuple[Any, ...] | None, bool, bool]
"""What a response depends on besides the metadata; the third element is the requested topics, None for all."""

AutoCreate = Callable[[str], ErrorCode]


class MetadataHandler:
    """Answers from the metadata cache, and caches the encoded responses there."""

    def __init__(self, metadata: MetadataCache, auto_create: AutoCreate) -> None:
        """`auto_create` starts to create a topic and returns the error code for the client meanwhile."""
        self._metadata = metadata
        self._auto_create = auto_create

    def route(self) -> Route:
        return Route(ApiKey.METADATA, self.handle, self.error_response, MetadataRule())

    def handle(self, call: Call) -> MetadataResponse | EncodedBody | Work[MetadataResponse | EncodedBody]:
        request: MetadataRequest = call.body
        wanted = request.topics
        if wanted is not None and len(wanted) > CACHED_NAMES_MAX:
            return self._built_uncached(call, wanted)
        everything = wanted is None or (call.version == 0 and not wanted)
        # Duplicates are dropped: the key of a cached response is not larger than the response.
        once = {(topic.name, topic.topic_id): topic for topic in wanted or ()}
        key = (
            call.version,
            call.peer.endpoint_name,
            None if everything else tuple(once),
            request.include_topic_authorized_operations,
            request.include_cluster_authorized_operations,
        )
        kept = self._metadata.cached_response(key)
        if kept is not None:
            return EncodedBody(kept)
        return self._built(call, key, once.values())

    def _built_uncached(self, call: Call, wanted: list[MetadataRequestTopic]) -> Work[MetadataResponse | EncodedBody]:
        """The response to a request of so many names that looking up a cached one takes long itself."""
        once = {}
        for topic in wanted:
            once[topic.name, topic.topic_id] = topic
            yield 1
        return (yield from self._built(call, None, once.values()))

    def _built(
        self, call: Call, key: Key | None, wanted: Collection[MetadataRequestTopic]
    ) -> Work[MetadataResponse | EncodedBody]:
        """A new response, of all topics if `key` names none; cached under `key` if it has no error."""
        response, epoch, is_whole = self._common(call), self._metadata.epoch, True
        if key is not None and key[2] is None:
            for known in list(self._metadata.topics.values()):
                response.topics.append((yield from self._topic(call, known)))
        else:
            for topic in wanted:
                found = yield from self._wanted(call, topic)
                is_whole = is_whole and not found.error_code
                response.topics.append(found)
        if key is None or not is_whole:
            return response
        body = bytearray()
        yield from codecs.encoder_in_steps(MetadataResponse, call.version)(response, body, [])
        answer = EncodedBody(body)
        if epoch == self._metadata.epoch:  # Nothing has changed since.
            self._metadata.cache_response(key, answer)
        return answer

    def _common(self, call: Call) -> MetadataResponse:
        request: MetadataRequest = call.body
        brokers = []
        for broker in self._metadata.brokers.values():
            address = self._metadata.address_of(broker, call.peer)
            if address is not None:
                host, port = address
                brokers.append(MetadataResponseBroker(node_id=broker.broker_id, host=host, port=port, rack=broker.rack))
        return MetadataResponse(
            brokers=brokers,
            cluster_id=self._metadata.cluster_id,
            controller_id=self._metadata.controller_id,
            cluster_authorized_operations=CLUSTER_OPERATIONS
            if request.include_cluster_authorized_operations
            else OPERATIONS_UNKNOWN,
        )

    def _wanted(self, call: Call, wanted: MetadataRequestTopic) -> Work[MetadataResponseTopic]:
        request: MetadataRequest = call.body
        if wanted.name is None or wanted.topic_id != NO_TOPIC_ID:
            return (yield from self._wanted_by_id(call, wanted))
        known = self._metadata.topics.get(wanted.name)
        if known is not None:
            return (yield from self._topic(call, known))
        yield 2
        code = self._metadata.unknown_topic_code(wanted.name)
        may_be_made = request.allow_auto_topic_creation or call.version < 4
        if may_be_made and code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            code = self._auto_create(wanted.name)
        return MetadataResponseTopic(error_code=code, name=wanted.name, is_internal=wanted.name in INTERNAL_TOPICS)

    def _wanted_by_id(self, call: Call, wanted: MetadataRequestTopic) -> Work[MetadataResponseTopic]:
        yield 1
        if call.version < 12:
            raise BrokerError(ErrorCode.INVALID_REQUEST, "topics can be requested by id from version 12 on")
        if wanted.topic_id == NO_TOPIC_ID:
            raise BrokerError(ErrorCode.INVALID_REQUEST, "a topic is requested by name or by id")
        name = self._metadata.name_of(TopicId(wanted.topic_id))
        if name is None:
            return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=wanted.topic_id)
        return (yield from self._topic(call, self._metadata.topics[name]))

    def _topic(self, call: Call, known: TopicMetadata) -> Work[MetadataResponseTopic]:
        topic = MetadataResponseTopic(
            name=known.name,
            topic_id=known.topic_id,
            is_internal=known.name in INTERNAL_TOPICS,
            topic_authorized_operations=TOPIC_OPERATIONS
            if call.body.include_topic_authorized_operations
            else OPERATIONS_UNKNOWN,
        )
        yield 1
        for index, partition in sorted(known.partitions.items()):  # A copy: they may change between two steps.
            topic.partitions.append(self._partition(call, index, partition))
            yield 1
        return topic

    def _partition(self, call: Call, index: int, known: PartitionMetadata) -> MetadataResponsePartition:
        """A leader that the client cannot reach is reported as none: it is not among the brokers of the response."""
        code = self._metadata.why_unreachable(known.leader, call.peer)
        if code is ErrorCode.LISTENER_NOT_FOUND and call.version < 6:
            code = ErrorCode.LEADER_NOT_AVAILABLE
        partition = MetadataResponsePartition(
            error_code=code,
            partition_index=index,
            leader_id=known.leader if code is ErrorCode.NONE else -1,
            leader_epoch=known.leader_epoch,
            replica_nodes=list(known.replicas),
            isr_nodes=list(known.in_sync_replicas),
            offline_replicas=list(known.offline_replicas),
        )
        if call.version == 0:
            self._leave_out_unreachable(call, partition)
        return partition

    def _leave_out_unreachable(self, call: Call, partition: MetadataResponsePartition) -> None:
        """Drop replicas that are not among the brokers of the response, with an error if the partition has none yet.

        The Scala clients, which alone send version 0, fail on a replica that they do not find there.
        """
        count = len(partition.replica_nodes)
        for replicas in (partition.replica_nodes, partition.isr_nodes):
            replicas[:] = [one for one in replicas if self._is_reachable(call, one)]
        if partition.error_code == ErrorCode.NONE and len(partition.replica_nodes) < count:
            partition.error_code = ErrorCode.REPLICA_NOT_AVAILABLE

    def _is_reachable(self, call: Call, replica: int) -> bool:
        return self._metadata.why_unreachable(BrokerId(replica), call.peer) is ErrorCode.NONE

    @staticmethod
    def error_response(request: MetadataRequest, code: ErrorCode) -> MetadataResponse:
        return MetadataResponse(
            error_code=code,
            topics=[
                MetadataResponseTopic(error_code=code, name=topic.name or "", topic_id=topic.topic_id)
                for topic in request.topics or ()
            ],
        )
