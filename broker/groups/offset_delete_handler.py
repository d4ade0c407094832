"""OffsetDelete: an administrator deletes offsets of topics that no member subscribes to (KIP-496)."""

from __future__ import annotations

from collections.abc import Collection
from collections.abc import Set as AbstractSet

from sordini.broker.groups.coordinator import GroupCoordinator
from sordini.broker.groups.due_sessions import after_due_sessions
from sordini.broker.groups.group_rules import OffsetDeleteRule
from sordini.broker.network.ports import DelayedResponse
from sordini.broker.requests.call import Call, Route
from sordini.broker.requests.responder import Responder
from sordini.broker.requests.slice_scheduler import Work
from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from sordini.protocol.types import TopicPartition


class OffsetDeleteHandler:
    """Deletes committed offsets. Each partition has its own error code."""

    def __init__(self, groups: GroupCoordinator, metadata: MetadataCache) -> None:
        self._groups = groups
        self._metadata = metadata

    def route(self) -> Route:
        return Route(ApiKey.OFFSET_DELETE, self.delete, self.error_response, OffsetDeleteRule())

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
        return (
            yield from after_due_sessions(call, self._groups, [request.group_id], lambda: self._delete(call, known))
        )

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
            responder.answer(self.error_response(request, code) if code else response)

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
    def error_response(_request: OffsetDeleteRequest, code: ErrorCode) -> OffsetDeleteResponse:
        return OffsetDeleteResponse(error_code=code)
