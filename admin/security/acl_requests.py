"""The requests of `sordini acls`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from sordini.admin.cluster_client import ClusterClient, error_text
from sordini.admin.failure import Failure
from sordini.client.errors import Refused, check
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from sordini.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from sordini.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from sordini.replication.metadata_store.acl_model import (
    STORED_OPERATIONS,
    AclBinding,
    AclFilter,
    AclOperation,
    PatternType,
    Permission,
    ResourceType,
)

FIRST_WITH_PATTERNS: Final = 1
NAME_OF: Final = {operation: name for name, operation in STORED_OPERATIONS.items()}
SUBJECT: Final = "the access control entries"
NO_AUTHORIZER: Final = "the cluster has no authorizer (authorizer.class.name)"

Row = dict[str, Any]


async def list_acls(cluster: ClusterClient, filters: Sequence[AclFilter]) -> list[Row]:
    """The entries that any of the filters selects."""
    found: list[Row] = []
    for wanted in filters:
        answer = await cluster.retry(lambda wanted=wanted: _described(cluster, wanted))  # type: ignore[misc]
        for resource in answer.resources:
            for entry in resource.acls:
                row = _row(resource, entry)
                if row not in found:
                    found.append(row)
    return sorted(found, key=lambda row: tuple(map(str, row.values())))


async def _described(cluster: ClusterClient, wanted: AclFilter) -> DescribeAclsResponse:
    request = DescribeAclsRequest(
        resource_type_filter=wanted.resource_type,
        resource_name_filter=wanted.name,
        pattern_type_filter=wanted.pattern_type,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission,
    )
    link = await cluster.any_broker()
    answer: DescribeAclsResponse = await link.ask(request, at_least=FIRST_WITH_PATTERNS)
    _check_enabled(answer.error_code)
    check(SUBJECT, answer.error_code, answer.error_message)
    return answer


async def add_acls(cluster: ClusterClient, bindings: Sequence[AclBinding]) -> list[Row]:
    """Add entries; a row for each, with its error. Adding one that is there changes nothing."""
    request = CreateAclsRequest(
        creations=[
            AclCreation(
                resource_type=pattern.resource_type,
                resource_name=pattern.name,
                resource_pattern_type=pattern.pattern_type,
                principal=entry.principal,
                host=entry.host,
                operation=entry.operation,
                permission_type=entry.permission,
            )
            for pattern, entry in bindings
        ]
    )

    async def attempt() -> CreateAclsResponse:
        link = await cluster.controller()
        answer: CreateAclsResponse = await link.ask(request, at_least=FIRST_WITH_PATTERNS)
        _check_codes(row.error_code for row in answer.results)
        return answer

    answer = await cluster.retry(attempt)
    if len(answer.results) != len(bindings):
        raise Failure(f"the broker's answer has {len(answer.results)} rows for {len(bindings)} entries")
    return [
        binding_row(binding) | {"error": error_text(_words(binding), row.error_code, row.error_message)}
        for binding, row in zip(bindings, answer.results, strict=True)
    ]


async def remove_acls(cluster: ClusterClient, filters: Sequence[AclFilter]) -> list[Row]:
    """Remove the entries that the filters select; a row for each that was there, with its error."""
    request = DeleteAclsRequest(
        filters=[
            DeleteAclsFilter(
                resource_type_filter=one.resource_type,
                resource_name_filter=one.name,
                pattern_type_filter=one.pattern_type,
                principal_filter=one.principal,
                host_filter=one.host,
                operation=one.operation,
                permission_type=one.permission,
            )
            for one in filters
        ]
    )

    async def attempt() -> DeleteAclsResponse:
        link = await cluster.controller()
        answer: DeleteAclsResponse = await link.ask(request, at_least=FIRST_WITH_PATTERNS)
        _check_codes(row.error_code for row in answer.filter_results)
        for result in answer.filter_results:
            check(SUBJECT, result.error_code, result.error_message)
        return answer

    answer = await cluster.retry(attempt)
    rows: list[Row] = []
    for result in answer.filter_results:
        for found in result.matching_acls:
            error = error_text(SUBJECT, found.error_code, found.error_message)
            row = _row(found, found) | {"error": error}
            if row not in rows:
                rows.append(row)
    return rows


def binding_row(binding: AclBinding) -> Row:
    """A binding as commands print it."""
    pattern, entry = binding
    return {
        "type": pattern.resource_type.name.lower(),
        "name": pattern.name,
        "pattern": pattern.pattern_type.name.lower(),
        "principal": entry.principal,
        "host": entry.host,
        "operation": NAME_OF[entry.operation],
        "permission": entry.permission.name.lower(),
    }


def _row(resource: Any, entry: Any) -> Row:
    """The same of a response."""
    return {
        "type": _name(ResourceType, resource.resource_type),
        "name": resource.resource_name,
        "pattern": _name(PatternType, resource.pattern_type),
        "principal": entry.principal,
        "host": entry.host,
        "operation": _operation(entry.operation),
        "permission": _name(Permission, entry.permission_type),
    }


def _name(kind: Any, number: int) -> str:
    name: str = kind(number).name.lower() if number in kind._value2member_map_ else str(number)
    return name


def _operation(number: int) -> str:
    known = {int(operation): name for operation, name in NAME_OF.items()}
    return known.get(number, str(number))


def _words(binding: AclBinding) -> str:
    return f"{binding.entry.principal} for {binding.pattern.resource_type.name.lower()} '{binding.pattern.name}'"


def _check_codes(codes: Iterable[int]) -> None:
    """Raise what `retry` tries again after, and the refusal of all rows."""
    for code in codes:
        _check_enabled(code)
        if code in (ErrorCode.NOT_CONTROLLER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED):
            raise Refused(SUBJECT, code)


def _check_enabled(code: int) -> None:
    if code == ErrorCode.SECURITY_DISABLED:
        raise Refused(SUBJECT, code, NO_AUTHORIZER)


def operation_of(text: str) -> AclOperation | None:
    """An operation by its name, in any case: `Read`, `DescribeConfigs`, `DESCRIBE_CONFIGS`."""
    wanted = text.replace("_", "").lower()
    return next((operation for operation, name in NAME_OF.items() if name.lower() == wanted), None)
