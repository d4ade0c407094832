"""AlterConfigs, IncrementalAlterConfigs and ListConfigResources (KIP-133, KIP-339, KIP-1142)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from sordini.broker.administration.config_admin import ConfigAdmin
from sordini.broker.administration.configs_rule import ConfigsRule
from sordini.broker.configuration.client_metrics_configs import ClientMetricsConfigs
from sordini.broker.configuration.edits import Edit, Operation
from sordini.broker.configuration.group_configs import GroupConfigs
from sordini.broker.configuration.resources import Resource, ResourceKind
from sordini.broker.network.ports import DelayedResponse
from sordini.broker.requests.call import Call, RespondLater, Route
from sordini.broker.requests.slice_scheduler import SliceScheduler, Work
from sordini.broker.security.rules.simple_rules import on_cluster
from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from sordini.protocol.messages.incremental_alter_configs import (
    AlterableConfig as IncrementallyAlterableConfig,
)
from sordini.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource as IncrementalAlterConfigsResource,
)
from sordini.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from sordini.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from sordini.replication.metadata_store.acl_model import AclOperation

RESOURCES_MAX = 10_000
"""Resources that one request may change."""
EDITS_MAX = 2_000
"""Settings of one resource that one request may change: many times the number of settings."""
CHANGE_STEPS = 20
"""Steps to change one resource, or to reject it."""
EDIT_STEPS = 2
"""Steps of each of its settings."""

AlterRequest = AlterConfigsRequest | IncrementalAlterConfigsRequest


class AlterConfigsHandler:
    """Each resource is changed, or rejected, by itself."""

    def __init__(
        self,
        admin: ConfigAdmin,
        metadata: MetadataCache,
        groups: GroupConfigs,
        client_metrics: ClientMetricsConfigs,
        later: RespondLater,
        slices: SliceScheduler,
    ) -> None:
        self._slices = slices
        self._admin = admin
        self._metadata = metadata
        self._groups = groups
        self._client_metrics = client_metrics
        self._later = later

    def routes(self) -> list[Route]:
        return [
            Route(
                ApiKey.ALTER_CONFIGS,
                self.alter,
                self.alter_error_response,
                ConfigsRule(AclOperation.ALTER_CONFIGS, "responses"),
            ),
            Route(
                ApiKey.INCREMENTAL_ALTER_CONFIGS,
                self.alter_incrementally,
                self.alter_incrementally_error_response,
                ConfigsRule(AclOperation.ALTER_CONFIGS, "responses"),
            ),
            Route(
                ApiKey.LIST_CONFIG_RESOURCES,
                self.list,
                self.list_error_response,
                on_cluster(AclOperation.DESCRIBE_CONFIGS),
            ),
        ]

    def alter(self, call: Call) -> DelayedResponse:
        return self._later(call, self._alter(call.body))

    async def _alter(self, request: AlterConfigsRequest) -> AlterConfigsResponse:
        return AlterConfigsResponse(responses=await self._carry_out(request, replace=True))

    def alter_incrementally(self, call: Call) -> DelayedResponse:
        return self._later(call, self._alter_incrementally(call.body))

    async def _alter_incrementally(self, request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
        return IncrementalAlterConfigsResponse(responses=await self._carry_out(request, replace=False))

    async def _carry_out(self, request: AlterRequest, *, replace: bool) -> list[AlterConfigsResourceResponse]:
        if len(request.resources) > RESOURCES_MAX:
            raise BrokerError(ErrorCode.POLICY_VIOLATION, f"more than {RESOURCES_MAX} resources in one request")
        counts = Counter((wanted.resource_type, wanted.resource_name) for wanted in request.resources)
        answers = []
        wanted: AlterConfigsResource | IncrementalAlterConfigsResource
        async for wanted in self._slices.paced([*request.resources], steps_each=_steps_of):
            resource = Resource(wanted.resource_type, wanted.resource_name)
            if len(wanted.configs) > EDITS_MAX:
                reason = f"{len(wanted.configs)} settings of one resource; a request may change {EDITS_MAX}"
                answers.append(_answer(resource.kind, resource.name, ErrorCode.POLICY_VIOLATION, reason))
                continue
            edits = [_edit(entry) for entry in wanted.configs]
            is_repeated = counts[resource] > 1
            answers.append(
                await self._change(
                    resource,
                    edits,
                    is_repeated=is_repeated,
                    replace=replace,
                    validate_only=request.validate_only,
                )
            )
        return answers

    async def _change(
        self, resource: Resource, edits: Sequence[Edit], *, is_repeated: bool, replace: bool, validate_only: bool
    ) -> AlterConfigsResourceResponse:
        try:
            if is_repeated:
                raise BrokerError(ErrorCode.INVALID_REQUEST, "the resource is named more than once in this request")
            if resource.kind == ResourceKind.GROUP:
                self._groups.check_room(resource.name)
            if resource.kind == ResourceKind.CLIENT_METRICS:
                self._client_metrics.check_room(resource.name)
            await self._admin.alter(resource, edits, replace=replace, validate_only=validate_only)
        except BrokerError as error:
            return _answer(resource.kind, resource.name, error.code, str(error))
        return _answer(resource.kind, resource.name, ErrorCode.NONE, None)

    def list(self, call: Call) -> Work[ListConfigResourcesResponse]:
        request: ListConfigResourcesRequest = call.body
        brokers = [str(broker_id) for broker_id in sorted(self._metadata.brokers)]
        found = {
            ResourceKind.TOPIC: sorted(self._metadata.topics),
            ResourceKind.BROKER: brokers,
            ResourceKind.BROKER_LOGGER: brokers,
            ResourceKind.CLIENT_METRICS: self._client_metrics.names,
            ResourceKind.GROUP: self._groups.group_ids,
        }
        wanted = dict.fromkeys(request.resource_types) if call.version >= 1 else [ResourceKind.CLIENT_METRICS]
        for kind in wanted:
            if kind not in found:
                raise BrokerError(ErrorCode.UNSUPPORTED_VERSION, f"unknown resource type {kind}")
        response = ListConfigResourcesResponse()
        for kind, names in found.items():
            for name in names if not wanted or kind in wanted else ():
                response.config_resources.append(ConfigResource(resource_name=name, resource_type=kind))
                yield 1
        return response

    @staticmethod
    def alter_error_response(request: AlterConfigsRequest, code: ErrorCode) -> AlterConfigsResponse:
        return AlterConfigsResponse(responses=_refusals(request, code))

    @staticmethod
    def alter_incrementally_error_response(
        request: IncrementalAlterConfigsRequest, code: ErrorCode
    ) -> IncrementalAlterConfigsResponse:
        return IncrementalAlterConfigsResponse(responses=_refusals(request, code))

    @staticmethod
    def list_error_response(_: ListConfigResourcesRequest, code: ErrorCode) -> ListConfigResourcesResponse:
        return ListConfigResourcesResponse(error_code=code)


def _steps_of(wanted: AlterConfigsResource | IncrementalAlterConfigsResource) -> int:
    return CHANGE_STEPS + min(len(wanted.configs), EDITS_MAX) * EDIT_STEPS


def _edit(entry: AlterableConfig | IncrementallyAlterableConfig) -> Edit:
    """The edit of one key; in an AlterConfigs request it is a set."""
    operation = Operation.SET if isinstance(entry, AlterableConfig) else entry.config_operation
    return Edit(entry.name, operation, entry.value)


def _answer(kind: int, name: str, code: ErrorCode, reason: str | None) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(error_code=code, error_message=reason, resource_type=kind, resource_name=name)


def _refusals(request: AlterRequest, code: ErrorCode) -> list[AlterConfigsResourceResponse]:
    return [_answer(resource.resource_type, resource.resource_name, code, None) for resource in request.resources]
