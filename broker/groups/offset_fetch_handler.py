"""OffsetFetch: what a group has committed, as far as it is decided.

Version 0, for which Apache Kafka uses ZooKeeper, uses __consumer_offsets as the others.
"""

from __future__ import annotations

from collections.abc import Container

from sordini.broker.groups.coordinator import GroupCoordinator
from sordini.broker.groups.group_rules import OffsetFetchRule
from sordini.broker.groups.machine.offset_table import OffsetTable
from sordini.broker.groups.machine.state import CommittedOffset
from sordini.broker.requests.call import Call, Route
from sordini.broker.requests.request_checks import LETTERS_PER_STEP, check_name_repeats
from sordini.broker.requests.slice_scheduler import Work
from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from sordini.protocol.types import TopicPartition

NO_OFFSET = -1
FIRST_WITH_TOPIC_IDS = 10
FIRST_WITH_GROUPS = 8


class OffsetFetchHandler:
    """Fetches committed offsets. Each partition has its own error code."""

    def __init__(self, groups: GroupCoordinator, metadata: MetadataCache) -> None:
        self._groups = groups
        self._metadata = metadata

    def route(self) -> Route:
        return Route(ApiKey.OFFSET_FETCH, self.fetch, self.error_response, OffsetFetchRule())

    def fetch(self, call: Call) -> Work[OffsetFetchResponse]:
        """With `require_stable`, a partition with a pending commit of a transaction is unstable (KIP-447)."""
        request: OffsetFetchRequest = call.body
        if call.version >= FIRST_WITH_GROUPS:
            yield from check_name_repeats(group.group_id for group in request.groups if group.topics is None)
            response = OffsetFetchResponse()
            for group in request.groups:
                response.groups.append(
                    (yield from self._fetched(group, call.version, require_stable=request.require_stable))
                )
            return response
        topics = None
        if request.topics is not None:
            topics = [
                OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
                for topic in request.topics
            ]
        all_versions = OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)
        fetched = yield from self._fetched(all_versions, call.version, require_stable=request.require_stable)
        if fetched.error_code:
            raise BrokerError(ErrorCode(fetched.error_code), f"the offsets of {request.group_id} are not available")
        old = OffsetFetchResponse()
        for topic in fetched.topics:
            old.topics.append((yield from _old_topic(topic, call.version)))
        return old

    def _fetched(
        self, requested: OffsetFetchRequestGroup, version: int, *, require_stable: bool
    ) -> Work[OffsetFetchResponseGroup]:
        answer = OffsetFetchResponseGroup(group_id=requested.group_id)
        yield 1 + len(requested.group_id) // LETTERS_PER_STEP
        try:
            self._groups.check_reader(requested.group_id, requested.member_id, requested.member_epoch)
            offsets = self._groups.offsets(requested.group_id)
        except BrokerError as error:
            answer.error_code = error.code
            return answer
        unstable = offsets.open if require_stable else ()
        if requested.topics is None:
            answer.topics = yield from self._all_topics(offsets, unstable, version)
            return answer
        for topic in requested.topics:
            answer.topics.append((yield from self._fetched_topic(topic, offsets, unstable, version)))
        return answer

    def _fetched_topic(
        self, topic: OffsetFetchRequestTopics, offsets: OffsetTable, unstable: Container[TopicPartition], version: int
    ) -> Work[OffsetFetchResponseTopics]:
        name, unknown = self._metadata.find(topic, by_id=version >= FIRST_WITH_TOPIC_IDS)
        answer = OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id)
        yield 1
        code = ErrorCode.NONE if name else unknown
        for index in topic.partition_indexes:
            partition = TopicPartition(name, index)
            if partition in unstable:
                answer.partitions.append(_fetched_partition(index, None, ErrorCode.UNSTABLE_OFFSET_COMMIT))
            else:
                answer.partitions.append(_fetched_partition(index, offsets.get(partition), code))
            yield 1
        return answer

    def _all_topics(
        self, offsets: OffsetTable, unstable: Container[TopicPartition], version: int
    ) -> Work[list[OffsetFetchResponseTopics]]:
        """All committed offsets; versions with topic ids omit topics that no longer have one."""
        topics: dict[str, OffsetFetchResponseTopics] = {}
        for (name, index), committed in list(offsets.items()):
            yield 1
            known = self._metadata.topics.get(name)
            if known is None and version >= FIRST_WITH_TOPIC_IDS:
                continue
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = OffsetFetchResponseTopics(name=name)
                if known is not None:
                    topic.topic_id = known.topic_id
            if TopicPartition(name, index) in unstable:
                topic.partitions.append(_fetched_partition(index, None, ErrorCode.UNSTABLE_OFFSET_COMMIT))
            else:
                topic.partitions.append(_fetched_partition(index, committed, ErrorCode.NONE))
        return list(topics.values())

    @staticmethod
    def error_response(request: OffsetFetchRequest, code: ErrorCode) -> OffsetFetchResponse:
        """The code is that of the group from version 2 on; before, of every requested partition."""
        return OffsetFetchResponse(
            error_code=code,
            topics=[
                OffsetFetchResponseTopic(
                    name=topic.name,
                    partitions=[
                        _old_partition(_fetched_partition(index, None, code)) for index in topic.partition_indexes
                    ],
                )
                for topic in request.topics or ()
            ],
            groups=[OffsetFetchResponseGroup(group_id=group.group_id, error_code=code) for group in request.groups],
        )


def _fetched_partition(index: int, committed: CommittedOffset | None, code: ErrorCode) -> OffsetFetchResponsePartitions:
    if committed is None:
        return OffsetFetchResponsePartitions(partition_index=index, committed_offset=NO_OFFSET, error_code=code)
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        error_code=code,
    )


def _old_topic(topic: OffsetFetchResponseTopics, version: int) -> Work[OffsetFetchResponseTopic]:
    old = OffsetFetchResponseTopic(name=topic.name)
    yield 1
    for row in topic.partitions:
        partition = _old_partition(row)
        if version == 0 and partition.committed_offset == NO_OFFSET:
            partition.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        old.partitions.append(partition)
        yield 1
    return old


def _old_partition(row: OffsetFetchResponsePartitions) -> OffsetFetchResponsePartition:
    """The same in the message of versions up to 7."""
    return OffsetFetchResponsePartition(
        partition_index=row.partition_index,
        committed_offset=row.committed_offset,
        committed_leader_epoch=row.committed_leader_epoch,
        metadata=row.metadata,
        error_code=row.error_code,
    )
