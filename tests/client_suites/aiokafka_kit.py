"""What aiokafka's own tests use in place of their containers: a pytest plugin with the fixtures of their conftest.py.

    python -m tests.client_suites          the whole suite, with Sordini's test kit behind it

The suite is read as it is: pytest leaves its conftest.py out (`--noconftest`) and takes the fixtures from here. One
broker on a thread of the tests' process has the four listeners of aiokafka's image, with its users, and its authorizer.
The tests are also for entries of access control and SCRAM users, which their own helpers write with the scripts of Apache
Kafka; here librdkafka sends the requests, as the super user.
"""

from __future__ import annotations

import asyncio
import gc
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from sordini.testing import Kafka, Sasl, make_kafka

KAFKA_VERSION = "2.8.1"
"""The newest that the suite knows: it decides which of its tests are skipped."""
LISTENERS = {
    "kafka_port": "PLAINTEXT",
    "kafka_ssl_port": "SSL",
    "kafka_sasl_plain_port": "SASL_PLAINTEXT",
    "kafka_sasl_ssl_port": "SASL_SSL",
}
"""Protocols, which are the listeners' names too, by the attributes in which test classes have their ports."""
USERS = ("admin", "test", "test2")
"""Each one's password is its name."""
CONFIG = {
    "num.partitions": 2,
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "allow.everyone.if.no.acl.found": True,
    "super.users": "User:admin",
    "group.min.session.timeout.ms": 6_000,  # As in production; the kit's is shorter.
}
TLS_FILES = {
    "ssl.ca.location": "ca.crt",
    "ssl.certificate.location": "client.crt",
    "ssl.key.location": "client.key",
}
"""The suite's names, by what the kit calls them."""
NO_KERBEROS = "Sordini does not serve Kerberos (GSSAPI)"
SKIPPED = {
    "tests/test_sasl.py::TestKafkaSASL::test_sasl_plaintext_gssapi": NO_KERBEROS,
    "tests/test_sasl.py::TestKafkaSASL::test_admin_client_sasl_plaintext_gssapi": NO_KERBEROS,
}
FAILING = {
    "tests/test_sender.py::TestSender::test_sender__handler_base_do": (
        "it sends a request to the broker with the id 0, which the image's only broker has; the kit's ids begin at 1"
    ),
}
"""Expected to fail, and reported when they do not."""
TOO_EARLY = (
    "both members have their assignments, and the test reads the calls of a listener that the first one's task has yet to "
    "make; so it may be where clients and broker share one busy core"
)
RACING = {
    "tests/test_consumer.py::TestConsumerIntegration::test_kip_345_disabled": TOO_EARLY,
    "tests/test_consumer.py::TestConsumerIntegration::test_kip_345_enabled": TOO_EARLY,
}
"""May fail by chance."""
RESOURCES = {
    "cluster": ResourceType.BROKER,
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional_id": ResourceType.TRANSACTIONAL_ID,
}


class Acls:
    """Entries of access control, as the suite's ACLManager has them: by the options of Apache Kafka's script."""

    def __init__(self, admin: AdminClient) -> None:
        self._admin = admin
        self._added: list[dict[str, Any]] = []

    def add_acl(self, **options: Any) -> None:
        for added in self._admin.create_acls([AclBinding(*_entry(**options))]).values():
            added.result()
        self._added.append(options)

    def remove_acl(self, **options: Any) -> None:
        for removed in self._admin.delete_acls([AclBindingFilter(*_entry(**options))]).values():
            assert removed.result(), f"there was no entry {options}"
        self._added.remove(options)

    def list_acl(self) -> list[AclBinding]:
        everything = (ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY)
        found: list[AclBinding] = self._admin.describe_acls(
            AclBindingFilter(*everything, AclPermissionType.ANY)
        ).result()
        return found

    def cleanup(self) -> None:
        for options in list(self._added):
            self.remove_acl(**options)


class Users:
    """SCRAM users, as the suite's KafkaConfig makes them."""

    def __init__(self, admin: AdminClient) -> None:
        self._admin = admin

    def add_scram_user(self, username: str, password: str) -> None:
        wanted = [
            UserScramCredentialUpsertion(username, ScramCredentialInfo(mechanism, 4096), password.encode())
            for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
        ]
        for made in self._admin.alter_user_scram_credentials(wanted).values():
            made.result()


def _entry(
    *, operation: str, allow_principal: str | None = None, deny_principal: str | None = None, **resource: str | bool
) -> tuple[Any, ...]:
    ((kind, name),) = resource.items()
    permission = AclPermissionType.DENY if allow_principal is None else AclPermissionType.ALLOW
    principal = f"User:{deny_principal if allow_principal is None else allow_principal}"
    pattern = "kafka-cluster" if kind == "cluster" else name, ResourcePatternType.LITERAL
    return RESOURCES[kind], *pattern, principal, "*", AclOperation[operation.upper()], permission


@pytest.fixture(scope="session")
def suite_kafka() -> Iterator[Kafka]:
    login = Sasl({user: user for user in USERS}, ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"))
    listeners = {protocol: protocol for protocol in LISTENERS.values()}
    with make_kafka(listeners=listeners, tls="mutual", sasl=login, config=CONFIG) as kafka:
        yield kafka


@pytest.fixture(scope="session")
def admin(suite_kafka: Kafka) -> Iterator[AdminClient]:
    with AdminClient(suite_kafka.client_settings("admin", listener="SASL_PLAINTEXT", mechanism="PLAIN")) as client:
        yield client


@pytest.fixture(scope="session")
def ssl_folder(suite_kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ssl_cert")
    settings = suite_kafka.client_settings(listener="SSL")
    for key, name in TLS_FILES.items():
        shutil.copyfile(settings[key], folder / name)
    return folder


@pytest.fixture(scope="class")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    made = asyncio.new_event_loop()
    asyncio.set_event_loop(made)
    yield made
    if not made.is_closed():
        made.run_until_complete(asyncio.sleep(0))  # Callbacks that are due: sockets close in them.
        made.close()
    gc.collect()
    asyncio.set_event_loop(None)


@pytest.fixture(autouse=True)
def collect_garbage() -> Iterator[None]:
    """Warnings of what a test has left open belong to that test."""
    yield
    gc.collect()


@pytest.fixture(scope="class")
def setup_test_class_serverless(request: pytest.FixtureRequest, loop: asyncio.AbstractEventLoop) -> None:
    request.cls.loop = loop


@pytest.fixture(scope="class")
def setup_test_class(
    request: pytest.FixtureRequest,
    setup_test_class_serverless: None,
    suite_kafka: Kafka,
    ssl_folder: Path,
    admin: AdminClient,
) -> None:
    cls = request.cls
    for attribute, listener in LISTENERS.items():
        cls.kafka_host, port = suite_kafka.bootstrap_of(listener).split(":")
        setattr(cls, attribute, int(port))
    cls.hosts = [suite_kafka.bootstrap_of("PLAINTEXT")]
    cls.kafka_version = KAFKA_VERSION
    cls.ssl_folder = ssl_folder
    cls.acl_manager = Acls(admin)
    cls.kafka_config = Users(admin)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid in SKIPPED:
            item.add_marker(pytest.mark.skip(reason=SKIPPED[item.nodeid]))
        if item.nodeid in FAILING:
            item.add_marker(pytest.mark.xfail(reason=FAILING[item.nodeid], strict=True))
        if item.nodeid in RACING:
            item.add_marker(pytest.mark.xfail(reason=RACING[item.nodeid], strict=False))
    is_whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    unknown = {*SKIPPED, *FAILING, *RACING} - {item.nodeid for item in items}
    if is_whole and unknown:
        raise pytest.UsageError(f"the suite has no such tests: {', '.join(sorted(unknown))}")
