"""OffsetCommit, OffsetFetch and OffsetDelete: how far groups have read.

Versions 0 of commit and fetch, which Apache Kafka keeps in ZooKeeper, are served from the same place as the others.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sordini.broker.clock import Clock
from sordini.broker.configuration.settings import INT64_MAX
from sordini.broker.dispatch import Call, Route
from sordini.broker.groups.coordinator import NOBODY, GroupCoordinator
from sordini.broker.groups.events import Committing
from sordini.broker.groups.offsets import OffsetTable
from sordini.broker.groups.state import CommittedOffset
from sordini.broker.handlers.exchange import Exchange
from sordini.broker.handlers.repeats import check_mentions
from sordini.broker.metadata_cache import MetadataCache
from sordini.broker.network.ports import Pending
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
            Route(ApiKey.OFFSET_COMMIT, self.commit, self.refuse_commit),
            Route(ApiKey.OFFSET_FETCH, self.fetch, self.refuse_fetch),
            Route(ApiKey.OFFSET_DELETE, self.delete, self.refuse_delete),
        ]

    def commit(self, call: Call) -> OffsetCommitResponse | Pending:
        request: OffsetCommitRequest = call.body
        codes, offsets = self._sorted_out(request, call.version)
        if not offsets and not any(code == ErrorCode.OFFSET_METADATA_TOO_LARGE for code in codes.values()):
            return _committed(request, codes, ErrorCode.NONE)  # Nothing is left that a group could be asked about.
        exchange: Exchange[OffsetCommitResponse] = Exchange(call)
        event = Committing(
            caller=NOBODY,
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
            generation_id=request.generation_id_or_member_epoch,
        )
        try:
            self._groups.commit(
                request.group_id, event, offsets, lambda code: exchange.answer(_committed(request, codes, code))
            )
        except BrokerError as error:
            return _committed(request, codes, error.code)
        return exchange.result()

    def _sorted_out(
        self, request: OffsetCommitRequest, version: int
    ) -> tuple[dict[int, ErrorCode], dict[TopicPartition, CommittedOffset]]:
        """What is wrong with which entries (by `id`), and the offsets of the others."""
        now_ms = self._clock.now_ms()
        retention_ms = request.retention_time_ms
        expires_ms = None if retention_ms == NOT_SET else min(now_ms + retention_ms, INT64_MAX)
        codes: dict[int, ErrorCode] = {}
        offsets: dict[TopicPartition, CommittedOffset] = {}
        for topic in request.topics:
            name, unknown = self._name_of(topic, version)
            for wish in topic.partitions:
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

    def fetch(self, call: Call) -> OffsetFetchResponse:
        """Nothing here is about to be changed by a transaction, so whatever is told is stable (`require_stable`)."""
        request: OffsetFetchRequest = call.body
        if call.version >= FIRST_VERSION_WITH_GROUPS:
            check_mentions(group.group_id for group in request.groups if group.topics is None)
            return OffsetFetchResponse(groups=[self._fetched(group, call.version) for group in request.groups])
        topics = None
        if request.topics is not None:
            topics = [
                OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
                for topic in request.topics
            ]
        asked = OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)
        group = self._fetched(asked, call.version)
        if group.error_code:
            return self.refuse_fetch(request, ErrorCode(group.error_code))
        return OffsetFetchResponse(topics=[_old_topic(topic, call.version) for topic in group.topics])

    def _fetched(self, asked: OffsetFetchRequestGroup, version: int) -> OffsetFetchResponseGroup:
        try:
            offsets = self._groups.offsets(asked.group_id)
        except BrokerError as error:
            return OffsetFetchResponseGroup(group_id=asked.group_id, error_code=error.code)
        if asked.topics is None:
            return OffsetFetchResponseGroup(group_id=asked.group_id, topics=self._all_topics(offsets, version))
        return OffsetFetchResponseGroup(
            group_id=asked.group_id, topics=[self._fetched_topic(topic, offsets, version) for topic in asked.topics]
        )

    def _fetched_topic(
        self, topic: OffsetFetchRequestTopics, offsets: OffsetTable, version: int
    ) -> OffsetFetchResponseTopics:
        name, unknown = self._name_of(topic, version)
        return OffsetFetchResponseTopics(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                _told(index, offsets.get(TopicPartition(name, index)), ErrorCode.NONE if name else unknown)
                for index in topic.partition_indexes
            ],
        )

    def _all_topics(self, offsets: OffsetTable, version: int) -> list[OffsetFetchResponseTopics]:
        """All that is committed; by ids, what has none any more cannot be told."""
        topics: dict[str, OffsetFetchResponseTopics] = {}
        for (name, index), committed in offsets.items():
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

    def delete(self, call: Call) -> OffsetDeleteResponse | Pending:
        request: OffsetDeleteRequest = call.body
        known = {topic.name for topic in request.topics if topic.name in self._metadata.topics}
        if not known:
            return self._deleted(request, ())
        if not request.group_id:
            raise BrokerError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
        exchange: Exchange[OffsetDeleteResponse] = Exchange(call)

        def settled() -> None:
            try:
                self._delete(request, known, exchange)
            except BrokerError as error:
                exchange.answer(self.refuse_delete(request, error.code))

        self._groups.when_settled([request.group_id], settled)
        return exchange.result()

    def _delete(
        self, request: OffsetDeleteRequest, known: Collection[str], exchange: Exchange[OffsetDeleteResponse]
    ) -> None:
        """Raises BrokerError."""
        in_use = self._groups.in_use(request.group_id, known)
        gone = [
            TopicPartition(topic.name, partition.partition_index)
            for topic in request.topics
            if topic.name in known and topic.name not in in_use
            for partition in topic.partitions
        ]

        def ended(code: ErrorCode) -> None:
            exchange.answer(self.refuse_delete(request, code) if code else self._deleted(request, in_use))

        self._groups.delete_offsets(request.group_id, gone, ended)

    def _deleted(self, request: OffsetDeleteRequest, in_use: Collection[str]) -> OffsetDeleteResponse:
        def code(topic: str, partition: int) -> ErrorCode:
            if not self._metadata.exists(topic, partition):
                return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if topic in in_use else ErrorCode.NONE

        return OffsetDeleteResponse(
            topics=[
                OffsetDeleteResponseTopic(
                    name=topic.name,
                    partitions=[
                        OffsetDeleteResponsePartition(
                            partition_index=partition.partition_index,
                            error_code=code(topic.name, partition.partition_index),
                        )
                        for partition in topic.partitions
                    ],
                )
                for topic in request.topics
                if topic.partitions
            ]
        )

    @staticmethod
    def refuse_commit(request: OffsetCommitRequest, code: ErrorCode) -> OffsetCommitResponse:
        return _committed(request, {}, code)

    @staticmethod
    def refuse_fetch(request: OffsetFetchRequest, code: ErrorCode) -> OffsetFetchResponse:
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
    def refuse_delete(_request: OffsetDeleteRequest, code: ErrorCode) -> OffsetDeleteResponse:
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


def _committed(request: OffsetCommitRequest, codes: Mapping[int, ErrorCode], code: ErrorCode) -> OffsetCommitResponse:
    """One code for all but those that had one of their own already."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=wish.partition_index, error_code=codes.get(id(wish), code)
                    )
                    for wish in topic.partitions
                ],
            )
            for topic in request.topics
            if topic.partitions
        ]
    )


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


def _old_topic(topic: OffsetFetchResponseTopics, version: int) -> OffsetFetchResponseTopic:
    partitions = [_old_partition(partition) for partition in topic.partitions]
    if version == 0:
        for partition in partitions:
            if partition.committed_offset == NOT_SET:
                partition.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return OffsetFetchResponseTopic(name=topic.name, partitions=partitions)


def _old_partition(told: OffsetFetchResponsePartitions) -> OffsetFetchResponsePartition:
    """The same under the name that it has up to version 7."""
    return OffsetFetchResponsePartition(
        partition_index=told.partition_index,
        committed_offset=told.committed_offset,
        committed_leader_epoch=told.committed_leader_epoch,
        metadata=told.metadata,
        error_code=told.error_code,
    )
