"""OffsetCommit, OffsetFetch and OffsetDelete: the committed offsets of groups.

Version 0 of commit and fetch, for which Apache Kafka uses ZooKeeper, uses __consumer_offsets as the others.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping
from collections.abc import Set as AbstractSet

from sordini.broker.configuration.settings import INT64_MAX
from sordini.broker.dispatch import Call, Route
from sordini.broker.groups.coordinator import GroupCoordinator
from sordini.broker.groups.machine.events import ValidateOffsetCommit
from sordini.broker.groups.machine.offset_table import OffsetTable
from sordini.broker.groups.machine.state import NO_CALLER, CommittedOffset
from sordini.broker.handlers.group_expiry import after_expiry
from sordini.broker.handlers.request_checks import LETTERS_PER_STEP, check_name_repeats
from sordini.broker.handlers.responder import Responder
from sordini.broker.network.ports import DelayedResponse
from sordini.broker.requests.slice_scheduler import Work
from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.protocol.api import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from sordini.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
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
from sordini.protocol.types import TopicId, TopicPartition
from sordini.replication.ports import Clock

NOT_SET = -1
FIRST_VERSION_WITH_TOPIC_IDS = 10
FIRST_VERSION_WITH_GROUPS = 8


class GroupOffsetsHandler:
    """Commits, fetches and deletes offsets. Each partition has its own error code."""

    def __init__(
        self, groups: GroupCoordinator, metadata: MetadataCache, clock: Clock, *, metadata_bytes_max: int
    ) -> None:
        """`metadata_bytes_max` is offset.metadata.max.bytes."""
        self._groups = groups
        self._metadata = metadata
        self._clock = clock
        self._metadata_length_max = metadata_bytes_max

    def routes(self) -> list[Route]:
        return [
            Route(ApiKey.OFFSET_COMMIT, self.commit, self.commit_error_response),
            Route(ApiKey.OFFSET_FETCH, self.fetch, self.fetch_error_response),
            Route(ApiKey.OFFSET_DELETE, self.delete, self.delete_error_response),
        ]

    def commit(self, call: Call) -> Work[OffsetCommitResponse | DelayedResponse]:
        request: OffsetCommitRequest = call.body
        codes, offsets = yield from self._validated(request, call.version)
        response, rest = yield from _rows_of(request, codes)
        if not offsets and ErrorCode.OFFSET_METADATA_TOO_LARGE not in codes.values():
            return response  # No offset is left to commit.
        responder: Responder[OffsetCommitResponse] = Responder(call)
        event = ValidateOffsetCommit(
            caller=NO_CALLER,
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
            generation_id=request.generation_id_or_member_epoch,
        )
        try:
            self._groups.commit_offsets(
                request.group_id, event, offsets, lambda code: responder.answer(_with_code(response, rest, code))
            )
        except BrokerError as error:
            return _with_code(response, rest, error.code)
        return responder.result()

    def _validated(
        self, request: OffsetCommitRequest, version: int
    ) -> Work[tuple[dict[int, ErrorCode], dict[TopicPartition, CommittedOffset]]]:
        """The error codes of invalid partitions (by `id`), and the offsets of the others."""
        now_ms = self._clock.now_ms()
        retention_ms = request.retention_time_ms
        expires_ms = None if retention_ms == NOT_SET else min(now_ms + retention_ms, INT64_MAX)
        codes: dict[int, ErrorCode] = {}
        offsets: dict[TopicPartition, CommittedOffset] = {}
        for topic in request.topics:
            name, unknown = self._name_of(topic, version)
            yield 1
            for row in topic.partitions:
                yield 1
                if not self._metadata.may_exist(name, row.partition_index):
                    codes[id(row)] = unknown
                elif metadata_length(row.committed_metadata or "") > self._metadata_length_max:
                    codes[id(row)] = ErrorCode.OFFSET_METADATA_TOO_LARGE
                else:
                    offsets[TopicPartition(name, row.partition_index)] = _offset(row, now_ms, expires_ms)
        return codes, offsets

    def _name_of(
        self, topic: OffsetCommitRequestTopic | OffsetFetchRequestTopics, version: int
    ) -> tuple[str, ErrorCode]:
        """A topic's name ("" for an unknown id), and the error code of its partitions that do not exist."""
        if version < FIRST_VERSION_WITH_TOPIC_IDS:
            return topic.name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        name = self._metadata.name_of(TopicId(topic.topic_id))
        if name is None:
            return "", ErrorCode.UNKNOWN_TOPIC_ID
        return name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def fetch(self, call: Call) -> Work[OffsetFetchResponse]:
        """With `require_stable`, a partition with a pending commit of a transaction is unstable (KIP-447)."""
        request: OffsetFetchRequest = call.body
        if call.version >= FIRST_VERSION_WITH_GROUPS:
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
        name, unknown = self._name_of(topic, version)
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
            if known is None and version >= FIRST_VERSION_WITH_TOPIC_IDS:
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

    def delete(self, call: Call) -> Work[OffsetDeleteResponse | DelayedResponse]:
        request: OffsetDeleteRequest = call.body
        known = set()
        for topic in request.topics:
            if topic.name in self._metadata.topics:
                known.add(topic.name)
            yield 1
        if not known:
            return (yield from self._deleted(request, ()))
        if not request.group_id:
            raise BrokerError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
        return (yield from after_expiry(call, self._groups, [request.group_id], lambda: self._delete(call, known)))

    def _delete(self, call: Call, known: AbstractSet[str]) -> Work[OffsetDeleteResponse | DelayedResponse]:
        """Raises BrokerError."""
        request: OffsetDeleteRequest = call.body
        subscribed = self._groups.subscribed_topics(request.group_id, known)
        unused = known - subscribed
        deleted: dict[TopicPartition, None] = {}
        for topic in request.topics:
            for partition in topic.partitions if topic.name in unused else ():
                deleted[TopicPartition(topic.name, partition.partition_index)] = None
                yield 1
        response = yield from self._deleted(request, subscribed)
        responder: Responder[OffsetDeleteResponse] = Responder(call)

        def on_done(code: ErrorCode) -> None:
            responder.answer(self.delete_error_response(request, code) if code else response)

        self._groups.delete_offsets(request.group_id, deleted, on_done)
        return responder.result()

    def _deleted(self, request: OffsetDeleteRequest, subscribed: Collection[str]) -> Work[OffsetDeleteResponse]:
        """The response once the offsets are deleted."""
        response = OffsetDeleteResponse()
        for topic in request.topics:
            yield 1
            if not topic.partitions:
                continue
            answered = OffsetDeleteResponseTopic(name=topic.name)
            response.topics.append(answered)
            for partition in topic.partitions:
                yield 1
                answer = OffsetDeleteResponsePartition(partition_index=partition.partition_index)
                if not self._metadata.exists(topic.name, partition.partition_index):
                    answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                elif topic.name in subscribed:
                    answer.error_code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
                answered.partitions.append(answer)
        return response

    @staticmethod
    def commit_error_response(request: OffsetCommitRequest, code: ErrorCode) -> OffsetCommitResponse:
        return OffsetCommitResponse(
            topics=[
                OffsetCommitResponseTopic(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partitions=[
                        OffsetCommitResponsePartition(partition_index=row.partition_index, error_code=code)
                        for row in topic.partitions
                    ],
                )
                for topic in request.topics
                if topic.partitions
            ]
        )

    @staticmethod
    def fetch_error_response(request: OffsetFetchRequest, code: ErrorCode) -> OffsetFetchResponse:
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

    @staticmethod
    def delete_error_response(_request: OffsetDeleteRequest, code: ErrorCode) -> OffsetDeleteResponse:
        return OffsetDeleteResponse(error_code=code)


def metadata_length(metadata: str) -> int:
    """As Apache Kafka measures it: not in bytes, as the key is called, but in UTF-16 code units."""
    return len(metadata) if metadata.isascii() else len(metadata.encode("utf-16-le")) // 2


def _offset(row: OffsetCommitRequestPartition, now_ms: int, expires_ms: int | None) -> CommittedOffset:
    return CommittedOffset(
        offset=row.committed_offset,
        leader_epoch=row.committed_leader_epoch,
        metadata=row.committed_metadata or "",
        committed_ms=now_ms if row.commit_timestamp == NOT_SET else row.commit_timestamp,
        expires_ms=expires_ms,
    )


def _rows_of(
    request: OffsetCommitRequest, codes: Mapping[int, ErrorCode]
) -> Work[tuple[OffsetCommitResponse, list[OffsetCommitResponsePartition]]]:
    """The response to a successful commit, and those of its rows that have no error code."""
    response, rest = OffsetCommitResponse(), list[OffsetCommitResponsePartition]()
    for topic in request.topics:
        yield 1
        if not topic.partitions:
            continue
        answered = OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id)
        response.topics.append(answered)
        for row in topic.partitions:
            code = codes.get(id(row))
            result = OffsetCommitResponsePartition(
                partition_index=row.partition_index, error_code=code or ErrorCode.NONE
            )
            answered.partitions.append(result)
            if code is None:
                rest.append(result)
            yield 1
    return response, rest


def _with_code(
    response: OffsetCommitResponse, rest: list[OffsetCommitResponsePartition], code: ErrorCode
) -> OffsetCommitResponse:
    """The response with the code of the commit in the rows without one."""
    if code:
        for row in rest:
            row.error_code = code
    return response


def _fetched_partition(index: int, committed: CommittedOffset | None, code: ErrorCode) -> OffsetFetchResponsePartitions:
    if committed is None:
        return OffsetFetchResponsePartitions(partition_index=index, committed_offset=NOT_SET, error_code=code)
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
        if version == 0 and partition.committed_offset == NOT_SET:
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
