"""TLS, SCRAM and access control entries for a run: brokers prove themselves to each other, clients have a user each.

One listener serves brokers and clients. The users are in ZooKeeper before the first broker starts, as an operator has
to put them there when the brokers themselves log in by SCRAM. Certificates are replaced while the run lasts.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from sordini.broker.security.sasl.scram_credential import credential_of, salted
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from tests.cluster.tree import Tree
from tests.support.certificates import Authority, java_store_settings
from tests.support.secured_client import MECHANISM, SecuredClient, User
from tests.support.wire_client import Client

ITERATIONS: Final = 4096
BROKER: Final = "broker"
"""Of the brokers, and of the run itself: a super user."""
CLIENT: Final = "client"
"""Who may do what the clients of a run do."""
GUEST: Final = "guest"
"""Who may log in, and nothing else."""

WAYS: Final = (
    "without TLS",
    "without a login",
    "with a wrong password",
    "as a user that does not exist",
    "as a user without rights",
)
"""How an unauthorized client connects."""

# Codes of the protocol: resource types, pattern types, operations.
_TOPIC, _GROUP, _CLUSTER, _TRANSACTIONAL_ID = 2, 3, 4, 5
_LITERAL, _PREFIXED = 3, 4
_READ, _WRITE, _IDEMPOTENT_WRITE = 3, 4, 12
_ALLOW: Final = 3
_ENTRIES: Final = (
    *((_TOPIC, prefix, _PREFIXED, operation) for prefix in "txy" for operation in (_READ, _WRITE)),
    (_GROUP, "*", _LITERAL, _READ),
    (_TRANSACTIONAL_ID, "*", _LITERAL, _WRITE),
    (_CLUSTER, "kafka-cluster", _LITERAL, _IDEMPOTENT_WRITE),
)
"""What CLIENT may do: names of topics begin with t, x and y."""


class Security:
    """The authority, the users and the certificates of one run. `addresses` are the hosts of the brokers."""

    def __init__(self, directory: Path, addresses: Mapping[int, str]) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._addresses = dict(addresses)
        self._authority = Authority()
        self._ca = self._authority.pem_file(directory / "ca.pem")
        self._passwords = {name: secrets.token_hex(8) for name in (BROKER, CLIENT, GUEST)}
        for broker_id in addresses:
            self.renew(broker_id)

    def renew(self, broker_id: int) -> None:
        """Give a broker another certificate and key, in place of the file that it has."""
        path, newer = self._keys_of(broker_id), self._keys_of(broker_id).with_suffix(".new")
        hosts = ("localhost", "127.0.0.1", self._addresses[broker_id])
        self._authority.issue(f"broker-{broker_id}", tuple(dict.fromkeys(hosts))).pem_file(newer)
        newer.chmod(0o600)
        newer.replace(path)

    def broker_settings(self, broker_id: int, *, for_java: bool = False) -> dict[str, object]:
        """The keys of server.properties, without the listeners; stores that all Java versions read, or PEM files."""
        login = f'username="{BROKER}" password="{self._passwords[BROKER]}"'
        return {
            "security.inter.broker.protocol": "SASL_SSL",
            "sasl.enabled.mechanisms": MECHANISM,
            "sasl.mechanism.inter.broker.protocol": MECHANISM,
            f"listener.name.sasl_ssl.{MECHANISM.lower()}.sasl.jaas.config": (
                f"org.apache.kafka.common.security.scram.ScramLoginModule required {login};"
            ),
            **(self._java_stores() if for_java else self._pem_stores(broker_id)),
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "super.users": f"User:{BROKER}",
        }

    def _pem_stores(self, broker_id: int) -> dict[str, object]:
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self._keys_of(broker_id),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self._ca,
        }

    def _java_stores(self) -> dict[str, object]:
        """Apache Kafka 2.7 reads no PEM file whose key has no password, and Java 11 few that have one."""
        keys, trust = self._directory / "java.p12", self._directory / "java-trust.p12"
        self._authority.issue("java", ("localhost", "127.0.0.1")).pkcs12_file(keys)
        return java_store_settings(keys, self._authority.pkcs12_file(trust))

    def client_settings(self, user: str) -> dict[str, str]:
        """How a client connects as this user, in librdkafka's names."""
        return {
            "security.protocol": "sasl_ssl",
            "ssl.ca.location": str(self._ca),
            "sasl.mechanism": MECHANISM,
            "sasl.username": user,
            "sasl.password": self._passwords[user],
        }

    def store_users(self, tree: Tree) -> None:
        """Put the users where Apache Kafka keeps them."""
        for user, password in self._passwords.items():
            salt = secrets.token_bytes(16)
            text = credential_of(MECHANISM, salted(MECHANISM, password, salt, ITERATIONS), salt, ITERATIONS).text
            data = {"version": 1, "config": {MECHANISM: text}}
            tree.put(f"/config/users/{user}", json.dumps(data).encode())

    def create_entries(self, client: Client) -> None:
        """Let CLIENT do what clients do; `client` is connected as BROKER."""
        rows = [
            AclCreation(
                resource_type=kind,
                resource_name=name,
                resource_pattern_type=pattern,
                principal=f"User:{CLIENT}",
                host="*",
                operation=operation,
                permission_type=_ALLOW,
            )
            for kind, name, pattern, operation in _ENTRIES
        ]
        answer = client.ask(ApiKey.CREATE_ACLS, 2, CreateAclsRequest(creations=rows))
        assert [row.error_code for row in answer.results] == [0] * len(rows), answer

    def _keys_of(self, broker_id: int) -> Path:
        return self._directory / f"broker-{broker_id}.pem"


def connected(address: str, settings: Mapping[str, str], patience_s: float) -> Client:
    """A connection as a client's settings, in librdkafka's names, want it. Raises OSError."""
    host, _, port = address.rpartition(":")
    if not settings:
        return Client(host, int(port), patience_s)
    user = User(settings["sasl.username"], settings["sasl.password"])
    return SecuredClient(host, int(port), settings["ssl.ca.location"], user, patience_s)


def kafka_python_settings(settings: Mapping[str, str]) -> dict[str, Any]:
    """The same for kafka-python."""
    if not settings:
        return {}
    return {
        "security_protocol": settings["security.protocol"].upper(),
        "ssl_cafile": settings["ssl.ca.location"],
        "sasl_mechanism": settings["sasl.mechanism"],
        "sasl_plain_username": settings["sasl.username"],
        "sasl_plain_password": settings["sasl.password"],
    }
