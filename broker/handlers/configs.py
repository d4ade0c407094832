"""DescribeConfigs: every setting of a topic or of this broker, with where its value comes from (KIP-226, KIP-569).

Requests that name one of `health_keys` for a broker are answered with how it is, too, as soon as that is known.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping
from functools import partial
from itertools import dropwhile
from typing import Any, NamedTuple, cast

from sordini.broker.configuration.admin import ResourceKind, check_broker_name, describe_kind
from sordini.broker.configuration.config import SETTINGS
from sordini.broker.configuration.dynamic import LAYERS, ConfigSource, DynamicConfig, Synonym
from sordini.broker.configuration.ignored_keys import WITHOUT_EFFECT
from sordini.broker.configuration.logger_levels import LoggerLevels
from sordini.broker.configuration.protection import find_protection
from sordini.broker.configuration.protection_defaults import DEFAULTS
from sordini.broker.configuration.protection_keys import Change
from sordini.broker.configuration.settings import ValueKind, value_text
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
"""Keys for one thing, the finest first: it goes before the others where it is set."""

DESCRIPTION_STEPS = 200
PACKING_STEPS = 10
DESCRIPTIONS_MAX = 2_000
"""Most that one request may have described which are not alike, as topics of the same settings are: each is some dozens
of rows."""
NOT_SERVED = "Apache Kafka's, without effect here."

FAMILY_OF = {key: family for family in FAMILIES for key in family}


class Described(NamedTuple):
    """One setting and what gives it its value; the first synonym is the one in force."""

    key: str
    value: str | None
    synonyms: list[Synonym]
    kind: ValueKind
    is_read_only: bool
    meaning: str


class Known(NamedTuple):
    """What one request has had described so far."""

    described: dict[Hashable, dict[str, Described]]
    """All settings, by what resources that are alike have in common."""
    packed: dict[Hashable, Packed]
    """Rows of the answer as bytes, by that and by the keys that are asked for."""
    condition: Mapping[str, str | None]
    """How the broker is, for those who name the keys."""


class ConditionSource(NamedTuple):
    """How a broker's word on its own condition comes into an answer."""

    condition: BrokerHealth
    later: Callable[[Call, Awaitable[Any]], DelayedResponse]
    slices: SliceScheduler


class ConfigsHandler:
    """Describes; nothing here changes a setting."""

    def __init__(
        self,
        broker_id: BrokerId,
        dynamic: DynamicConfig,
        metadata: MetadataCache,
        config_of: Callable[[str], TopicConfig],
        loggers: LoggerLevels,
        itself: ConditionSource,
    ) -> None:
        """`config_of` finds a topic's resolved configuration."""
        self._itself = itself
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
            return self._itself.later(call, self._with_condition(call))
        return (yield from self._described(call, {}))

    async def _with_condition(self, call: Call) -> DescribeConfigsResponse:
        return await self._itself.slices.run(self._described(call, await self._itself.condition.values()))

    def _described(self, call: Call, condition: Mapping[str, str | None]) -> Work[DescribeConfigsResponse]:
        """The answer; `condition` has the values of `health_keys` where one of them is asked for."""
        request: DescribeConfigsRequest = call.body
        response = DescribeConfigsResponse()
        known = Known({}, {}, condition)
        for resource in request.resources:
            response.results.append((yield from self._describe(call, resource, known)))
        return response

    def _describe(self, call: Call, resource: DescribeConfigsResource, known: Known) -> Work[DescribeConfigsResult]:
        """One resource; what is known already of another one that is alike is not described again."""
        yield 1
        result = DescribeConfigsResult(
            error_message="", resource_type=resource.resource_type, resource_name=resource.resource_name
        )
        try:
            alike, describe = self._description(resource)
        except BrokerError as error:
            result.error_code, result.error_message = error.code, str(error)
            return result
        # An empty list asks for everything, as null does.
        wanted: set[str] | None = None
        if resource.configuration_keys:
            wanted = set()
            for key in resource.configuration_keys:
                wanted.add(key)
                yield 1
        place = (alike, None if wanted is None else frozenset(wanted))
        if place not in known.packed:
            if len(known.packed) >= DESCRIPTIONS_MAX:
                raise BrokerError(
                    ErrorCode.INVALID_REQUEST, f"one request may have {DESCRIPTIONS_MAX} resources described at most"
                )
            if alike not in known.described:
                known.described[alike] = {one.key: one for one in describe()}
                yield DESCRIPTION_STEPS
            found = known.described[alike]
            rows = [_row(one, call.body) for key, one in found.items() if wanted is None or key in wanted]
            if resource.resource_type == ResourceKind.BROKER and wanted is not None:
                rows += [_row(_of_condition(*item), call.body) for item in known.condition.items() if item[0] in wanted]
            known.packed[place] = schema.pack(
                DescribeConfigsResponse, call.version, DescribeConfigsResult, "configs", rows
            )
            yield PACKING_STEPS + len(rows)
        result.configs = cast("list[DescribeConfigsResourceResult]", known.packed[place])
        return result

    def _description(self, resource: DescribeConfigsResource) -> tuple[Hashable, Callable[[], list[Described]]]:
        """What describes a resource, and by what resources are alike for it. Raises BrokerError: there is none."""
        kind, name = resource.resource_type, resource.resource_name
        if kind == ResourceKind.TOPIC:
            check_topic_name(name)
            if name not in self._metadata.topics:
                raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
            topic = self._config_of(name)
            return (kind, *sorted(topic.overrides.items())), lambda: _of_topic(topic)
        if kind not in (ResourceKind.BROKER, ResourceKind.BROKER_LOGGER):
            raise BrokerError(ErrorCode.INVALID_REQUEST, f"{describe_kind(kind)} are not kept here")
        if name or kind == ResourceKind.BROKER_LOGGER:
            check_broker_name(name, self._broker_id)
        return (kind, bool(name)), self._of_loggers if kind == ResourceKind.BROKER_LOGGER else partial(
            self._broker, name
        )

    def _broker(self, name: str) -> list[Described]:
        if name == "":
            # What all brokers have in common is only what was set of it.
            source = ConfigSource.DYNAMIC_DEFAULT_BROKER
            common = self._dynamic.entries(source)
            return [describe_entry(key, [Synonym(key, common[key], source)]) for key in sorted(common)]
        foreign = {key for source in LAYERS for key in self._dynamic.entries(source)} - SETTINGS.keys()
        return sorted(
            [self._own_key(key) for key in SETTINGS] + [describe_entry(key, list(self._found(key))) for key in foreign]
        )

    def _of_loggers(self) -> list[Described]:
        meaning = "The least level of lines that are written."
        return [
            Described(
                logger,
                level,
                [Synonym(logger, level, ConfigSource.DYNAMIC_BROKER_LOGGER)],
                ValueKind.UNKNOWN,
                False,
                meaning,
            )
            for logger, level in self._loggers.levels().items()
        ]

    def _own_key(self, key: str) -> Described:
        synonyms = self._dynamic.synonyms(FAMILY_OF.get(key, (key,)))
        # What goes before a key that is not set is its family's value, and not its own.
        # Where nothing of the family is set, a coarser key still has its own default.
        synonyms = list(dropwhile(lambda synonym: synonym.name != key, synonyms)) or self._dynamic.synonyms((key,))
        field, declared = SETTINGS[key]
        value = value_text(self._broker_id if key == "broker.id" else getattr(self._dynamic.config, field))
        return Described(key, value, synonyms, declared.rule.kind, not declared.is_dynamic, declared.meaning)

    def _found(self, key: str) -> Iterator[Synonym]:
        for source in LAYERS:
            entries = self._dynamic.entries(source)
            if key in entries:
                yield Synonym(key, entries[key], source)

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


def _of_condition(key: str, value: str | None) -> Described:
    return Described(key, value, [], ValueKind.STRING, True, MEANINGS[key])


def _of_topic(topic: TopicConfig) -> list[Described]:
    return [describe_topic_key(topic, key) for key in sorted(TOPIC_SETTINGS)]


def describe_entry(key: str, found: list[Synonym]) -> Described:
    """An entry of a dynamic layer by itself. What nobody here knows may be a secret."""
    if key in SETTINGS:
        declared = SETTINGS[key][1]
        return Described(key, found[0].value, found, declared.rule.kind, not declared.is_dynamic, declared.meaning)
    protection = find_protection(key)
    if protection is not None:
        base = protection.key
        default = [Synonym(base, DEFAULTS[base], ConfigSource.DEFAULT)] if base in DEFAULTS else []
        is_read_only = protection.change in (Change.NOWHERE, Change.LISTENER)
        return Described(key, found[0].value, found + default, protection.rule.kind, is_read_only, NOT_SERVED)
    kind = ValueKind.STRING if key in WITHOUT_EFFECT else ValueKind.PASSWORD
    return Described(key, found[0].value, found, kind, True, "Not a key of this broker's.")


def describe_topic_key(topic: TopicConfig, key: str) -> Described:
    """One topic setting."""
    declared = TOPIC_SETTINGS[key]
    return Described(key, value_text(topic[key]), topic.synonyms(key), declared.rule.kind, False, declared.meaning)


def _row(described: Described, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    """One setting as the answer has it; of a secret nobody is told more than that there is one."""
    source = described.synonyms[0].source if described.synonyms else ConfigSource.DEFAULT
    is_secret = described.kind is ValueKind.PASSWORD
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
