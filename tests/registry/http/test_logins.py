"""Visitors that log in as users of a cluster: their passwords, their tokens, and what the cluster lets them do."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Iterator
from functools import partial

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from sordini.admin.cluster_client import ClusterClient
from sordini.client.addresses import parse_bootstrap
from sordini.client.authentication import SaslCredentials
from sordini.client.cluster_core import Access
from sordini.client.sockets import connect_with
from sordini.registry.http.calls import Operation
from sordini.registry.http.logins import SESSION_S, ClusterLogins, credentials_of, token_subject, topic_of
from sordini.registry.state.refusals import Refusal
from sordini.testing import Kafka, Sasl, make_kafka

PASSWORDS = {"admin": "admin-secret", "alice": "alice-secret", "bob": "bob-secret"}


def basic(name: str, password: str) -> dict[str, str]:
    return {"authorization": "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()}


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    config = {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:admin;User:ANONYMOUS",
    }
    with make_kafka(config=config, sasl=Sasl(PASSWORDS, ["SCRAM-SHA-256"]), topics=["orders", "secrets"]) as kafka:
        admin = AdminClient(kafka.client_settings("admin"))
        rules = [
            (ResourceType.TOPIC, "orders", AclOperation.WRITE, ResourcePatternType.LITERAL),
            (ResourceType.TOPIC, "alice-", AclOperation.CREATE, ResourcePatternType.PREFIXED),
            (ResourceType.TOPIC, "alice-", AclOperation.DESCRIBE, ResourcePatternType.PREFIXED),
        ]
        made = [
            AclBinding(kind, name, pattern, "User:alice", "*", operation, AclPermissionType.ALLOW)
            for kind, name, operation, pattern in rules
        ]
        for result in admin.create_acls(made).values():
            result.result(10)
        yield kafka


def unlimited() -> None:
    """Logins fail as often as tests have them fail."""


class Clock:
    now_s = 0.0


@pytest.fixture
async def logins(kafka: Kafka) -> AsyncIterator[tuple[ClusterLogins, Clock]]:
    bootstrap, clock = tuple(parse_bootstrap(kafka.bootstrap_servers)), Clock()

    def opened(credentials: SaslCredentials) -> ClusterClient:
        return ClusterClient(Access(bootstrap, "test", lambda: credentials), partial(connect_with, None))

    made = ClusterLogins(opened, "SCRAM-SHA-256", lambda: clock.now_s)
    yield made, clock
    made.close()


Logins = tuple[ClusterLogins, Clock]


async def test_a_user_logs_in_with_its_password_and_with_no_other(logins: Logins) -> None:
    assert (await logins[0].visitor(basic("alice", "alice-secret"), unlimited)).principal == "alice"
    for wrong in (basic("alice", "guess"), basic("unknown", "alice-secret")):
        with pytest.raises(Refusal) as refused:
            await logins[0].visitor(wrong, unlimited)
        assert refused.value.status == 401


@pytest.mark.parametrize("header", ["", "Basic", "Basic !", "Basic YWxpY2U=", "Digest x", "Bearer ", "Basic 6Q=="])
def test_a_header_without_a_name_and_a_password_or_a_token_is_no_login(header: str) -> None:
    with pytest.raises(Refusal) as refused:
        credentials_of(header, "PLAIN")
    assert refused.value.status == 401


def test_a_bearer_token_is_presented_as_such() -> None:
    assert credentials_of("Bearer abc", "PLAIN") == SaslCredentials("OAUTHBEARER", "", "abc")


@pytest.mark.parametrize(
    ("payload", "principal"),
    [
        (b'{"sub":"alice"}', "alice"),
        (b'{"sub":"a\\nb"}', "bearer"),
        (b'{"sub":""}', "bearer"),
        (b'{"sub":7}', "bearer"),
        (b'{"sub":"' + b"a" * 201 + b'"}', "bearer"),
        (b"[]", "bearer"),
        (b"[" * 100_000, "bearer"),
        (b"\xff", "bearer"),
    ],
)
def test_log_lines_name_the_subject_of_a_token_where_it_is_a_name(payload: bytes, principal: str) -> None:
    token = f"header.{base64.urlsafe_b64encode(payload).rstrip(b'=').decode()}.signature"
    assert token_subject(token) == principal


@pytest.mark.parametrize("token", ["", "opaque", "a.b", "a.!.c", "..", "é.é.é"])
def test_an_opaque_token_has_no_name(token: str) -> None:
    assert token_subject(token) == "bearer"


async def test_a_token_that_the_cluster_takes_none_of_is_refused(logins: Logins) -> None:
    with pytest.raises(Refusal) as refused:
        await logins[0].visitor({"authorization": "Bearer abc"}, unlimited)
    assert refused.value.status == 401


async def test_requests_of_one_visitor_share_a_login_until_it_is_old(logins: Logins) -> None:
    made, clock = logins
    alice = basic("alice", "alice-secret")
    visitors = await asyncio.gather(*(made.visitor(alice, unlimited) for _ in range(5)))
    assert len({id(visitor) for visitor in visitors}) == 1
    clock.now_s += SESSION_S
    assert await made.visitor(alice, unlimited) is not visitors[0]


async def test_a_visitor_may_do_with_a_subject_what_it_may_do_with_its_topic(logins: Logins) -> None:
    alice = await logins[0].visitor(basic("alice", "alice-secret"), unlimited)
    subjects = {"orders-value", "orders-key", "orders", ":.x:orders-value", "secrets-value", "missing-value", "a b"}
    of_orders = {"orders-value", "orders-key", "orders", ":.x:orders-value"}
    assert await alice.allowed(Operation.READ, subjects) == of_orders
    assert await alice.allowed(Operation.WRITE, subjects) == of_orders
    assert await alice.allowed(Operation.DELETE, subjects) == frozenset()
    assert await alice.allowed(Operation.ALTER, subjects) == frozenset()
    assert not await alice.may_alter_all()


async def test_of_a_topic_that_is_not_there_one_that_may_create_it_may_do_all(logins: Logins, kafka: Kafka) -> None:
    alice = await logins[0].visitor(basic("alice", "alice-secret"), unlimited)
    bob = await logins[0].visitor(basic("bob", "bob-secret"), unlimited)
    for operation in Operation:
        assert await alice.allowed(operation, {"alice-new-value"}) == {"alice-new-value"}
        assert await bob.allowed(operation, {"alice-new-value"}) == frozenset()
    assert kafka.requests("CreateTopics") != []
    assert "alice-new" not in AdminClient(kafka.client_settings("admin")).list_topics(timeout=10).topics


async def test_a_super_user_may_do_everything(logins: Logins) -> None:
    admin = await logins[0].visitor(basic("admin", "admin-secret"), unlimited)
    for operation in Operation:
        assert await admin.allowed(operation, {"secrets-value"}) == {"secrets-value"}
    assert await admin.may_alter_all()


@pytest.mark.parametrize(
    ("subject", "topic"),
    [
        ("orders-value", "orders"),
        ("orders-key", "orders"),
        ("orders-key-value", "orders-key"),
        ("com.example.Order", "com.example.Order"),
        (":.x:orders-value", "orders"),
        ("-value", ""),
    ],
)
def test_a_subject_belongs_to_the_topic_that_its_name_begins_with(subject: str, topic: str) -> None:
    assert topic_of(subject) == topic
