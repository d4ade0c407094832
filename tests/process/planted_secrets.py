"""A broker with a secret wherever one can be, and the forms in which secrets are searched."""

from __future__ import annotations

import base64
import os
import ssl
import struct
import subprocess
import sys
import urllib.parse
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

from sordini.protocol import codecs
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.headers import read_response_header, request_header
from sordini.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from sordini.protocol.served_apis import APIS
from tests.outside.ports import free_port
from tests.outside.processes import SordiniProcess
from tests.support.certificates import Authority, one_line
from tests.support.wire_client import Client

PLANTED = {
    "the broker's own password in its JAAS line": "Kx7-own-quail-1f9a",
    "a user's password in the JAAS line": "Kx7-alice-heron-2b8c",
    "the password of a key store": "Kx7-store-stork-3d7e",
    "the password of a trust store": "Kx7-trust-finch-4f6a",
    "the password of a private key": "Kx7-key-crane-5a5b",
    "a password set by `sordini users`": "Kx7-scram-egret-6c4d",
    "a salted password over the wire": "Kx7-salted-robin-7e3f",
    "a wrong password of PLAIN": "Kx7-wrong-raven-8a2b",
    "a wrong password of SCRAM": "Kx7-proof-swift-9c1d",
    "a token that cannot be read": "Kx7-token-ibis-ae0f",
    "a token in a frame of its own": "Kx7-frame-wren-bf9a",
    "a request before the login": "Kx7-early-dove-c08b",
    "a delegation token": "Kx7-delegate-lark-d17c",
    "a secret setting over the wire": "Kx7-dynamic-owl-e26d",
    "a secret behind the wrong key": "Kx7-mistaken-kite-f35e",
    "a key of somebody else in the file": "Kx7-plugin-gull-044f",
    "the rest of a value whose line ends too early": "Kx7-rest-snipe-3712",
    "a start that is refused": "Kx7-refused-hawk-1530",
    "a file for commands that cannot be read": "Kx7-command-teal-2621",
}
PROGRAM = str(Path(sys.prefix) / "bin" / "sordini")
MODULE = "org.apache.kafka.common.security"


def forms(secret: str) -> dict[str, bytes]:
    """How a secret may be written; of base64 what does not depend on the bytes around it."""
    data = secret.encode()
    found = {"as it is": data, "hexadecimal": data.hex().encode(), "HEXADECIMAL": data.hex().upper().encode()}
    for before in range(3):
        text = base64.b64encode(bytes(before) + data)
        found[f"base64, {before} bytes before"] = text[(8 * before + 5) // 6 : (8 * (before + len(data))) // 6]
    found["in a URL"] = urllib.parse.quote(secret, safe="").encode()
    found["UTF-16"] = secret.encode("utf-16-le")
    found["a list of numbers"] = ", ".join(map(str, data)).encode()
    found["escaped bytes"] = "".join(f"\\x{byte:02x}" for byte in data).encode()
    return found


class Site:
    """A broker with secrets in its files, which are in `inputs`; what is written is below `written`."""

    def __init__(self, directory: Path) -> None:
        self.inputs, self.written = directory / "inputs", directory / "written"
        self.inputs.mkdir()
        self.metrics_port = free_port()
        self.broker = SordiniProcess(self.written / "broker")
        self.authority = Authority()
        self.ca = self.authority.pem_file(self.inputs / "ca.pem")
        self.settings = self._settings()
        self.broker.command = lambda: self._serve(self.settings, "server.properties")  # type: ignore[method-assign]
        self.broker.prefix = ["bash", "-c", 'ulimit -c 0; exec "$@"', "bash"]
        self.broker.environment = lambda: {**os.environ, "PYTHONFAULTHANDLER": "1"}  # type: ignore[method-assign]
        self._numbers = count(1)
        self.connections = ExitStack()

    def _settings(self) -> dict[str, object]:
        issued = self.authority.issue("broker")
        keys = issued.pkcs12_file(self.inputs / "keys.p12", PLANTED["the password of a key store"])
        trust = self.authority.pkcs12_file(self.inputs / "trust.p12", PLANTED["the password of a trust store"])
        key_password = PLANTED["the password of a private key"]
        own, alice = (
            PLANTED["the broker's own password in its JAAS line"],
            PLANTED["a user's password in the JAAS line"],
        )
        login = f'username="admin" password="{own}" user_admin="{own}" user_alice="{alice}"'
        return {
            "broker.id": 1,
            "log.dirs": self.broker.data_directory,
            "listeners": f"SASL_SSL://{self.broker.bootstrap},INSIDE://127.0.0.1:0",
            "listener.security.protocol.map": "SASL_SSL:SASL_SSL,INSIDE:SSL",
            "inter.broker.listener.name": "SASL_SSL",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "listener.name.sasl_ssl.plain.sasl.jaas.config": f"{MODULE}.plain.PlainLoginModule required {login};",
            "connection.failed.authentication.delay.ms": 0,
            "listener.name.sasl_ssl.ssl.keystore.type": "PKCS12",
            "listener.name.sasl_ssl.ssl.keystore.location": keys,
            "listener.name.sasl_ssl.ssl.keystore.password": PLANTED["the password of a key store"],
            "listener.name.sasl_ssl.ssl.key.password": PLANTED["the password of a key store"],
            "ssl.truststore.type": "PKCS12",
            "ssl.truststore.location": trust,
            "ssl.truststore.password": PLANTED["the password of a trust store"],
            "listener.name.inside.ssl.keystore.type": "PEM",
            "listener.name.inside.ssl.keystore.key": one_line(issued.key_pem(key_password)),
            "listener.name.inside.ssl.keystore.certificate.chain": one_line(issued.chain_pem),
            "listener.name.inside.ssl.key.password": key_password,
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "super.users": "User:admin",
            "my.metrics.reporter.password": PLANTED["a key of somebody else in the file"],
            "sordini.metrics.port": self.metrics_port,
            "sordini.audit.log.file": self.written / "audit.log",
            "sordini.audit.log.successes": "true",
        }

    def _serve(self, settings: dict[str, object], name: str) -> list[str]:
        file = self.inputs / name
        rest = PLANTED["the rest of a value whose line ends too early"]
        torn = f"{rest}\n{rest}==\n{rest} required=1\n{rest}+/{rest}:1\n"
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()) + torn)
        return [PROGRAM, "serve", str(file), "--log-level", "debug"]

    def keep(self, what: str, data: bytes | str) -> None:
        """Keep what was written somewhere else than in a file."""
        text = data.encode() if isinstance(data, str) else data
        (self.written / f"output-{next(self._numbers)}").write_bytes(what.encode() + b"\n" + text)

    def run(self, *words: str, properties: str = "admin", given: str = "") -> int:
        """Run a command, and keep its output; its exit status."""
        connection = ["--bootstrap", self.broker.bootstrap, "--command-config", str(self.properties(properties))]
        done = subprocess.run(
            [PROGRAM, *words, *connection], input=given, capture_output=True, text=True, timeout=60, check=False
        )
        self.keep(" ".join(words[:2]), done.stdout + done.stderr)
        return done.returncode

    def properties(self, name: str) -> Path:
        """A file for --command-config."""
        plain, scram = f"{MODULE}.plain.PlainLoginModule", f"{MODULE}.scram.ScramLoginModule"
        unreadable = PLANTED["a file for commands that cannot be read"]
        mechanism, line = {
            "admin": ("PLAIN", f'{plain} required username="admin" password="{self.own}";'),
            "alice": ("PLAIN", f'{plain} required username="alice" password="{self.alice}";'),
            "wrong": ("PLAIN", f'{plain} required username="alice" password="{PLANTED["a wrong password of PLAIN"]}";'),
            "carol": ("SCRAM-SHA-256", f'{scram} required username="carol" password="{self.carol}";'),
            "proof": (
                "SCRAM-SHA-256",
                f'{scram} required username="carol" password="{PLANTED["a wrong password of SCRAM"]}";',
            ),
            "open": ("PLAIN", f'{plain} required username="alice" password="{unreadable}'),
            "module": ("PLAIN", f'x.Module required username="alice" password="{unreadable}";'),
            "bare": ("PLAIN", f"{unreadable}"),
        }[name]
        file = self.inputs / f"{name}.properties"
        file.write_text(
            f"security.protocol=SASL_SSL\nssl.truststore.type=PEM\nssl.truststore.location={self.ca}\n"
            f"sasl.mechanism={mechanism}\nsasl.jaas.config={line}\n"
        )
        return file

    @property
    def own(self) -> str:
        return PLANTED["the broker's own password in its JAAS line"]

    @property
    def alice(self) -> str:
        return PLANTED["a user's password in the JAAS line"]

    @property
    def carol(self) -> str:
        return PLANTED["a password set by `sordini users`"]

    def dial(self) -> TlsClient:
        return self.connections.enter_context(TlsClient(self.broker.port, self.ca))

    def connect(self, mechanism: str = "PLAIN", version: int = 1) -> TlsClient:
        client = self.dial()
        client.ask(ApiKey.SASL_HANDSHAKE, version, SaslHandshakeRequest(mechanism=mechanism))
        return client

    def admin(self) -> TlsClient:
        client = self.connect()
        client.authenticate(b"\0admin\0" + self.own.encode())
        return client

    def refused(self, name: str, **changes: object) -> None:
        """Keep what a start says that does not come to anything."""
        settings = {**self.settings, "sordini.metrics.port": -1, "log.dirs": self.written / name, **changes}
        words = self._serve(settings, f"{name}.properties")
        done = subprocess.run(words, capture_output=True, timeout=60, check=False, cwd=self.inputs)
        assert done.returncode in (1, 2), (name, done)
        self.keep(f"start refused: {name}", done.stdout + done.stderr)
        assert done.stderr, name


class TlsClient(Client):
    """A connection of TLS."""

    def __init__(self, port: int, ca: Path) -> None:
        super().__init__("127.0.0.1", port)
        self.socket = ssl.create_default_context(cafile=ca).wrap_socket(self.socket, server_hostname="127.0.0.1")

    def authenticate(self, token: bytes) -> Any:
        return self.ask(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=token))

    def send(self, frame: bytes) -> None:
        """Send a frame whose connection is closed without an answer."""
        self.socket.sendall(struct.pack(">i", len(frame)) + frame)
        assert self.is_closed()

    def exchange(self, key: ApiKey, version: int, request: Any) -> tuple[Any, bytes]:
        """The answer as a message, and its bytes."""
        body = request_header(APIS[key], version, 1, "test") + codecs.encode(request, version)
        self.socket.sendall(struct.pack(">i", len(body)) + body)
        (size,) = struct.unpack(">i", self.receive(4))
        frame = memoryview(self.receive(size))
        _, position = read_response_header(APIS[key], version, frame)
        return codecs.decode(APIS[key].response, version, frame, position)[0], bytes(frame)
