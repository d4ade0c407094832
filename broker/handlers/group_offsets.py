"""OffsetCommit, OffsetFetch and OffsetDelete: how far groups have read.

Versions 0 of commit and fetch, which Apache Kafka keeps in ZooKeeper, are served from the same place as the others.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet

from sordini.broker.clock import Clock
from sordini.broker.configuration.settings import INT64_MAX
from sordini.broker.dispatch import Call, Route
from sordini.broker.groups.coordinator import NOBODY, GroupCoordinator
from sordini.broker.groups.machine.events import Committing
from sordini.broker.groups.machine.offset_table import OffsetTable
from sordini.broker.groups.machine.state import CommittedOffset
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

NOT_SET = -1
FIRST_VERSION_WITH_TOPIC_IDS = 10
FIRST_VERSION_WITH_GROUPS = 8


class GroupOffsetsHandler:
    """Commits, tells and forgets offsets. Every partition has an error code of its own."""

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
        codes, offsets = yield from self._sorted_out(request, call.version)
        response, rest = yield from _rows_of(request, codes)
        if not offsets and ErrorCode.OFFSET_METADATA_TOO_LARGE not in codes.values():
            return response  # Nothing is left that a group could be asked about.
        responder: Responder[OffsetCommitResponse] = Responder(call)
        event = Committing(
            caller=NOBODY,
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
            generation_id=request.generation_id_or_member_epoch,
        )
        try:
            self._groups.commit(
                request.group_id, event, offsets, lambda code: responder.answer(_with_code(response, rest, code))
            )
        except BrokerError as error:
            return _with_code(response, rest, error.code)
        return responder.result()

    def _sorted_out(
        self, request: OffsetCommitRequest, version: int
    ) -> Work[tuple[dict[int, ErrorCode], dict[TopicPartition, CommittedOffset]]]:
        """What is wrong with which entries (by `id`), and the offsets of the others."""
        now_ms = self._clock.now_ms()
        retention_ms = request.retention_time_ms
        expires_ms = None if retention_ms == NOT_SET else min(now_ms + retention_ms, INT64_MAX)
        codes: dict[int, ErrorCode] = {}
        offsets: dict[TopicPartition, CommittedOffset] = {}
        for topic in request.topics:
            name, unknown = self._name_of(topic, version)
            yield 1
            for wish in topic.partitions:
                yield 1
                if not self._metadata.exists(name, wish.partition_index):
                    codes[id(wish)] = unknown
                elif _length(wish.committed_metadata or "") > self._metadata_length_max:
                    codes[id(wish)] = ErrorCode.OFFSET_METADATA_TOO_LARGE
                else:
                    offsets[TopicPartition(name, wish.partition_index)] = _offset(wish, now_ms, expires_ms)
        return codes, offsets

    def _name_of(
        self, topic: OffsetCommitRequestTopic | OffsetFetchRequestTopics, version: int
    ) -> tuple[str, ErrorCode]:
        """A topic's name ("": there is none of that id), and what its partitions that do not exist are told."""
        if version < FIRST_VERSION_WITH_TOPIC_IDS:
            return topic.name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        name = self._metadata.name_of(TopicId(topic.topic_id))
        if name is None:
            return "", ErrorCode.UNKNOWN_TOPIC_ID
        return name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def fetch(self, call: Call) -> Work[OffsetFetchResponse]:
        """Nothing here is about to be changed by a transaction, so whatever is told is stable (`require_stable`)."""
        request: OffsetFetchRequest = call.body
        if call.version >= FIRST_VERSION_WITH_GROUPS:
            yield from check_name_repeats(group.group_id for group in request.groups if group.topics is None)
            response = OffsetFetchResponse()
            for one in request.groups:
                response.groups.append((yield from self._fetched(one, call.version)))
            return response
        topics = None
        if request.topics is not None:
            topics = [
                OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
                for topic in request.topics
            ]
        asked = OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)
        group = yield from self._fetched(asked, call.version)
        if group.error_code:
            raise BrokerError(ErrorCode(group.error_code), f"offsets of {request.group_id} are not told")
        old = OffsetFetchResponse()
        for told in group.topics:
            old.topics.append((yield from _old_topic(told, call.version)))
        return old

    def _fetched(self, asked: OffsetFetchRequestGroup, version: int) -> Work[OffsetFetchResponseGroup]:
        answer = OffsetFetchResponseGroup(group_id=asked.group_id)
        yield 1 + len(asked.group_id) // LETTERS_PER_STEP
        try:
            offsets = self._groups.offsets(asked.group_id)
        except BrokerError as error:
            answer.error_code = error.code
            return answer
        if asked.topics is None:
            answer.topics = yield from self._all_topics(offsets, version)
            return answer
        for topic in asked.topics:
            answer.topics.append((yield from self._fetched_topic(topic, offsets, version)))
        return answer

    def _fetched_topic(
        self, topic: OffsetFetchRequestTopics, offsets: OffsetTable, version: int
    ) -> Work[OffsetFetchResponseTopics]:
        name, unknown = self._name_of(topic, version)
        answer = OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id)
        yield 1
        code = ErrorCode.NONE if name else unknown
        for index in topic.partition_indexes:
            answer.partitions.append(_told(index, offsets.get(TopicPartition(name, index)), code))
            yield 1
        return answer

    def _all_topics(self, offsets: OffsetTable, version: int) -> Work[list[OffsetFetchResponseTopics]]:
        """All that is committed; by ids, what has none any more cannot be told."""
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
            topic.partitions.append(_told(index, committed, ErrorCode.NONE))
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
        in_use = self._groups.in_use(request.group_id, known)
        free = known - in_use
        gone: dict[TopicPartition, None] = {}
        for topic in request.topics:
            for partition in topic.partitions if topic.name in free else ():
                gone[TopicPartition(topic.name, partition.partition_index)] = None
                yield 1
        response = yield from self._deleted(request, in_use)
        responder: Responder[OffsetDeleteResponse] = Responder(call)

        def ended(code: ErrorCode) -> None:
            responder.answer(self.delete_error_response(request, code) if code else response)

        self._groups.delete_offsets(request.group_id, gone, ended)
        return responder.result()

    def _deleted(self, request: OffsetDeleteRequest, in_use: Collection[str]) -> Work[OffsetDeleteResponse]:
        """The answer when all that may be deleted is."""
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
                elif topic.name in in_use:
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
                        OffsetCommitResponsePartition(partition_index=wish.partition_index, error_code=code)
                        for wish in topic.partitions
                    ],
                )
                for topic in request.topics
                if topic.partitions
            ]
        )

    @staticmethod
    def fetch_error_response(request: OffsetFetchRequest, code: ErrorCode) -> OffsetFetchResponse:
        """The code stands for the group from version 2 on; before, for every partition that was asked for."""
        return OffsetFetchResponse(
            error_code=code,
            topics=[
                OffsetFetchResponseTopic(
                    name=topic.name,
                    partitions=[_old_partition(_told(index, None, code)) for index in topic.partition_indexes],
                )
                for topic in request.topics or ()
            ],
            groups=[OffsetFetchResponseGroup(group_id=group.group_id, error_code=code) for group in request.groups],
        )

    @staticmethod
    def delete_error_response(_request: OffsetDeleteRequest, code: ErrorCode) -> OffsetDeleteResponse:
        return OffsetDeleteResponse(error_code=code)


def _length(metadata: str) -> int:
    """As Apache Kafka measures it: not in bytes, as its key says, but in UTF-16's units of two."""
    return len(metadata) if metadata.isascii() else len(metadata.encode("utf-16-le")) // 2


def _offset(wish: OffsetCommitRequestPartition, now_ms: int, expires_ms: int | None) -> CommittedOffset:
    return CommittedOffset(
        offset=wish.committed_offset,
        leader_epoch=wish.committed_leader_epoch,
        metadata=wish.committed_metadata or "",
        committed_ms=now_ms if wish.commit_timestamp == NOT_SET else wish.commit_timestamp,
        expires_ms=expires_ms,
    )


def _rows_of(
    request: OffsetCommitRequest, codes: Mapping[int, ErrorCode]
) -> Work[tuple[OffsetCommitResponse, list[OffsetCommitResponsePartition]]]:
    """The answer to a commit that succeeds, and those of its rows that have no code of their own already."""
    response, rest = OffsetCommitResponse(), list[OffsetCommitResponsePartition]()
    for topic in request.topics:
        yield 1
        if not topic.partitions:
            continue
        answered = OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id)
        response.topics.append(answered)
        for wish in topic.partitions:
            code = codes.get(id(wish))
            row = OffsetCommitResponsePartition(partition_index=wish.partition_index, error_code=code or ErrorCode.NONE)
            answered.partitions.append(row)
            if code is None:
                rest.append(row)
            yield 1
    return response, rest


def _with_code(
    response: OffsetCommitResponse, rest: list[OffsetCommitResponsePartition], code: ErrorCode
) -> OffsetCommitResponse:
    """The answer when the commit as a whole came to this."""
    if code:
        for row in rest:
            row.error_code = code
    return response


def _told(index: int, committed: CommittedOffset | None, code: ErrorCode) -> OffsetFetchResponsePartitions:
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
    for told in topic.partitions:
        partition = _old_partition(told)
        if version == 0 and partition.committed_offset == NOT_SET:
            partition.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        old.partitions.append(partition)
        yield 1
    return old


def _old_partition(told: OffsetFetchResponsePartitions) -> OffsetFetchResponsePartition:
    """The same under the name that it has up to version 7."""
    return OffsetFetchResponsePartition(
        partition_index=told.partition_index,
        committed_offset=told.committed_offset,
        committed_leader_epoch=told.committed_leader_epoch,
        metadata=told.metadata,
        error_code=told.error_code,
    )
