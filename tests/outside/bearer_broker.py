"""A broker whose clients log in with tokens (OAUTHBEARER) of the tests' own issuer."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.outside.processes import SordiniProcess
from tests.support.token_issuer import AUDIENCE, ISSUER, claims, jwk, key_set, token

JAAS = "org.apache.kafka.common.security"
ADMIN = f'{JAAS}.plain.PlainLoginModule required username="admin" password="secret" user_admin="secret";'
DEADLINE_S = 60

Make = Callable[[], str]
"""Makes a token."""


def alices(life_s: int = 600, algorithm: str = "RS256", **changes: Any) -> str:
    """A token of alice."""
    now_s = time.time()
    return token(claims(now_s, exp=int(now_s) + life_s, **changes), algorithm)


class Secured:
    """A broker where alice may do everything to topics that begin with `topic`, and whose skew is 0."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.keys = directory / "keys.json"
        self.keys.write_bytes(key_set(jwk("rsa")))
        self.broker = SordiniProcess(
            directory / "broker",
            {
                "security.inter.broker.protocol": "SASL_PLAINTEXT",
                "sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
                "listener.name.sasl_plaintext.plain.sasl.jaas.config": ADMIN,
                "sasl.oauthbearer.jwks.endpoint.url": self.keys.as_uri(),
                "sasl.oauthbearer.expected.audience": AUDIENCE,
                "sasl.oauthbearer.expected.issuer": ISSUER,
                "sasl.oauthbearer.clock.skew.seconds": 0,
                "connection.failed.authentication.delay.ms": 0,
                "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
                "super.users": "User:admin",
                "group.initial.rebalance.delay.ms": 0,
            },
        )
        self.bootstrap = self.broker.bootstrap
        self.broker.overrides["listeners"] = f"SASL_PLAINTEXT://{self.bootstrap}"

    def prepare(self) -> None:
        admin = self.properties("admin", f"sasl.mechanism=PLAIN\nsasl.jaas.config={ADMIN}\n")
        for words in (
            ("acls", "add", "--topic", "topic", "--pattern", "prefixed", "--allow", "User:alice"),
            ("acls", "add", "--group", "*", "--operation", "Read", "--allow", "User:alice"),
            ("topics", "create", "secrets"),
        ):
            done = self.command(admin, *words)
            assert done.returncode == 0, done.stderr

    def properties(self, name: str, text: str) -> Path:
        path = self.directory / f"{name}.properties"
        path.write_text(f"security.protocol=SASL_PLAINTEXT\n{text}")
        return path

    def token_file(self, name: str, text: str) -> Path:
        path = self.directory / f"{name}.jwt"
        path.write_text(f"{text}\n")
        return path

    def command(self, properties: Path, *words: str, text: str = "") -> subprocess.CompletedProcess[str]:
        program = Path(sys.prefix) / "bin" / "sordini"
        command = [str(program), *words, "--bootstrap", self.bootstrap, "--command-config", str(properties)]
        return subprocess.run(command, capture_output=True, text=True, input=text, check=False, timeout=DEADLINE_S)

    def python(self, provider: Any) -> dict[str, Any]:
        """The settings of kafka-python and aiokafka."""
        return {
            "bootstrap_servers": self.bootstrap,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "OAUTHBEARER",
            "sasl_oauth_token_provider": provider,
        }

    def librdkafka(self, make: Make) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "sasl_plaintext",
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": lambda _: (make(), time.time() + 600),
        }
