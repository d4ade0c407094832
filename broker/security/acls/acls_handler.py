"""CreateAcls, DescribeAcls and DeleteAcls: access control entries (KIP-140, KIP-290).

Without an authorizer all three are answered with SECURITY_DISABLED, as Apache Kafka answers them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import partial
from itertools import groupby
from typing import Any, Final

from sordini.broker.network.ports import DelayedResponse
from sordini.broker.requests.call import Call, RespondLater, Route
from sordini.broker.security.acls.acl_store import AclStore
from sordini.broker.security.rules.simple_rules import on_cluster
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from sordini.protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from sordini.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from sordini.replication.metadata_store.acl_model import (
    CLUSTER_NAME,
    STORED_OPERATIONS,
    STORED_PATTERN_TYPES,
    STORED_PERMISSIONS,
    STORED_TYPES,
    WILDCARD,
    AclBinding,
    AclEntry,
    AclFilter,
    AclOperation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)

NO_AUTHORIZER: Final = "No Authorizer is configured on the broker"
FIRST_VERSION_WITH_PATTERNS: Final = 1
CREATIONS_MAX: Final = 10_000
"""Entries or filters of one request."""


class AclsHandler:
    """Serves the requests; `store` is None without an authorizer."""

    def __init__(self, store: AclStore | None, later: RespondLater) -> None:
        self._store = store
        self._later = later

    def routes(self) -> list[Route]:
        return [
            Route(ApiKey.DESCRIBE_ACLS, self.describe, self.describe_error_response, on_cluster(AclOperation.DESCRIBE)),
            Route(ApiKey.CREATE_ACLS, self.create, self.create_error_response, on_cluster(AclOperation.ALTER)),
            Route(ApiKey.DELETE_ACLS, self.delete, self.delete_error_response, on_cluster(AclOperation.ALTER)),
        ]

    # DescribeAcls.

    def describe(self, call: Call) -> DescribeAclsResponse:
        store = self._enabled()
        self._require(call, AclOperation.DESCRIBE)
        request: DescribeAclsRequest = call.body
        wanted = _filter(request, call.version)
        bindings = list(store.authorizer.bindings(wanted))
        if call.version < FIRST_VERSION_WITH_PATTERNS and any(
            binding.pattern.pattern_type is not PatternType.LITERAL for binding in bindings
        ):
            raise BrokerError(ErrorCode.UNSUPPORTED_VERSION, "version 0 supports literal patterns only")
        return DescribeAclsResponse(
            error_message=None,
            resources=[
                DescribeAclsResource(
                    resource_type=pattern.resource_type,
                    resource_name=pattern.name,
                    pattern_type=pattern.pattern_type,
                    acls=[
                        AclDescription(
                            principal=entry.principal,
                            host=entry.host,
                            operation=entry.operation,
                            permission_type=entry.permission,
                        )
                        for _, entry in some
                    ],
                )
                for pattern, some in groupby(bindings, lambda binding: binding.pattern)
            ],
        )

    @staticmethod
    def describe_error_response(_request: DescribeAclsRequest, code: ErrorCode) -> DescribeAclsResponse:
        return DescribeAclsResponse(error_code=code, error_message=_message(code))

    # CreateAcls.

    def create(self, call: Call) -> DelayedResponse:
        store = self._enabled()
        self._require(call, AclOperation.ALTER)
        _check_count(call.body.creations)
        return self._later(call, _create(store, call.body.creations))

    @staticmethod
    def create_error_response(request: CreateAclsRequest, code: ErrorCode) -> CreateAclsResponse:
        message = _message(code)
        return CreateAclsResponse(
            results=[AclCreationResult(error_code=code, error_message=message) for _ in request.creations]
        )

    # DeleteAcls.

    def delete(self, call: Call) -> DelayedResponse:
        store = self._enabled()
        self._require(call, AclOperation.ALTER)
        _check_count(call.body.filters)
        return self._later(call, _delete(store, call.body.filters, call.version))

    @staticmethod
    def delete_error_response(request: DeleteAclsRequest, code: ErrorCode) -> DeleteAclsResponse:
        message = _message(code)
        return DeleteAclsResponse(
            filter_results=[DeleteAclsFilterResult(error_code=code, error_message=message) for _ in request.filters]
        )

    def _enabled(self) -> AclStore:
        if self._store is None:
            raise BrokerError(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
        return self._store

    def _require(self, call: Call, operation: AclOperation) -> None:
        """Raise BrokerError unless the peer may do this to the cluster."""
        authorizer = self._enabled().authorizer
        if not authorizer.allows(call.peer, operation, ResourceType.CLUSTER, CLUSTER_NAME):
            raise BrokerError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, f"{call.peer.principal} may not do this")


def _check_count(elements: list[Any]) -> None:
    if len(elements) > CREATIONS_MAX:
        raise BrokerError(ErrorCode.INVALID_REQUEST, f"one request has at most {CREATIONS_MAX} entries or filters")


def _message(code: ErrorCode) -> str:
    return NO_AUTHORIZER if code is ErrorCode.SECURITY_DISABLED else code.name


async def _create(store: AclStore, creations: list[AclCreation]) -> CreateAclsResponse:
    """Add the entries, those of one pattern in one write."""
    results = [AclCreationResult(error_message=None) for _ in creations]
    by_pattern: dict[ResourcePattern, list[tuple[int, AclEntry]]] = defaultdict(list)
    for index, creation in enumerate(creations):
        try:
            pattern, entry = binding_of(creation)
        except BrokerError as error:
            results[index] = AclCreationResult(error_code=error.code, error_message=str(error))
        else:
            by_pattern[pattern].append((index, entry))
    for pattern, rows in by_pattern.items():
        try:
            await store.change(pattern, frozenset(entry for _, entry in rows).union)
        except BrokerError as error:
            for index, _ in rows:
                results[index] = AclCreationResult(error_code=error.code, error_message=str(error))
    return CreateAclsResponse(results=results)


def binding_of(creation: AclCreation) -> AclBinding:
    """The binding that a request names. Raises BrokerError INVALID_REQUEST for one that cannot be stored."""
    resource_type, operation = creation.resource_type, creation.operation
    pattern_type, permission = creation.resource_pattern_type, creation.permission_type
    if resource_type not in STORED_TYPES.values():
        raise _invalid(f"resource type {resource_type} is not one of a single type")
    if pattern_type not in STORED_PATTERN_TYPES:
        raise _invalid(f"pattern type {pattern_type} is neither LITERAL nor PREFIXED")
    if operation not in STORED_OPERATIONS.values():
        raise _invalid(f"operation {operation} is not one operation")
    if permission not in STORED_PERMISSIONS.values():
        raise _invalid(f"permission type {permission} is neither ALLOW nor DENY")
    if resource_type == ResourceType.CLUSTER and creation.resource_name != CLUSTER_NAME:
        raise _invalid(f"the only name for the CLUSTER resource type is {CLUSTER_NAME}")
    if not creation.resource_name:
        raise _invalid("a resource has a name")
    kind, separator, name = creation.principal.partition(":")
    if not separator or not kind or not name:
        raise _invalid(f"the principal {creation.principal!r} is not of the form TYPE:NAME")
    pattern = ResourcePattern(ResourceType(resource_type), creation.resource_name, PatternType(pattern_type))
    host = creation.host or WILDCARD
    return AclBinding(pattern, AclEntry(creation.principal, host, AclOperation(operation), Permission(permission)))


def _invalid(text: str) -> BrokerError:
    return BrokerError(ErrorCode.INVALID_REQUEST, text)


async def _delete(store: AclStore, filters: list[DeleteAclsFilter], version: int) -> DeleteAclsResponse:
    """Remove what each filter selects; a binding that several filters select is reported for each."""
    results: list[DeleteAclsFilterResult] = []
    selected: list[list[AclBinding]] = []
    for row in filters:
        try:
            selected.append(list(store.authorizer.bindings(_filter(row, version))))
        except BrokerError as error:
            selected.append([])
            results.append(DeleteAclsFilterResult(error_code=error.code, error_message=str(error)))
        else:
            results.append(DeleteAclsFilterResult(error_message=None))
    failed = await _remove(store, {binding for some in selected for binding in some})
    for result, some in zip(results, selected, strict=True):
        result.matching_acls = [_matching(binding, failed.get(binding.pattern)) for binding in some]
    return DeleteAclsResponse(filter_results=results)


async def _remove(store: AclStore, bindings: Iterable[AclBinding]) -> dict[ResourcePattern, BrokerError]:
    """Remove bindings, those of one pattern in one write; the errors by pattern."""
    by_pattern: dict[ResourcePattern, set[AclEntry]] = defaultdict(set)
    for pattern, entry in bindings:
        by_pattern[pattern].add(entry)
    failed: dict[ResourcePattern, BrokerError] = {}
    for pattern, removed in by_pattern.items():
        try:
            await store.change(pattern, partial(_without, removed))
        except BrokerError as error:
            failed[pattern] = error
    return failed


def _without(removed: set[AclEntry], found: frozenset[AclEntry]) -> frozenset[AclEntry]:
    return found - removed


def _matching(binding: AclBinding, error: BrokerError | None) -> DeleteAclsMatchingAcl:
    pattern, entry = binding
    return DeleteAclsMatchingAcl(
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else str(error),
        resource_type=pattern.resource_type,
        resource_name=pattern.name,
        pattern_type=pattern.pattern_type,
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation,
        permission_type=entry.permission,
    )


def _filter(row: DescribeAclsRequest | DeleteAclsFilter, version: int) -> AclFilter:
    """Raises BrokerError INVALID_REQUEST for a number that means nothing."""
    # Version 0 knows no patterns: its filters select literal ones.
    pattern_type = row.pattern_type_filter if version >= FIRST_VERSION_WITH_PATTERNS else PatternType.LITERAL
    wanted = AclFilter(
        row.resource_type_filter,
        row.resource_name_filter,
        pattern_type,
        row.principal_filter,
        row.host_filter,
        row.operation,
        row.permission_type,
    )
    if not wanted.is_known:
        raise _invalid("the filter contains an unknown element")
    return wanted
