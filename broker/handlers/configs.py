"""DescribeConfigs: the settings of a topic or of this broker, with their sources (KIP-226, KIP-569).

A request that names one of `health_keys` for a broker is also answered with its condition, once that is known.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping
from functools import partial
from itertools import dropwhile
from typing import Any, NamedTuple, cast

from sordini.broker.configuration.admin import ResourceKind, check_broker_name, describe_kind
from sordini.broker.configuration.config import SETTINGS, find_setting
from sordini.broker.configuration.dynamic import LAYERS, ConfigSource, DynamicConfig, Synonym
from sordini.broker.configuration.ignored_keys import WITHOUT_EFFECT
from sordini.broker.configuration.listener_keys import LISTENER_PREFIX
from sordini.broker.configuration.logger_levels import LoggerLevels
from sordini.broker.configuration.protection import find_protection
from sordini.broker.configuration.protection_defaults import DEFAULTS
from sordini.broker.configuration.settings import Change, ValueKind, value_text
from sordini.broker.configuration.topic_config import TOPIC_SETTINGS, TopicConfig
from sordini.broker.dispatch import Call, Route
from sordini.broker.handlers.request_checks import check_name_repeats
from sordini.broker.membership.health import BrokerHealth
from sordini.broker.membership.health_keys import MEANINGS
from sordini.broker.network.ports import DelayedResponse
from sordini.broker.requests.slice_scheduler import SliceScheduler, Work
from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.protocol import schema
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
from sordini.protocol.primitives import Packed
from sordini.protocol.types import BrokerId
from sordini.replication.metadata_store.topics import check_topic_name

FAMILIES = (
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
)
"""Keys of one setting, the finest unit first, which takes precedence where it is set."""

WITHOUT_SETTINGS = frozenset({ResourceKind.GROUP, ResourceKind.CLIENT_METRICS})
"""Described without an error, as tools describe them beside others: here none of them has a setting.

Those of groups belong to the protocol of KIP-848 and to share groups, which are not served.
"""

DESCRIPTION_STEPS = 200
PACKING_STEPS = 10
DESCRIPTIONS_MAX = 2_000
"""Distinct descriptions in one response; resources with the same settings share one. Each has some dozens of rows."""
NOT_SERVED = "Apache Kafka's, without effect here."

FAMILY_OF = {key: family for family in FAMILIES for key in family}


class DescribedSetting(NamedTuple):
    """One setting and its sources; the first synonym takes effect."""

    key: str
    value: str | None
    synonyms: list[Synonym]
    kind: ValueKind
    is_read_only: bool
    meaning: str
    is_hidden: bool = False
    """Whether a value of it came from a config provider."""


class Descriptions(NamedTuple):
    """What has been described for one request so far."""

    described: dict[Hashable, dict[str, DescribedSetting]]
    """All settings, by a key that resources with the same settings share."""
    packed: dict[Hashable, Packed]
    """EncodedBody rows, by that key and the requested keys."""
    condition: Mapping[str, str | None]
    """The broker's condition, if one of its keys is requested."""


class ConditionSource(NamedTuple):
    """How the broker's own condition is added to a response."""

    condition: BrokerHealth
    later: Callable[[Call, Awaitable[Any]], DelayedResponse]
    slices: SliceScheduler


class ConfigsHandler:
    """Serves DescribeConfigs."""

    def __init__(
        self,
        broker_id: BrokerId,
        dynamic: DynamicConfig,
        metadata: MetadataCache,
        config_of: Callable[[str], TopicConfig],
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

    def route(self) -> Route:
        return Route(ApiKey.DESCRIBE_CONFIGS, self.handle, self.error_response)

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
            rows = [_row(one, call.body) for key, one in found.items() if wanted is None or key in wanted]
            if resource.resource_type == ResourceKind.BROKER and wanted is not None:
                rows += [_row(_of_condition(*item), call.body) for item in known.condition.items() if item[0] in wanted]
            known.packed[packed_key] = schema.pack(
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
            return (kind, *sorted(topic.overrides.items())), lambda: self._hidden(_of_topic(topic))
        if kind in WITHOUT_SETTINGS:
            if not name:
                raise BrokerError(ErrorCode.INVALID_REQUEST, f"{describe_kind(kind)} need its name")
            return (kind,), list
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


def _of_condition(key: str, value: str | None) -> DescribedSetting:
    return DescribedSetting(key, value, [], ValueKind.STRING, True, MEANINGS[key])


def _of_topic(topic: TopicConfig) -> list[DescribedSetting]:
    return [describe_topic_key(topic, key) for key in sorted(TOPIC_SETTINGS)]


def describe_entry(key: str, found: list[Synonym]) -> DescribedSetting:
    """An entry of a dynamic layer. An unknown one may be a secret."""
    declared = find_setting(key)
    is_of_listener = key.lower().startswith(LISTENER_PREFIX)  # Apache Kafka reports all of these as read only.
    if declared is not None:
        default = (
            []
            if key in SETTINGS or declared.default_text is None
            else [Synonym(declared.key, declared.default_text, ConfigSource.DEFAULT)]
        )
        is_read_only = is_of_listener or not declared.is_dynamic
        return DescribedSetting(
            key, found[0].value, found + default, declared.rule.kind, is_read_only, declared.meaning
        )
    protection = find_protection(key)
    if protection is not None:
        base = protection.key
        default = [Synonym(base, DEFAULTS[base], ConfigSource.DEFAULT)] if base in DEFAULTS else []
        is_read_only = is_of_listener or protection.change in (Change.NOWHERE, Change.LISTENER)
        return DescribedSetting(key, found[0].value, found + default, protection.rule.kind, is_read_only, NOT_SERVED)
    kind = ValueKind.STRING if key in WITHOUT_EFFECT else ValueKind.PASSWORD
    return DescribedSetting(key, found[0].value, found, kind, True, "Not a key of this broker.")


def describe_topic_key(topic: TopicConfig, key: str) -> DescribedSetting:
    """One topic setting."""
    declared = TOPIC_SETTINGS[key]
    return DescribedSetting(
        key, value_text(topic[key]), topic.synonyms(key), declared.rule.kind, False, declared.meaning
    )


def _row(described: DescribedSetting, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    """One setting as a row of the response; the value of a secret is left out."""
    source = described.synonyms[0].source if described.synonyms else ConfigSource.DEFAULT
    is_secret = described.kind is ValueKind.PASSWORD or described.is_hidden
    synonyms = [
        DescribeConfigsSynonym(name=name, value=None if is_secret else value, source=where)
        for name, value, where in described.synonyms
    ]
    return DescribeConfigsResourceResult(
        name=described.key,
        value=None if is_secret else described.value,
        read_only=described.is_read_only,
        is_default=source is ConfigSource.DEFAULT,
        config_source=source,
        is_sensitive=is_secret,
        synonyms=synonyms if request.include_synonyms else [],
        config_type=described.kind,
        documentation=described.meaning if request.include_documentation else None,
    )
