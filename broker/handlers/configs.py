"""DescribeConfigs: every setting of a topic or of this broker, with where its value comes from (KIP-226, KIP-569)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sordini.broker.config import SETTINGS, Config
from sordini.broker.dispatch import Call, Route
from sordini.broker.metadata_cache import MetadataCache
from sordini.broker.settings import ValueKind, value_text
from sordini.broker.topic_config import TOPIC_SETTINGS, ConfigSource, TopicConfig
from sordini.protocol.api import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from sordini.protocol.types import BrokerId
from sordini.replication.controller.topics import check_topic_name

TOPIC = 2
BROKER = 4

FALLBACKS = {
    "log.retention.ms": "log.retention.hours",
    "log.retention.minutes": "log.retention.hours",
    "log.roll.ms": "log.roll.hours",
    "log.roll.jitter.ms": "log.roll.jitter.hours",
}


class ConfigsHandler:
    """Describes; nothing here changes a setting."""

    def __init__(
        self,
        broker_id: BrokerId,
        config: Config,
        explicit: frozenset[str],
        metadata: MetadataCache,
        config_of: Callable[[str], TopicConfig],
    ) -> None:
        """`explicit` names the broker keys that were set; `config_of` finds a topic's resolved configuration."""
        self._broker_id = broker_id
        self._config = config
        self._explicit = explicit
        self._metadata = metadata
        self._config_of = config_of

    def route(self) -> Route:
        return Route(ApiKey.DESCRIBE_CONFIGS, self.handle, self.refuse)

    def handle(self, call: Call) -> DescribeConfigsResponse:
        request: DescribeConfigsRequest = call.body
        return DescribeConfigsResponse(results=[self._describe(request, resource) for resource in request.resources])

    def _describe(self, request: DescribeConfigsRequest, resource: DescribeConfigsResource) -> DescribeConfigsResult:
        result = DescribeConfigsResult(
            error_message="", resource_type=resource.resource_type, resource_name=resource.resource_name
        )
        try:
            if resource.resource_type == TOPIC:
                described = self._topic(request, resource.resource_name)
            elif resource.resource_type == BROKER:
                described = self._broker(request, resource.resource_name)
            else:
                raise BrokerError(
                    ErrorCode.INVALID_REQUEST, f"resource type {resource.resource_type} has no configuration here"
                )
        except BrokerError as error:
            result.error_code, result.error_message = error.code, str(error)
            return result
        # An empty list asks for everything, as null does.
        keys = resource.configuration_keys
        wanted = None if not keys else set(keys)
        result.configs = [row for row in described if wanted is None or row.name in wanted]
        return result

    def _topic(self, request: DescribeConfigsRequest, name: str) -> Iterable[DescribeConfigsResourceResult]:
        check_topic_name(name)
        if name not in self._metadata.topics:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
        return [describe_topic_key(self._config_of(name), key, request) for key in sorted(TOPIC_SETTINGS)]

    def _broker(self, request: DescribeConfigsRequest, name: str) -> Iterable[DescribeConfigsResourceResult]:
        if name == "":
            return []  # The cluster-wide dynamic defaults, of which there are none.
        if not name.isdigit():
            raise BrokerError(ErrorCode.INVALID_REQUEST, f"a broker is named by its number, not by {name!r}")
        if name != str(self._broker_id):
            raise BrokerError(
                ErrorCode.INVALID_REQUEST, f"this is broker {self._broker_id}; ask broker {name!r} for its own settings"
            )
        return [self._broker_key(key, request) for key in sorted(SETTINGS)]

    def _broker_key(self, key: str, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
        field, declared = SETTINGS[key]
        value = value_text(self._broker_id if key == "broker.id" else getattr(self._config, field))
        is_set = key in self._explicit
        synonyms = []
        if is_set:
            synonyms.append(DescribeConfigsSynonym(name=key, value=value, source=ConfigSource.STATIC_BROKER))
        # A key given in milliseconds falls back on the same in hours, whose default is told beside a value.
        fallback = FALLBACKS.get(key, key) if is_set else key
        default = SETTINGS[fallback][1]
        if default.default is not None:
            synonyms.append(
                DescribeConfigsSynonym(name=fallback, value=default.default_text, source=ConfigSource.DEFAULT)
            )
        return DescribeConfigsResourceResult(
            name=key,
            value=value,
            read_only=True,
            is_default=not is_set,
            config_source=ConfigSource.STATIC_BROKER if is_set else ConfigSource.DEFAULT,
            synonyms=synonyms if request.include_synonyms else [],
            config_type=declared.rule.kind,
            documentation=declared.meaning if request.include_documentation else None,
        )

    @staticmethod
    def refuse(request: DescribeConfigsRequest, code: ErrorCode) -> DescribeConfigsResponse:
        return DescribeConfigsResponse(
            results=[
                DescribeConfigsResult(
                    error_code=code,
                    error_message=None,
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                )
                for resource in request.resources
            ]
        )


def describe_topic_key(topic: TopicConfig, key: str, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    """One topic setting as DescribeConfigs shows it."""
    declared = TOPIC_SETTINGS[key]
    source = topic.source(key)
    kind = ValueKind.LIST if key.endswith("throttled.replicas") else declared.rule.kind
    return DescribeConfigsResourceResult(
        name=key,
        value=value_text(topic[key]),
        read_only=False,
        is_default=source is not ConfigSource.TOPIC,
        config_source=source,
        synonyms=[
            DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=synonym.source)
            for synonym in topic.synonyms(key)
        ]
        if request.include_synonyms
        else [],
        config_type=kind,
        documentation=declared.meaning if request.include_documentation else None,
    )
