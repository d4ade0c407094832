"""TLS and logins of a test's cluster: an authority and certificates that exist for the test alone.

    make_kafka(tls=True, sasl={"alice": "secret"})

Nothing is written to a disk, but for the authority's certificate, which clients take as a file: where the system has
files in memory it is one of those, else a temporary file that is removed with the cluster.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sordini.broker.process.secure_start.authority import KeyAndCertificate, issue, make_authority
from sordini.system.files import MemoryFile
from sordini.system.named_tuple import NamedTuple
from sordini.testing.arguments import mapping, text, texts

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
HOSTS: Final = ("localhost", "127.0.0.1")
MUTUAL: Final = "mutual"


class Login(NamedTuple):
    """A user of the test, and its password."""

    user: str
    password: str


class Sasl(NamedTuple):
    """The users of a cluster, and how they log in."""

    users: Mapping[str, str]
    """Passwords, by user."""
    mechanisms: Sequence[str] = ("PLAIN", "SCRAM-SHA-256")


class Security:
    """What protects the listeners of a cluster, and what its clients need for them."""

    def __init__(self, listeners: Mapping[str, str], sasl: Sasl, *, is_mutual: bool) -> None:
        """`listeners` are protocols by the names of the listeners that clients use. Raises ValueError."""
        for name, protocol in listeners.items():
            if protocol not in PROTOCOLS:
                raise ValueError(f"listeners[{name!r}]={protocol!r}: allowed are {', '.join(PROTOCOLS)}")
        users, mechanisms = mapping("users", sasl.users, "passwords by user"), texts("mechanisms", sasl.mechanisms)
        unknown = [mechanism for mechanism in mechanisms if mechanism not in MECHANISMS]
        if unknown:
            raise ValueError(f"mechanisms={unknown[0]!r}: allowed are {', '.join(MECHANISMS)}")
        self.listeners = dict(listeners)
        self.logins = [Login(user, text(f"users[{user!r}]", password)) for user, password in users.items()]
        self.mechanisms = tuple(mechanisms)
        self._is_mutual = is_mutual
        self._now_ms = int(time.time() * 1000)
        uses_tls = any("SSL" in protocol.split("_") for protocol in listeners.values())
        self._authority = make_authority("Sordini testing", self._now_ms) if uses_tls else None
        self._broker = None if self._authority is None else issue(self._authority, "broker", HOSTS, self._now_ms)
        self._files: dict[tuple[str, bytes], MemoryFile] = {}

    @property
    def scram_mechanisms(self) -> list[str]:
        """Those whose users are kept by the cluster."""
        return [mechanism for mechanism in self.mechanisms if mechanism.startswith("SCRAM")]

    def entries(self) -> dict[str, str]:
        """The brokers' configuration."""
        found: dict[str, str] = {}
        if self._authority is not None and self._broker is not None:
            found |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.key": _pem(self._broker.key_pem),
                "ssl.keystore.certificate.chain": _pem(self._broker.certificate_pem + self._authority.certificate_pem),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.certificates": _pem(self._authority.certificate_pem),
            }
            if self._is_mutual:
                found["ssl.client.auth"] = "required"
        if self.logins:
            found["sasl.enabled.mechanisms"] = ",".join(self.mechanisms)
        for name, protocol in self.listeners.items():
            if self.logins and protocol.startswith("SASL") and "PLAIN" in self.mechanisms:
                users = " ".join(f'user_{login.user}="{login.password}"' for login in self.logins)
                key = f"listener.name.{name.lower()}.plain.sasl.jaas.config"
                found[key] = f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"
        return found

    @property
    def ca_pem(self) -> str:
        """The authority's certificate. Raises ValueError without a TLS listener."""
        return _pem(self._made_authority().certificate_pem)

    @property
    def ca_file(self) -> str:
        """The path of a file with it."""
        return self._file("ca.pem", self._made_authority().certificate_pem)

    def client_files(self, name: str) -> tuple[str, str]:
        """Paths of a certificate of a client with that name, and of its key, both PEM."""
        pair = issue(self._made_authority(), name, HOSTS, self._now_ms, is_client=True)
        return self._file(f"{name}.crt", pair.certificate_pem), self._file(f"{name}.key", pair.key_pem)

    def client_settings(self, listener: str, user: str | None, mechanism: str | None) -> dict[str, Any]:
        """What librdkafka's clients take, of one user. Raises ValueError."""
        protocol = self.listeners[listener]
        found: dict[str, Any] = {"security.protocol": protocol.lower()}
        if "SSL" in protocol.split("_"):
            found["ssl.ca.location"] = self.ca_file
            if self._is_mutual:
                found["ssl.certificate.location"], found["ssl.key.location"] = self.client_files(user or "client")
        if protocol.startswith("SASL"):
            login = next((one for one in self.logins if user in (None, one.user)), None)
            if login is None:
                raise ValueError(f"user={user!r}: allowed are {', '.join(one.user for one in self.logins)}")
            found |= {
                "sasl.mechanism": mechanism or self.mechanisms[0],
                "sasl.username": login.user,
                "sasl.password": login.password,
            }
        return found

    def close(self) -> None:
        """Remove the files."""
        for file in self._files.values():
            file.close()
        self._files.clear()

    def _file(self, name: str, data: bytes) -> str:
        if (name, data) not in self._files:
            self._files[name, data] = MemoryFile(name, data)
        return self._files[name, data].path

    def _made_authority(self) -> KeyAndCertificate:
        if self._authority is None:
            raise ValueError("this cluster has no TLS listener: make_kafka(tls=True)")
        return self._authority


def _pem(data: bytes) -> str:
    return data.decode()
