"""DescribeTopicPartitions: topics and their partitions, sorted, one page at a time (KIP-966).

A page ends with the partition that fills it; its cursor is the next partition, in the same topic or the next one.
Unknown topics take no room on a page.
"""

from __future__ import annotations

from sordini.broker.requests.call import Call, Route
from sordini.broker.requests.slice_scheduler import Work
from sordini.broker.topics.metadata_cache import MetadataCache, PartitionMetadata, TopicMetadata
from sordini.broker.topics.metadata_handler import TOPIC_OPERATIONS
from sordini.broker.topics.topic_rules import TopicPagesRule
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from sordini.replication.partition_deps import INTERNAL_TOPICS


class TopicPagesHandler:
    """Answers from the metadata cache."""

    def __init__(self, metadata: MetadataCache, *, partitions_max: int) -> None:
        """`partitions_max` bounds a page, whatever the request's limit is."""
        self._metadata = metadata
        self._partitions_max = partitions_max

    def route(self) -> Route:
        return Route(ApiKey.DESCRIBE_TOPIC_PARTITIONS, self.handle, self.error_response, TopicPagesRule())

    def handle(self, call: Call) -> Work[DescribeTopicPartitionsResponse]:
        request: DescribeTopicPartitionsRequest = call.body
        names = yield from self._names(request)
        room = max(min(request.response_partition_limit, self._partitions_max), 1)
        response = DescribeTopicPartitionsResponse()
        for name in names:
            yield 1
            if room == 0:
                response.next_cursor = Cursor(topic_name=name)
                break
            known = self._metadata.topics.get(name)
            if known is None:
                response.topics.append(self._unknown(name))
                continue
            rest = _rest_of(known, request.cursor)
            response.topics.append((yield from self._described(call, known, rest[:room])))
            if len(rest) > room:
                response.next_cursor = Cursor(topic_name=name, partition_index=rest[room])
                break
            room -= len(rest)
        return response

    def _names(self, request: DescribeTopicPartitionsRequest) -> Work[list[str]]:
        """The requested topics from the cursor's on; raises BrokerError for an invalid cursor."""
        cursor = request.cursor
        named = set()
        for topic in request.topics:
            named.add(topic.name)
            yield 1
        if cursor is not None and named and cursor.topic_name not in named:
            raise BrokerError(ErrorCode.INVALID_REQUEST, f"the cursor's topic {cursor.topic_name!r} is not requested")
        if cursor is not None and cursor.partition_index < 0:
            raise BrokerError(ErrorCode.INVALID_REQUEST, f"the cursor's partition is {cursor.partition_index}")
        start = "" if cursor is None else cursor.topic_name
        return sorted(name for name in named or self._metadata.topics if name >= start)

    def _unknown(self, name: str) -> DescribeTopicPartitionsResponseTopic:
        return DescribeTopicPartitionsResponseTopic(
            error_code=self._metadata.unknown_topic_code(name),
            name=name,
            is_internal=name in INTERNAL_TOPICS,
            topic_authorized_operations=TOPIC_OPERATIONS,
        )

    def _described(
        self, call: Call, known: TopicMetadata, indexes: list[int]
    ) -> Work[DescribeTopicPartitionsResponseTopic]:
        described = DescribeTopicPartitionsResponseTopic(
            name=known.name,
            topic_id=known.topic_id,
            is_internal=known.name in INTERNAL_TOPICS,
            topic_authorized_operations=TOPIC_OPERATIONS,
        )
        partitions = dict(known.partitions)  # It may change between two steps.
        for index in indexes:
            described.partitions.append(self._partition(call, index, partitions[index]))
            yield 1
        return described

    def _partition(self, call: Call, index: int, known: PartitionMetadata) -> DescribeTopicPartitionsResponsePartition:
        """A leader that clients of this listener cannot reach is reported as none."""
        code = self._metadata.why_unreachable(known.leader, call.peer)
        return DescribeTopicPartitionsResponsePartition(
            error_code=code,
            partition_index=index,
            leader_id=known.leader if code is ErrorCode.NONE else -1,
            leader_epoch=known.leader_epoch,
            replica_nodes=list(known.replicas),
            isr_nodes=list(known.in_sync_replicas),
            # Only in-sync replicas are eligible here: the lists are empty, not unknown.
            eligible_leader_replicas=[],
            last_known_elr=[],
            offline_replicas=list(known.offline_replicas),
        )

    @staticmethod
    def error_response(request: DescribeTopicPartitionsRequest, code: ErrorCode) -> DescribeTopicPartitionsResponse:
        return DescribeTopicPartitionsResponse(
            topics=[DescribeTopicPartitionsResponseTopic(error_code=code, name=topic.name) for topic in request.topics]
        )


def _rest_of(known: TopicMetadata, cursor: Cursor | None) -> list[int]:
    """The topic's partitions that are not on earlier pages."""
    start = cursor.partition_index if cursor is not None and cursor.topic_name == known.name else 0
    return sorted(index for index in known.partitions if index >= start)
