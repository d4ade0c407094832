"""CreateTopics and DeleteTopics."""

from __future__ import annotations

from collections import Counter

from sordini.broker.configuration.settings import value_text
from sordini.broker.configuration.topic_config import TOPIC_SETTINGS, TopicConfig
from sordini.broker.network.ports import DelayedResponse
from sordini.broker.requests.call import Call, RespondLater, Route
from sordini.broker.requests.quotas.mutation_quota import MutationQuota, MutationQuotas
from sordini.broker.requests.slice_scheduler import SliceScheduler
from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.broker.topics.topic_admin import TopicAdmin, TopicPlan
from sordini.broker.topics.topic_rules import CreateTopicsRule, DeleteTopicsRule
from sordini.protocol.api_keys import ApiKey
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
"""Steps to start with one topic."""


class TopicsHandler:
    """Creates and deletes topics; each has its own error code."""

    def __init__(
        self,
        admin: TopicAdmin,
        metadata: MetadataCache,
        later: RespondLater,
        slices: SliceScheduler,
        quotas: MutationQuotas,
    ) -> None:
        self._slices = slices
        self._quotas = quotas
        self._admin = admin
        self._metadata = metadata
        self._later = later

    def routes(self) -> list[Route]:
        return [
            Route(ApiKey.CREATE_TOPICS, self.create, self.create_error_response, CreateTopicsRule()),
            Route(ApiKey.DELETE_TOPICS, self.delete, self.delete_error_response, DeleteTopicsRule()),
        ]

    def create(self, call: Call) -> DelayedResponse:
        quota = self._quotas.of(ApiKey.CREATE_TOPICS, call.version, call.peer, call.client_id)
        return self._later(call, self._create(call.body, quota))

    async def _create(self, request: CreateTopicsRequest, quota: MutationQuota) -> CreateTopicsResponse:
        self._admin.check_controller()
        self._admin.check_size(request.topics)
        counts = Counter(topic.name for topic in request.topics)
        results = await self._slices.gather(
            request.topics, lambda topic: self._create_one(request, topic, counts, quota), steps_each=TOPIC_STEPS
        )
        return CreateTopicsResponse(throttle_time_ms=quota.throttle(), topics=results)

    async def _create_one(
        self, request: CreateTopicsRequest, topic: CreatableTopic, counts: Counter[str], quota: MutationQuota
    ) -> CreatableTopicResult:
        try:
            if counts[topic.name] > 1:
                raise BrokerError(ErrorCode.INVALID_REQUEST, "the topic is named more than once in this request")
            planned = self._admin.plan(topic)
            if request.validate_only:
                await self._admin.check_absent(planned.name)
                return _created(planned, NO_TOPIC_ID)
            quota.spend(len(planned.replicas))
            topic_id = await self._admin.create(planned, timeout_ms=request.timeout_ms)
            return _created(planned, topic_id)
        except BrokerError as error:
            return CreatableTopicResult(
                name=topic.name,
                error_code=error.code,
                error_message=None if error.code == ErrorCode.REQUEST_TIMED_OUT else str(error),
            )

    def delete(self, call: Call) -> DelayedResponse:
        quota = self._quotas.of(ApiKey.DELETE_TOPICS, call.version, call.peer, call.client_id)
        return self._later(call, self._delete(call.body, call.version, quota))

    async def _delete(self, request: DeleteTopicsRequest, version: int, quota: MutationQuota) -> DeleteTopicsResponse:
        self._admin.check_controller()
        self._admin.check_count(len(request.topics) + len(request.topic_names))
        wanted = request.topics if version >= 6 else [DeleteTopicState(name=name) for name in request.topic_names]
        results = await self._slices.gather(
            wanted, lambda topic: self._delete_one(request, topic, quota), steps_each=TOPIC_STEPS
        )
        return DeleteTopicsResponse(throttle_time_ms=quota.throttle(), responses=results)

    async def _delete_one(
        self, request: DeleteTopicsRequest, wanted: DeleteTopicState, quota: MutationQuota
    ) -> DeletableTopicResult:
        result = DeletableTopicResult(name=wanted.name, topic_id=wanted.topic_id)
        try:
            if wanted.topic_id != NO_TOPIC_ID:
                if wanted.name is not None:
                    raise BrokerError(ErrorCode.INVALID_REQUEST, "a topic is identified by name or by id, not both")
                result.name = self._metadata.name_of(TopicId(wanted.topic_id))
                if result.name is None:
                    raise BrokerError(ErrorCode.UNKNOWN_TOPIC_ID, "no topic has this id")
            elif wanted.name is None:
                raise BrokerError(ErrorCode.INVALID_REQUEST, "a topic is identified by name or by id")
            known = self._metadata.topics.get(result.name or "")
            if known is None:
                raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {result.name} does not exist")
            quota.spend(len(known.partitions))
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


def _created(planned: TopicPlan, topic_id: TopicId) -> CreatableTopicResult:
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
