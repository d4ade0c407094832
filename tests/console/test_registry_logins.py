"""A console that logs in to the registry as each of its visitors."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from sordini.testing import Kafka, Sasl, make_kafka
from tests.console.console_process import ConsoleProcess, Visitor, words
from tests.registry.http.registry_process import RegistryProcess, send
from tests.registry.http.test_logins import basic

PASSWORDS = {"admin": "admin-secret-4711", "alice": "alice-secret-4711"}
ORDER = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'
SECRET = '{"type": "record", "name": "Salary", "fields": [{"name": "sum", "type": "long"}]}'
OWN = """security.protocol=SASL_PLAINTEXT
sasl.mechanism=SCRAM-SHA-256
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="admin" password="{}";
"""


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    config = {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:admin;User:ANONYMOUS",
        "allow.everyone.if.no.acl.found": "false",
    }
    topics = {"orders": 1, "salaries": 1}
    with make_kafka(sasl=Sasl(PASSWORDS, ["SCRAM-SHA-256"]), config=config, topics=topics) as made:
        yield made


@pytest.fixture(scope="module")
def console(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleProcess]:
    folder = tmp_path_factory.mktemp("console")
    (folder / "own.properties").write_text(OWN.format(PASSWORDS["admin"]))
    (folder / "client.properties").write_text("security.protocol=SASL_PLAINTEXT\n")
    login = ("--sasl-login", "SCRAM-SHA-256")
    own = ("--command-config", str(folder / "own.properties"), *login)
    with RegistryProcess(folder / "registry", kafka.bootstrap_servers, *own) as registry:
        admin = basic("admin", PASSWORDS["admin"])
        for subject, schema in (("orders-value", ORDER), ("salaries-value", SECRET)):
            assert send(registry.url, "POST", f"/subjects/{subject}/versions", {"schema": schema}, admin).status == 200
        given = ("--command-config", str(folder / "client.properties"), *login, "--registry", registry.url)
        with ConsoleProcess(folder, kafka.bootstrap_servers, *given, "--registry-as-visitors") as made:
            yield made
        assert not any(password in made.output() + registry.output() for password in PASSWORDS.values())


def logged_in(console: ConsoleProcess, name: str) -> Visitor:
    visitor = console.visitor()
    assert visitor.log_in(username=name, password=PASSWORDS[name]).status == 303
    return visitor


def test_each_visitor_sees_the_schemas_that_the_registry_shows_it(kafka: Kafka, console: ConsoleProcess) -> None:
    producer = Producer(kafka.client_settings("admin"))
    producer.produce("orders", b"\x00\x00\x00\x00\x02\x0e", partition=0)
    assert producer.flush(30) == 0
    binding = AclBinding(
        ResourceType.TOPIC,
        "orders",
        ResourcePatternType.LITERAL,
        "User:alice",
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    access = AdminClient(kafka.client_settings("admin"))
    access.create_acls([binding])[binding].result(30)
    admin, alice = logged_in(console, "admin"), logged_in(console, "alice")
    for visitor, names in ((admin, {"orders-value", "salaries-value"}), (alice, {"orders-value"})):
        page = visitor.get("/schemas").text
        assert {name for name in ("orders-value", "salaries-value") if name in page} == names
    assert '"sum": 7' in words(admin.get("/topic/records?name=orders&start=beginning").text)
    assert '"sum"' not in words(alice.get("/topic/records?name=orders&start=beginning").text)
    assert "refused" in words(alice.get("/schema?subject=salaries-value").text)
