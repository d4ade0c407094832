"""CreateTopics and DeleteTopics."""

from __future__ import annotations

from collections import Counter

from sordini.broker.configuration.settings import value_text
from sordini.broker.configuration.topic_config import TOPIC_SETTINGS, TopicConfig
from sordini.broker.dispatch import Call, RespondLater, Route
from sordini.broker.network.ports import DelayedResponse
from sordini.broker.requests.slice_scheduler import SliceScheduler
from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.broker.topics.topic_admin import Planned, TopicAdmin
from sordini.protocol.api import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from sordini.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from sordini.protocol.types import NO_TOPIC_ID, TopicId

TOPIC_STEPS = 50
"""What it takes to begin with one topic, whatever comes of it."""


class TopicsHandler:
    """Makes and deletes topics; each has an error code of its own."""

    def __init__(self, admin: TopicAdmin, metadata: MetadataCache, later: RespondLater, slices: SliceScheduler) -> None:
        self._slices = slices
        self._admin = admin
        self._metadata = metadata
        self._later = later

    def routes(self) -> list[Route]:
        return [
            Route(ApiKey.CREATE_TOPICS, self.create, self.create_error_response),
            Route(ApiKey.DELETE_TOPICS, self.delete, self.delete_error_response),
        ]

    def create(self, call: Call) -> DelayedResponse:
        return self._later(call, self._create(call.body))

    async def _create(self, request: CreateTopicsRequest) -> CreateTopicsResponse:
        self._admin.check_controller()
        self._admin.check_size(request.topics)
        counts = Counter(topic.name for topic in request.topics)
        results = await self._slices.gather(
            request.topics, lambda topic: self._create_one(request, topic, counts), steps_each=TOPIC_STEPS
        )
        return CreateTopicsResponse(topics=results)

    async def _create_one(
        self, request: CreateTopicsRequest, topic: CreatableTopic, counts: Counter[str]
    ) -> CreatableTopicResult:
        try:
            if counts[topic.name] > 1:
                raise BrokerError(ErrorCode.INVALID_REQUEST, "the topic is named more than once in this request")
            planned = self._admin.plan(topic)
            if request.validate_only:
                await self._admin.check_absent(planned.name)
                return _made(planned, NO_TOPIC_ID)
            topic_id = await self._admin.create(planned, timeout_ms=request.timeout_ms)
            return _made(planned, topic_id)
        except BrokerError as error:
            return CreatableTopicResult(
                name=topic.name,
                error_code=error.code,
                error_message=None if error.code == ErrorCode.REQUEST_TIMED_OUT else str(error),
            )

    def delete(self, call: Call) -> DelayedResponse:
        return self._later(call, self._delete(call.body, call.version))

    async def _delete(self, request: DeleteTopicsRequest, version: int) -> DeleteTopicsResponse:
        self._admin.check_controller()
        self._admin.check_count(len(request.topics) + len(request.topic_names))
        wanted = request.topics if version >= 6 else [DeleteTopicState(name=name) for name in request.topic_names]
        results = await self._slices.gather(
            wanted, lambda topic: self._delete_one(request, topic), steps_each=TOPIC_STEPS
        )
        return DeleteTopicsResponse(responses=results)

    async def _delete_one(self, request: DeleteTopicsRequest, wanted: DeleteTopicState) -> DeletableTopicResult:
        result = DeletableTopicResult(name=wanted.name, topic_id=wanted.topic_id)
        try:
            if wanted.topic_id != NO_TOPIC_ID:
                if wanted.name is not None:
                    raise BrokerError(ErrorCode.INVALID_REQUEST, "a topic is named by its name or by its id, not both")
                result.name = self._metadata.name_of(TopicId(wanted.topic_id))
                if result.name is None:
                    raise BrokerError(ErrorCode.UNKNOWN_TOPIC_ID, "there is no topic of that id")
            elif wanted.name is None:
                raise BrokerError(ErrorCode.INVALID_REQUEST, "a topic is named by its name or by its id")
            known = self._metadata.topics.get(result.name or "")
            if known is None:
                raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {result.name}")
            await self._admin.delete(known.name, timeout_ms=request.timeout_ms)
        except BrokerError as error:
            result.error_code, result.error_message = error.code, str(error)
        return result

    @staticmethod
    def create_error_response(request: CreateTopicsRequest, code: ErrorCode) -> CreateTopicsResponse:
        return CreateTopicsResponse(
            topics=[
                CreatableTopicResult(name=topic.name, error_code=code, error_message=None) for topic in request.topics
            ]
        )

    @staticmethod
    def delete_error_response(request: DeleteTopicsRequest, code: ErrorCode) -> DeleteTopicsResponse:
        named = [DeletableTopicResult(name=name, error_code=code) for name in request.topic_names]
        stated = [
            DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, error_code=code) for topic in request.topics
        ]
        return DeleteTopicsResponse(responses=named + stated)


def _made(planned: Planned, topic_id: TopicId) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=planned.name,
        topic_id=topic_id,
        error_message=None,
        num_partitions=len(planned.replicas),
        replication_factor=len(planned.replicas[0]),
        configs=_configs(planned.config),
    )


def _configs(config: TopicConfig) -> list[CreatableTopicConfigs]:
    return [
        CreatableTopicConfigs(
            name=key, value=value_text(config[key]), read_only=False, config_source=config.source(key)
        )
        for key in sorted(TOPIC_SETTINGS)
    ]
