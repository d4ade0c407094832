"""Changes of settings: requests become writes to the coordination store, which notifies every broker.

A change is answered once this broker has applied it, so that a following DescribeConfigs returns the new values. Any
broker changes any topic, any group and the defaults of all brokers; each broker changes its own settings only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from sordini.broker.administration.logger_levels import LoggerLevels
from sordini.broker.configuration.client_metrics_config import client_metrics_entity
from sordini.broker.configuration.dynamic import ConfigSource, DynamicConfig
from sordini.broker.configuration.edits import (
    Edit,
    check_edits,
    edit_broker,
    edit_client_metrics,
    edit_group,
    edit_topic,
)
from sordini.broker.configuration.group_config import group_entity
from sordini.broker.configuration.resources import Resource, ResourceKind
from sordini.broker.configuration.settings import ConfigError
from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.types import BrokerId
from sordini.replication.cluster_model import Malformed
from sordini.replication.metadata_store import paths
from sordini.replication.metadata_store.configs import ConfigChanges, SettingsTooLarge, change_config, read_config
from sordini.replication.ports import CoordinationError, NoNode, Session
from sordini.system.named_tuple import NamedTuple

EditEntries = Callable[[Mapping[str, str], Sequence[Edit]], dict[str, str]]


class Target(NamedTuple):
    """The entity path of a resource's settings, how they are edited, and the znode that must exist."""

    entity_path: str
    edit: EditEntries
    guard: str | None


class ConfigAdmin:
    """Edits the settings of topics, groups and brokers through the store."""

    def __init__(
        self,
        broker_id: BrokerId,
        session: Session,
        metadata: MetadataCache,
        changes: ConfigChanges,
        loggers: LoggerLevels,
        dynamic: DynamicConfig,
        timeout_ms: int,
    ) -> None:
        """`timeout_ms` bounds the wait for the write and for this broker's notification of it."""
        self._broker_id = broker_id
        self._loggers = loggers
        self._dynamic = dynamic
        self._session = session
        self._metadata = metadata
        self._changes = changes
        self._timeout_s = timeout_ms / 1000
        self._lock = asyncio.Lock()

    async def alter(self, resource: Resource, edits: Sequence[Edit], *, replace: bool, validate_only: bool) -> None:
        """Edit a resource's settings, or (`replace`) apply the edits to empty settings.

        Raises BrokerError: INVALID_REQUEST, INVALID_CONFIG, UNKNOWN_TOPIC_OR_PARTITION; REQUEST_TIMED_OUT when the
        store or the notification is late (the change may still be applied).
        """
        check_edits(edits)
        if resource.kind == ResourceKind.BROKER_LOGGER and not replace:
            check_broker_name(resource.name, self._broker_id)
            self._loggers.alter(edits, validate_only=validate_only)
            return
        target = self._target(resource)
        decide = partial(_edited, target.edit, edits, replace=replace)
        try:
            if validate_only:
                found = await read_config(self._session, target.entity_path)
                decide({} if isinstance(found, Malformed) else found)
                return
            async with asyncio.timeout(self._timeout_s):
                # One at a time, so that this broker's writers do not conflict with each other.
                async with self._lock:
                    number = await change_config(self._session, target.entity_path, decide, guard=target.guard)
                await self._changes.applied(number)
        except SettingsTooLarge as error:
            raise BrokerError(ErrorCode.INVALID_CONFIG, str(error)) from None
        except (CoordinationError, TimeoutError) as error:
            if isinstance(error, NoNode) and target.guard is not None:
                raise _unknown_topic(resource.name) from None
            raise BrokerError(ErrorCode.REQUEST_TIMED_OUT, f"the change may not be applied: {error}") from error

    def _target(self, resource: Resource) -> Target:
        """Raises BrokerError for a resource whose settings cannot be changed."""
        if resource.kind == ResourceKind.TOPIC:
            if not resource.name:
                raise BrokerError(ErrorCode.INVALID_REQUEST, "defaults of all topics are those of the brokers")
            if resource.name not in self._metadata.topics:
                raise _unknown_topic(resource.name)
            return Target(paths.topic_entity(resource.name), edit_topic, paths.topic(resource.name))
        if resource.kind == ResourceKind.BROKER:
            broker_id = self._broker_id if resource.name else None
            if resource.name:
                check_broker_name(resource.name, self._broker_id)
            layer = ConfigSource.DYNAMIC_BROKER if resource.name else ConfigSource.DYNAMIC_DEFAULT_BROKER
            return Target(paths.broker_entity(broker_id), partial(self._edit_broker, layer), None)
        if resource.kind == ResourceKind.GROUP:
            if not resource.name:
                raise BrokerError(ErrorCode.INVALID_REQUEST, "defaults of all groups are those of the brokers")
            return Target(group_entity(resource.name), self._edit_group, None)
        if resource.kind == ResourceKind.CLIENT_METRICS:
            if not resource.name:
                raise BrokerError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
            return Target(client_metrics_entity(resource.name), partial(edit_client_metrics, resource.name), None)
        raise BrokerError(ErrorCode.INVALID_REQUEST, f"{describe_kind(resource.kind)} cannot be changed here")

    def _edit_group(self, entries: Mapping[str, str], edits: Sequence[Edit]) -> dict[str, str]:
        return edit_group(entries, edits, self._dynamic.config)

    def _edit_broker(self, layer: ConfigSource, entries: Mapping[str, str], edits: Sequence[Edit]) -> dict[str, str]:
        edited = edit_broker(
            entries, edits, is_default=layer is ConfigSource.DYNAMIC_DEFAULT_BROKER, encoder=self._dynamic.encoder
        )
        try:
            self._dynamic.check(layer, edited)
        except ConfigError as error:
            raise BrokerError(ErrorCode.INVALID_REQUEST, str(error)) from None
        return edited


def check_broker_name(name: str, broker_id: BrokerId) -> None:
    """Raise BrokerError INVALID_REQUEST unless `name` is this broker's number."""
    if not (name.isascii() and name.isdigit()):
        raise BrokerError(ErrorCode.INVALID_REQUEST, f"a broker is named by its number, not by {name!r}")
    if name.lstrip("0") != str(broker_id).lstrip("0"):  # As text: Python does not parse numbers with very many digits.
        raise BrokerError(ErrorCode.INVALID_REQUEST, f"this is broker {broker_id}; send the request to broker {name}")


def describe_kind(kind: int) -> str:
    """A resource type in words, for an error text."""
    try:
        return f"settings of resource type {kind} ({ResourceKind(kind).name.lower().replace('_', ' ')})"
    except ValueError:
        return f"settings of the unknown resource type {kind}"


def _edited(edit: EditEntries, edits: Sequence[Edit], entries: Mapping[str, str], *, replace: bool) -> dict[str, str]:
    return edit({} if replace else entries, edits)


def _unknown_topic(name: str) -> BrokerError:
    return BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
