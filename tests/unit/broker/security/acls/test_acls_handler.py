"""CreateAcls, DescribeAcls and DeleteAcls."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from sordini.broker.network.principal import Principal
from sordini.broker.security.acls import acls_handler
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from sordini.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from sordini.protocol.messages.describe_acls import DescribeAclsRequest
from sordini.replication.metadata_store.acl_model import AclOperation, PatternType, Permission, ResourceType
from tests.support.unit_broker import UnitBroker, a_broker

SETTINGS = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer", "super.users": "User:root"}
ANY_FILTER: dict[str, Any] = {
    "resource_type_filter": ResourceType.ANY,
    "resource_name_filter": None,
    "pattern_type_filter": PatternType.ANY,
    "principal_filter": None,
    "host_filter": None,
    "operation": AclOperation.ANY,
    "permission_type": Permission.ANY,
}


def creation(**changes: Any) -> AclCreation:
    plain: dict[str, Any] = {
        "resource_type": ResourceType.TOPIC,
        "resource_name": "orders",
        "principal": "User:alice",
        "host": "*",
        "operation": AclOperation.READ,
        "permission_type": Permission.ALLOW,
    }
    return AclCreation(**(plain | changes))


@asynccontextmanager
async def guarded(user: str = "root") -> AsyncIterator[UnitBroker]:
    async with a_broker(SETTINGS) as broker:
        broker.peer.principal = Principal("User", user)
        yield broker


async def create(broker: UnitBroker, *creations: AclCreation) -> list[int]:
    request = CreateAclsRequest(creations=list(creations))
    answer = await broker.ask_later(ApiKey.CREATE_ACLS, 3, request)
    return [result.error_code for result in answer.results]


def described(broker: UnitBroker, version: int = 3, **changes: Any) -> set[tuple[str, int, str, int]]:
    answer = broker.ask(ApiKey.DESCRIBE_ACLS, version, DescribeAclsRequest(**(ANY_FILTER | changes)))
    assert answer.error_code == ErrorCode.NONE
    return {
        (resource.resource_name, resource.pattern_type, one.principal, one.operation)
        for resource in answer.resources
        for one in resource.acls
    }


async def delete(broker: UnitBroker, *filters: dict[str, Any]) -> Any:
    request = DeleteAclsRequest(filters=[DeleteAclsFilter(**(ANY_FILTER | one)) for one in filters])
    return (await broker.ask_later(ApiKey.DELETE_ACLS, 3, request)).filter_results


async def test_entries_are_added_described_and_removed() -> None:
    async with guarded() as broker:
        prefixed = creation(resource_name="ord", resource_pattern_type=PatternType.PREFIXED)
        assert await create(broker, creation(), creation(operation=AclOperation.WRITE), prefixed) == [0, 0, 0]
        assert described(broker) == {
            ("orders", PatternType.LITERAL, "User:alice", AclOperation.READ),
            ("orders", PatternType.LITERAL, "User:alice", AclOperation.WRITE),
            ("ord", PatternType.PREFIXED, "User:alice", AclOperation.READ),
        }
        assert len(described(broker, resource_name_filter="orders", pattern_type_filter=PatternType.MATCH)) == 3
        one, other = await delete(broker, {"operation": AclOperation.READ}, {"principal_filter": "User:bob"})
        assert {row.resource_name for row in one.matching_acls} == {"ord", "orders"}
        assert [row.error_code for row in one.matching_acls] == [0, 0]
        assert other.matching_acls == []
        assert described(broker) == {("orders", PatternType.LITERAL, "User:alice", AclOperation.WRITE)}


async def test_an_entry_is_in_force_when_it_is_answered() -> None:
    async with guarded() as broker:
        assert broker.parts.security.acls is not None
        decide = broker.parts.security.acls.authorizer.decide
        question = Principal("User", "alice"), "192.0.2.1", AclOperation.READ, ResourceType.TOPIC, "orders"
        assert not decide(*question)
        await create(broker, creation())
        assert decide(*question)
        await delete(broker, {})
        assert not decide(*question)


@pytest.mark.parametrize(
    "wrong",
    [
        {"resource_type": ResourceType.ANY},
        {"resource_type": 99},
        {"resource_pattern_type": PatternType.MATCH},
        {"operation": AclOperation.ANY},
        {"operation": AclOperation.UNKNOWN},
        {"permission_type": Permission.ANY},
        {"resource_name": ""},
        {"resource_name": "a/b"},
        {"resource_type": ResourceType.CLUSTER, "resource_name": "my-cluster"},
        {"principal": "alice"},
        {"principal": "User:"},
    ],
)
async def test_an_entry_that_makes_no_sense_is_refused_and_the_others_added(wrong: dict[str, Any]) -> None:
    async with guarded() as broker:
        assert await create(broker, creation(**wrong), creation()) == [ErrorCode.INVALID_REQUEST, 0]
        assert len(described(broker)) == 1


async def test_a_filter_with_an_unknown_number_is_refused() -> None:
    async with guarded() as broker:
        answer = broker.ask(ApiKey.DESCRIBE_ACLS, 3, DescribeAclsRequest(**(ANY_FILTER | {"operation": 77})))
        assert answer.error_code == ErrorCode.INVALID_REQUEST
        [wrong, right] = await delete(broker, {"permission_type": 0}, {})
        assert (wrong.error_code, right.error_code) == (ErrorCode.INVALID_REQUEST, 0)


async def test_version_0_knows_literal_patterns_only() -> None:
    async with guarded() as broker:
        await create(broker, creation(), creation(resource_pattern_type=PatternType.PREFIXED))
        assert {kind for _, kind, *_ in described(broker, version=0)} == {PatternType.LITERAL}
        assert len(described(broker, version=0)) == 1


async def test_only_whom_the_cluster_allows_to_alter_it_changes_entries() -> None:
    async with guarded("alice") as broker:
        requests: Iterable[tuple[ApiKey, Any]] = (
            (ApiKey.CREATE_ACLS, CreateAclsRequest(creations=[creation()])),
            (ApiKey.DELETE_ACLS, DeleteAclsRequest(filters=[DeleteAclsFilter(**ANY_FILTER)])),
        )
        for key, request in requests:
            answer = broker.ask(key, 3, request)
            rows = answer.results if key is ApiKey.CREATE_ACLS else answer.filter_results
            assert [row.error_code for row in rows] == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
        answer = broker.ask(ApiKey.DESCRIBE_ACLS, 3, DescribeAclsRequest(**ANY_FILTER))
        assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


async def test_without_an_authorizer_there_are_no_entries() -> None:
    async with a_broker() as broker:
        answer = broker.ask(ApiKey.DESCRIBE_ACLS, 2, DescribeAclsRequest(**ANY_FILTER))
        assert (answer.error_code, answer.error_message) == (
            ErrorCode.SECURITY_DISABLED,
            "No Authorizer is configured on the broker",
        )
        created = broker.ask(ApiKey.CREATE_ACLS, 2, CreateAclsRequest(creations=[creation()]))
        assert [result.error_code for result in created.results] == [ErrorCode.SECURITY_DISABLED]


async def test_a_request_of_more_entries_or_filters_than_allowed_is_refused_as_a_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(acls_handler, "CREATIONS_MAX", 2)
    async with guarded() as broker:
        three = [creation(resource_name=name) for name in ("a", "b", "c")]
        refused = broker.ask(ApiKey.CREATE_ACLS, 3, CreateAclsRequest(creations=three))
        assert [row.error_code for row in refused.results] == [ErrorCode.INVALID_REQUEST] * 3
        assert described(broker) == set()
        assert await create(broker, *three[:2]) == [0, 0]
        filters = [DeleteAclsFilter(**ANY_FILTER) for _ in range(3)]
        refused = broker.ask(ApiKey.DELETE_ACLS, 3, DeleteAclsRequest(filters=filters))
        assert [row.error_code for row in refused.filter_results] == [ErrorCode.INVALID_REQUEST] * 3
        assert len(described(broker)) == 2
