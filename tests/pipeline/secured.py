"""A broker that secured itself, its topics, and users with just the access control entries that a test gives them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple
from uuid import uuid4

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.outside.processes import SecureProcess
from tests.pipeline.sent import KEEP, Row, fill, values, without_headers

MECHANISM = "SCRAM-SHA-256"
WAIT_S = 30
_ADMIN = 'username="admin"'


class Entry(NamedTuple):
    """What an access control entry allows."""

    operation: AclOperation
    name: str
    resource: ResourceType = ResourceType.TOPIC
    pattern: ResourcePatternType = ResourcePatternType.LITERAL


class User(NamedTuple):
    """A user, and the options of Spark's sources and sinks with which it logs in."""

    name: str
    options: dict[str, str]

    @property
    def with_wrong_password(self) -> dict[str, str]:
        jaas = self.options["kafka.sasl.jaas.config"]
        return {**self.options, "kafka.sasl.jaas.config": jaas.replace(secret_of(self.name), "guessed-heron")}


class Secured:
    """The broker, as its operator reaches it."""

    def __init__(self, process: SecureProcess) -> None:
        self.process = process
        authority = process.secure_directory / "ca.pem"
        self.login: Mapping[str, str] = {
            "security_protocol": "SASL_SSL",
            "ssl_cafile": str(authority),
            "sasl_mechanism": MECHANISM,
            "sasl_plain_username": "admin",
            "sasl_plain_password": process.password,
        }
        self._options: dict[str, str] = json.loads((process.secure_directory / "spark.json").read_text())
        self._admin = AdminClient(
            {
                "bootstrap.servers": process.bootstrap,
                "security.protocol": "sasl_ssl",
                "ssl.ca.location": str(authority),
                "sasl.mechanism": MECHANISM,
                "sasl.username": "admin",
                "sasl.password": process.password,
                "log_level": 2,  # Its threads try to connect when the broker has stopped, and would say so.
            }
        )

    def make_topic(self, name: str = "") -> str:
        """A topic of two partitions; its name."""
        name = name or f"topic-{uuid4().hex[:12]}"
        for made in self._admin.create_topics([NewTopic(name, 2, 1, config=KEEP)]).values():
            made.result(WAIT_S)
        return name

    def make_user(self, *entries: Entry) -> User:
        """A user who may do what the entries say, and nothing else."""
        name = f"user-{uuid4().hex[:8]}"
        credentials = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
        wanted = UserScramCredentialUpsertion(name, credentials, secret_of(name).encode())
        for made in self._admin.alter_user_scram_credentials([wanted]).values():
            made.result(WAIT_S)
        if entries:
            for added in self._admin.create_acls([_binding(name, entry) for entry in entries]).values():
                added.result(WAIT_S)
        jaas = self._options["kafka.sasl.jaas.config"]
        assert _ADMIN in jaas, "the file for Spark has the operator's login"
        jaas = jaas.replace(_ADMIN, f'username="{name}"').replace(self.process.password, secret_of(name))
        return User(name, {**self._options, "kafka.sasl.jaas.config": jaas})

    def revoke(self, user: User, entry: Entry) -> None:
        """Remove one of a user's entries."""
        removed = AclBindingFilter(
            entry.resource,
            entry.name,
            entry.pattern,
            f"User:{user.name}",
            "*",
            entry.operation,
            AclPermissionType.ALLOW,
        )
        for found in self._admin.delete_acls([removed]).values():
            assert len(found.result(WAIT_S)) == 1

    def fill(self, topic: str, count: int, first: int = 0) -> list[Row]:
        """Send records as the operator; they are as a frame without headers has them."""
        return without_headers(fill(self.process.bootstrap, topic, count, first=first, login=self.login))

    def values(self, topic: str) -> list[str]:
        """What a topic holds, read by the operator."""
        return values(self.process.bootstrap, topic, login=self.login)


def secret_of(name: str) -> str:
    return f"secret-of-{name}"


def _binding(user: str, entry: Entry) -> AclBinding:
    return AclBinding(
        entry.resource, entry.name, entry.pattern, f"User:{user}", "*", entry.operation, AclPermissionType.ALLOW
    )
