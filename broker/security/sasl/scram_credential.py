"""What a broker keeps of a user's password for SCRAM (RFC 5802): it can check a proof, and not give one. Pure.

In the coordination store a credential is text in Apache Kafka's form, one setting of the user for each mechanism:

    SCRAM-SHA-256=salt=<base64>,stored_key=<base64>,server_key=<base64>,iterations=4096
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import Final

from sordini.system.named_tuple import NamedTuple

HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""The hash function of each mechanism."""
ITERATIONS_MIN: Final = 4_096
ITERATIONS_MAX: Final = 16_384
"""Bounds of new credentials, Apache Kafka's. A client computes that many hashes at each login."""
SALT_BYTES_MAX: Final = 1_024
DEFAULT_ITERATIONS: Final = 8_192
DEFAULT_SALT_BYTES: Final = 24
"""Of users that Sordini makes; `sordini users set` has the same."""


class ScramCredential(NamedTuple):
    """A user's credential for one mechanism."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations})"

    @property
    def text(self) -> str:
        """As in the coordination store."""
        salt, stored, server = (base64.b64encode(part).decode() for part in self[:3])
        return f"salt={salt},stored_key={stored},server_key={server},iterations={self.iterations}"


def credential_of(mechanism: str, salted_password: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """The credential of a password that was salted and hashed."""
    digest = HASHES[mechanism]
    client_key = hmac.new(salted_password, b"Client Key", digest).digest()
    server_key = hmac.new(salted_password, b"Server Key", digest).digest()
    return ScramCredential(salt, hashlib.new(digest, client_key).digest(), server_key, iterations)


def salted(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    """A password, salted and hashed: milliseconds of CPU."""
    return hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, iterations)


def read_credential(mechanism: str, text: str) -> ScramCredential:
    """Read a credential from the store. Raises ValueError, without a part of the text, when it is not one."""
    fields = dict(part.strip().partition("=")[::2] for part in text.split(","))
    size = hashlib.new(HASHES[mechanism]).digest_size
    try:
        salt, stored, server = (
            base64.b64decode(fields[name], validate=True) for name in ("salt", "stored_key", "server_key")
        )
        iterations = int(fields["iterations"])
    except (KeyError, ValueError, binascii.Error):
        raise ValueError(f"this is not a credential of {mechanism}") from None
    if len(stored) != size or len(server) != size or not salt or iterations < 1:
        raise ValueError(f"this is not a credential of {mechanism}")
    return ScramCredential(salt, stored, server, iterations)
