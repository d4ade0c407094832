"""One broker with a listener for each fault that a listener can have: certificates, logins, advertised addresses."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.outside.ports import free_port
from tests.outside.processes import SordiniProcess
from tests.support.certificates import Authority, Issued
from tests.support.token_issuer import AUDIENCE, ISSUER, jwk, key_set

PLAIN_CLASS: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
PASSWORD: Final = "let-me-in"
PROTOCOLS: Final = {
    "PLAINTEXT": "PLAINTEXT",
    "GOOD": "SSL",
    "EXPIRED": "SSL",
    "EARLY": "SSL",
    "SOON": "SSL",
    "OTHERNAME": "SSL",
    "STRANGER": "SSL",
    "NEWEST": "SSL",
    "MUTUAL": "SSL",
    "LOGIN": "SASL_PLAINTEXT",
    "TOKEN": "SASL_PLAINTEXT",
    "SECURED": "SASL_SSL",
    "UNRESOLVED": "PLAINTEXT",
    "CLOSED": "PLAINTEXT",
    "ELSEWHERE": "PLAINTEXT",
    "STRANGERAT": "PLAINTEXT",
    "LOGINAT": "PLAINTEXT",
}
"""The listeners and their security protocols."""


class ManyListeners:
    """The broker, and what its clients need."""

    def __init__(self, directory: Path, elsewhere: int) -> None:
        """`elsewhere` is a port of another cluster."""
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.authority, stranger = Authority(), Authority("Another Authority")
        self.ca = self.authority.pem_file(directory / "ca.pem")
        keys = directory / "keys.json"
        keys.write_bytes(key_set(jwk("rsa")))
        self.process = SordiniProcess(directory / "broker")
        self.ports = {name: free_port() for name in PROTOCOLS} | {"PLAINTEXT": self.process.port}
        self.closed = free_port()
        self.client = self.authority.issue("client", ()).pem_file(directory / "client.pem")
        self.strange_client = stranger.issue("client", ()).pem_file(directory / "strange-client.pem")
        overrides = self.process.overrides
        overrides |= self._addresses(elsewhere)
        issued = {
            "GOOD": self.authority.issue("broker"),
            "EXPIRED": self.authority.issue("broker", days=-2),
            "EARLY": self.authority.issue("broker", since_days=30),
            "SOON": self.authority.issue("broker", days=9.5),
            "OTHERNAME": self.authority.issue("broker", ("broker.example", "192.0.2.7")),
            "STRANGER": stranger.issue("broker"),
            "NEWEST": self.authority.issue("broker"),
            "MUTUAL": self.authority.issue("broker"),
            "SECURED": self.authority.issue("broker"),
        }
        for name, certificate in issued.items():
            overrides |= _keys(name, certificate)
        mutual = "listener.name.mutual."
        overrides |= {f"{mutual}ssl.client.auth": "required"} | dict(self.authority.inline(mutual))
        overrides |= {"listener.name.newest.ssl.enabled.protocols": "TLSv1.3"}
        login = f'{PLAIN_CLASS} required username="admin" password="{PASSWORD}" user_admin="{PASSWORD}";'
        overrides |= {
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.login.plain.sasl.jaas.config": login,
            "listener.name.secured.plain.sasl.jaas.config": login,
            "listener.name.token.sasl.enabled.mechanisms": "OAUTHBEARER",
            "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "sasl.oauthbearer.expected.issuer": ISSUER,
            "connection.failed.authentication.delay.ms": 0,
        }

    def _addresses(self, elsewhere: int) -> dict[str, object]:
        listeners = {name: f"127.0.0.1:{port}" for name, port in self.ports.items()}
        advertised = {name: f"localhost:{port}" for name, port in self.ports.items()} | {
            "PLAINTEXT": listeners["PLAINTEXT"],
            "UNRESOLVED": f"kafka-broker-0.invalid:{self.ports['UNRESOLVED']}",
            "CLOSED": f"127.0.0.1:{self.closed}",
            "ELSEWHERE": f"127.0.0.1:{elsewhere}",
            "STRANGERAT": f"127.0.0.1:{self.ports['STRANGER']}",
            "LOGINAT": f"127.0.0.1:{self.ports['LOGIN']}",
        }
        return {
            "listeners": ",".join(f"{name}://{where}" for name, where in listeners.items()),
            "advertised.listeners": ",".join(f"{name}://{where}" for name, where in advertised.items()),
            "listener.security.protocol.map": ",".join(f"{name}:{one}" for name, one in PROTOCOLS.items()),
            "inter.broker.listener.name": "PLAINTEXT",
        }

    def at(self, name: str, host: str = "localhost") -> str:
        """The address of a listener."""
        return f"{host}:{self.ports[name]}"


def _keys(name: str, issued: Issued) -> dict[str, object]:
    return dict(issued.inline(f"listener.name.{name.lower()}."))
