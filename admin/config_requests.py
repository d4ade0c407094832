"""DescribeConfigs and IncrementalAlterConfigs requests, for `sordini configs` and for the settings of topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sordini.admin.cluster_client import ClusterClient, check_topic
from sordini.client.cluster import Link
from sordini.client.errors import check, only_row
from sordini.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from sordini.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from sordini.system.named_tuple import NamedTuple

TOPIC: Final = 2
BROKER: Final = 4
GROUP: Final = 32
CLIENT_METRICS: Final = 16

DEFAULT: Final = "default"
_SOURCES: Final = {
    1: "topic",
    2: "broker",
    3: "cluster default",
    4: "server.properties",
    5: DEFAULT,
    6: "broker logger",
    7: "client metrics",
    8: "group",
}
_TYPES: Final = {
    1: "boolean",
    2: "string",
    3: "int",
    4: "short",
    5: "long",
    6: "double",
    7: "list",
    8: "class",
    9: "password",
}
_SET, _DELETE, _APPEND, _SUBTRACT = 0, 1, 2, 3
_OPERATIONS: Final = {"": _SET, "+": _APPEND, "-": _SUBTRACT}


class Resource(NamedTuple):
    """A topic, a group, a subscription to client metrics, or a broker; one without a name is all brokers' default."""

    kind: int
    name: str

    def __str__(self) -> str:
        if self.kind == TOPIC:
            return f"topic '{self.name}'"
        if self.kind == GROUP:
            return f"group '{self.name}'"
        if self.kind == CLIENT_METRICS:
            return f"client metrics '{self.name}'"
        return f"broker {self.name}" if self.name else "the cluster default"


async def describe_configs(cluster: ClusterClient, resources: Sequence[Resource]) -> list[list[dict[str, Any]]]:
    """The settings of each resource, sorted by key, defaults included."""

    async def attempt() -> list[list[dict[str, Any]]]:
        return [await _describe(await _link_for(cluster, resource), resource) for resource in resources]

    return await cluster.retry(attempt)


async def alter_configs(
    cluster: ClusterClient,
    resources: Sequence[Resource],
    changes: Sequence[tuple[str, str, str]],
    unset: Sequence[str],
    *,
    validate_only: bool,
) -> None:
    """Set (key, sign, value) and remove keys, on each resource; other keys stay."""
    rows = [AlterableConfig(name=key, config_operation=_OPERATIONS[sign], value=value) for key, sign, value in changes]
    rows += [AlterableConfig(name=key, config_operation=_DELETE, value=None) for key in unset]
    for resource in resources:

        async def attempt(resource: Resource = resource) -> None:
            resource_row = AlterConfigsResource(resource_type=resource.kind, resource_name=resource.name, configs=rows)
            request = IncrementalAlterConfigsRequest(resources=[resource_row], validate_only=validate_only)
            answer: IncrementalAlterConfigsResponse = await (await _link_for(cluster, resource)).ask(request)
            result = only_row(answer.responses, str(resource))
            _check(resource, result.error_code, result.error_message)

        await cluster.retry(attempt)


async def _link_for(cluster: ClusterClient, resource: Resource) -> Link:
    """A broker's settings are described and altered by that broker only."""
    if resource.kind == BROKER and resource.name:
        return await cluster.broker(int(resource.name))
    return await cluster.any_broker()


async def _describe(link: Link, resource: Resource) -> list[dict[str, Any]]:
    resource_row = DescribeConfigsResource(
        resource_type=resource.kind, resource_name=resource.name, configuration_keys=None
    )
    request = DescribeConfigsRequest(resources=[resource_row], include_synonyms=True, include_documentation=True)
    answer: DescribeConfigsResponse = await link.ask(request)
    result = only_row(answer.results, str(resource))
    _check(resource, result.error_code, result.error_message)
    return sorted((_row(config) for config in result.configs), key=lambda row: str(row["key"]))


def _check(resource: Resource, code: int, reason: str | None) -> None:
    if resource.kind == TOPIC:
        check_topic(resource.name, code, reason)
    check(str(resource), code, reason)


def _row(config: DescribeConfigsResourceResult) -> dict[str, Any]:
    return {
        "key": config.name,
        "value": config.value,
        "source": _SOURCES.get(config.config_source, "unknown"),
        "type": _TYPES.get(config.config_type),
        "sensitive": config.is_sensitive,
        "read_only": config.read_only,
        "synonyms": [
            {"key": other.name, "value": other.value, "source": _SOURCES.get(other.source, "unknown")}
            for other in config.synonyms
        ],
        "documentation": config.documentation or None,
    }
