"""DescribeConfigs: the settings of a topic, a group or this broker, with their sources (KIP-226, KIP-569).

A request that names one of `health_keys` for a broker is also answered with its condition, once that is known.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import partial
from itertools import dropwhile
from typing import cast

from sordini.broker.administration.config_admin import check_broker_name, describe_kind
from sordini.broker.administration.configs_rule import ConfigsRule
from sordini.broker.administration.described_settings import (
    FAMILY_OF,
    DescribedSetting,
    describe_entry,
    of_client_metrics,
    of_condition,
    of_group,
    of_topic,
    row_of,
)
from sordini.broker.administration.logger_levels import LoggerLevels
from sordini.broker.cluster.health import BrokerHealth
from sordini.broker.cluster.health_keys import MEANINGS
from sordini.broker.configuration.client_metrics_configs import ClientMetricsConfigs
from sordini.broker.configuration.config import SETTINGS, find_setting
from sordini.broker.configuration.dynamic import LAYERS, ConfigSource, DynamicConfig, Synonym
from sordini.broker.configuration.group_configs import GroupConfigs
from sordini.broker.configuration.keys.listener_keys import LISTENER_PREFIX
from sordini.broker.configuration.protection.protection import find_protection
from sordini.broker.configuration.resources import ResourceKind
from sordini.broker.configuration.settings import ValueKind, value_text
from sordini.broker.configuration.topic_config import TopicConfig
from sordini.broker.network.ports import DelayedResponse
from sordini.broker.requests.call import Call, RespondLater, Route
from sordini.broker.requests.request_checks import check_name_repeats
from sordini.broker.requests.slice_scheduler import SliceScheduler, Work
from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.protocol import codecs
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from sordini.protocol.primitives import Packed
from sordini.protocol.types import BrokerId
from sordini.replication.metadata_store.acl_model import AclOperation
from sordini.replication.metadata_store.topics import check_topic_name
from sordini.system.named_tuple import NamedTuple

DESCRIPTION_STEPS = 200
PACKING_STEPS = 10
DESCRIPTIONS_MAX = 2_000
"""Distinct descriptions in one response; resources with the same settings share one. Each has some dozens of rows."""


class Descriptions(NamedTuple):
    """What has been described for one request so far."""

    described: dict[Hashable, dict[str, DescribedSetting]]
    """All settings, by a key that resources with the same settings share."""
    packed: dict[Hashable, Packed]
    """Encoded rows, by that key and the requested keys."""
    condition: Mapping[str, str | None]
    """The broker's condition, if one of its keys is requested."""


class ConditionSource(NamedTuple):
    """How the broker's own condition is added to a response."""

    condition: BrokerHealth
    later: RespondLater
    slices: SliceScheduler


class EntityConfigs(NamedTuple):
    """Settings of what need not exist."""

    groups: GroupConfigs
    client_metrics: ClientMetricsConfigs


class ConfigsHandler:
    """Serves DescribeConfigs."""

    def __init__(
        self,
        broker_id: BrokerId,
        dynamic: DynamicConfig,
        metadata: MetadataCache,
        config_of: Callable[[str], TopicConfig],
        entities: EntityConfigs,
        loggers: LoggerLevels,
        condition_source: ConditionSource,
    ) -> None:
        """`config_of` returns a topic's resolved configuration."""
        self._condition_source = condition_source
        self._loggers = loggers
        self._broker_id = broker_id
        self._dynamic = dynamic
        self._metadata = metadata
        self._config_of = config_of
        self._entities = entities

    def route(self) -> Route:
        return Route(
            ApiKey.DESCRIBE_CONFIGS,
            self.handle,
            self.error_response,
            ConfigsRule(AclOperation.DESCRIBE_CONFIGS, "results"),
        )

    def handle(self, call: Call) -> Work[DescribeConfigsResponse | DelayedResponse]:
        request: DescribeConfigsRequest = call.body
        yield from check_name_repeats(
            (resource.resource_type, resource.resource_name) for resource in request.resources
        )
        if (yield from _asks_for_condition(request)):
            return self._condition_source.later(call, self._with_condition(call))
        return (yield from self._described(call, {}))

    async def _with_condition(self, call: Call) -> DescribeConfigsResponse:
        return await self._condition_source.slices.run(
            self._described(call, await self._condition_source.condition.values())
        )

    def _described(self, call: Call, condition: Mapping[str, str | None]) -> Work[DescribeConfigsResponse]:
        """The response; `condition` has the values of `health_keys` if one of them is requested."""
        request: DescribeConfigsRequest = call.body
        response = DescribeConfigsResponse()
        known = Descriptions({}, {}, condition)
        for resource in request.resources:
            response.results.append((yield from self._describe(call, resource, known)))
        return response

    def _describe(
        self, call: Call, resource: DescribeConfigsResource, known: Descriptions
    ) -> Work[DescribeConfigsResult]:
        """One resource; the description of another resource with the same settings is reused."""
        yield 1
        result = DescribeConfigsResult(
            error_message="", resource_type=resource.resource_type, resource_name=resource.resource_name
        )
        try:
            shared_key, describe = self._description(resource)
        except BrokerError as error:
            result.error_code, result.error_message = error.code, str(error)
            return result
        # An empty list requests all keys, as null does.
        wanted: set[str] | None = None
        if resource.configuration_keys:
            wanted = set()
            for key in resource.configuration_keys:
                wanted.add(key)
                yield 1
        packed_key = (shared_key, None if wanted is None else frozenset(wanted))
        if packed_key not in known.packed:
            if len(known.packed) >= DESCRIPTIONS_MAX:
                raise BrokerError(
                    ErrorCode.INVALID_REQUEST, f"a request may describe at most {DESCRIPTIONS_MAX} different resources"
                )
            if shared_key not in known.described:
                known.described[shared_key] = {one.key: one for one in describe()}
                yield DESCRIPTION_STEPS
            found = known.described[shared_key]
            rows = [row_of(one, call.body) for key, one in found.items() if wanted is None or key in wanted]
            if resource.resource_type == ResourceKind.BROKER and wanted is not None:
                rows += [
                    row_of(of_condition(*item), call.body) for item in known.condition.items() if item[0] in wanted
                ]
            known.packed[packed_key] = codecs.pack(
                DescribeConfigsResponse, call.version, DescribeConfigsResult, "configs", rows
            )
            yield PACKING_STEPS + len(rows)
        result.configs = cast("list[DescribeConfigsResourceResult]", known.packed[packed_key])
        return result

    def _description(self, resource: DescribeConfigsResource) -> tuple[Hashable, Callable[[], list[DescribedSetting]]]:
        """The key that resources with the same settings share, and the description. Raises BrokerError if unknown."""
        kind, name = resource.resource_type, resource.resource_name
        if kind == ResourceKind.TOPIC:
            check_topic_name(name)
            if name not in self._metadata.topics:
                raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name} does not exist")
            topic = self._config_of(name)
            return (kind, *sorted(topic.overrides.items())), lambda: self._hidden(of_topic(topic))
        if kind in (ResourceKind.GROUP, ResourceKind.CLIENT_METRICS):
            if not name:
                raise BrokerError(ErrorCode.INVALID_REQUEST, f"{describe_kind(kind)} need its name")
            if kind == ResourceKind.CLIENT_METRICS:
                own = self._entities.client_metrics.settings_of(name)
                return (kind, *sorted(own.items())), partial(of_client_metrics, own)
            group = self._entities.groups.config_of(name)
            return (kind, *sorted(group.overrides.items())), lambda: self._hidden(of_group(group))
        if kind not in (ResourceKind.BROKER, ResourceKind.BROKER_LOGGER):
            raise BrokerError(ErrorCode.INVALID_REQUEST, f"{describe_kind(kind)} are not supported")
        if name or kind == ResourceKind.BROKER_LOGGER:
            check_broker_name(name, self._broker_id)
        return (kind, bool(name)), self._of_loggers if kind == ResourceKind.BROKER_LOGGER else partial(
            self._broker, name
        )

    def _broker(self, name: str) -> list[DescribedSetting]:
        if name == "":
            # The brokers' common defaults contain only what was set.
            source = ConfigSource.DYNAMIC_DEFAULT_BROKER
            common = self._dynamic.entries(source)
            return [describe_entry(key, [Synonym(key, common[key], source)]) for key in sorted(common)]
        foreign = {key for source in LAYERS for key in self._dynamic.entries(source)} - SETTINGS.keys()
        foreign |= self._dynamic.static_overrides.keys()
        own = [self._own_key(key) for key in SETTINGS]
        return sorted(self._hidden(own + [describe_entry(key, list(self._found(key))) for key in foreign]))

    def _hidden(self, described: list[DescribedSetting]) -> list[DescribedSetting]:
        """The same, with those marked that have a value of a config provider, if only as a synonym."""
        provided = self._dynamic.config.provided_keys
        if not provided:
            return described
        return [
            one._replace(is_hidden=one.key in provided or any(each.name in provided for each in one.synonyms))
            for one in described
        ]

    def _of_loggers(self) -> list[DescribedSetting]:
        meaning = "The lowest level that is logged."
        return [
            DescribedSetting(
                logger,
                level,
                [Synonym(logger, level, ConfigSource.DYNAMIC_BROKER_LOGGER)],
                ValueKind.UNKNOWN,
                False,
                meaning,
            )
            for logger, level in self._loggers.levels().items()
        ]

    def _own_key(self, key: str) -> DescribedSetting:
        synonyms = self._dynamic.synonyms(FAMILY_OF.get(key, (key,)))
        # What precedes a key that is not set is its family's value, not its own.
        # If no key of the family is set, a coarser key still has its own default.
        synonyms = list(dropwhile(lambda synonym: synonym.name != key, synonyms)) or self._dynamic.synonyms((key,))
        field, declared = SETTINGS[key]
        value = value_text(self._broker_id if key == "broker.id" else getattr(self._dynamic.config, field))
        return DescribedSetting(key, value, synonyms, declared.rule.kind, not declared.is_dynamic, declared.meaning)

    def _found(self, key: str) -> Iterator[Synonym]:
        for source in LAYERS:
            entries = self._dynamic.entries(source)
            if key in entries:
                yield Synonym(key, entries[key], source)
        if key in self._dynamic.static_overrides:
            yield Synonym(key, value_text(self._dynamic.static_overrides[key]), ConfigSource.STATIC_BROKER)
        if key.lower().startswith(LISTENER_PREFIX):
            yield from self._inherited(key)

    def _inherited(self, key: str) -> Iterator[Synonym]:
        """What is set of the key without its listener prefix."""
        declared = find_setting(key) or find_protection(key)
        if declared is not None and declared.key in SETTINGS:
            synonyms = self._dynamic.synonyms((declared.key,))
            yield from (one for one in synonyms if one.source is not ConfigSource.DEFAULT)
        elif declared is not None:
            yield from self._found(declared.key)

    @staticmethod
    def error_response(request: DescribeConfigsRequest, code: ErrorCode) -> DescribeConfigsResponse:
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


def _asks_for_condition(request: DescribeConfigsRequest) -> Work[bool]:
    for resource in request.resources:
        yield 1
        if resource.resource_type == ResourceKind.BROKER:
            for key in resource.configuration_keys or ():
                if key in MEANINGS:
                    return True
                yield 1
    return False
