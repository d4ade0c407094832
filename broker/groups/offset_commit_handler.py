"""OffsetCommit: the positions of a group's members, or of a simple consumer.

Version 0, for which Apache Kafka uses ZooKeeper, uses __consumer_offsets as the others.
"""

from __future__ import annotations

from collections.abc import Mapping

from sordini.broker.configuration.settings import INT64_MAX
from sordini.broker.groups.coordinator import GroupCoordinator
from sordini.broker.groups.machine.events import ValidateOffsetCommit
from sordini.broker.groups.machine.state import NO_CALLER, CommittedOffset
from sordini.broker.network.ports import DelayedResponse
from sordini.broker.requests.call import Call, Route
from sordini.broker.requests.responder import Responder
from sordini.broker.requests.slice_scheduler import Work
from sordini.broker.security.rules.simple_rules import Both, on_group, on_topics
from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from sordini.protocol.types import TopicPartition
from sordini.replication.metadata_store.acl_model import AclOperation
from sordini.replication.ports import Clock

NOT_SET = -1
FIRST_WITH_MEMBER_EPOCHS = 9
FIRST_WITH_TOPIC_IDS = 10


class OffsetCommitHandler:
    """Commits offsets. Each partition has its own error code."""

    def __init__(
        self, groups: GroupCoordinator, metadata: MetadataCache, clock: Clock, *, metadata_bytes_max: int
    ) -> None:
        """`metadata_bytes_max` is offset.metadata.max.bytes."""
        self._groups = groups
        self._metadata = metadata
        self._clock = clock
        self._metadata_length_max = metadata_bytes_max

    def route(self) -> Route:
        rule = Both(on_group(AclOperation.READ), on_topics(AclOperation.READ))
        return Route(ApiKey.OFFSET_COMMIT, self.commit, self.error_response, rule)

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
            has_member_epoch=call.version >= FIRST_WITH_MEMBER_EPOCHS,
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
            name, unknown = self._metadata.find(topic, by_id=version >= FIRST_WITH_TOPIC_IDS)
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

    @staticmethod
    def error_response(request: OffsetCommitRequest, code: ErrorCode) -> OffsetCommitResponse:
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
