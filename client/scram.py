"""SCRAM, the client's side: prove to know a password without sending it, and see that the server knows it too.

    C: n,,n=USER,r=NONCE              S: r=NONCE+THEIRS,s=SALT,i=ITERATIONS
    C: c=biws,r=NONCE+THEIRS,p=PROOF  S: v=SIGNATURE

RFC 5802; with SHA-256, RFC 7677. As in Apache Kafka, names and passwords are plain UTF-8 (no SASLprep), and there is
no channel binding. Pure: the nonce comes in.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import Final

_HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_ITERATIONS_MIN: Final = 4096  # RFC 7677.
_ITERATIONS_MAX: Final = 1_000_000  # A server must not keep us busy for long; Apache Kafka keeps to 16,384.


class ScramError(Exception):
    """The server's messages break the rules, or it does not know the password."""


class Scram:
    """One login: `first`, `final` and `verify`, in this order."""

    def __init__(self, mechanism: str, username: str, password: str, nonce: str) -> None:
        """`nonce` is fresh random text without commas."""
        self._hash = _HASHES[mechanism]
        self._password = password.encode()
        self._nonce = nonce
        name = username.replace("=", "=3D").replace(",", "=2C")
        self._first_bare = f"n={name},r={nonce}"
        self._signature = b""

    def first(self) -> bytes:
        """The message that opens the login."""
        return f"n,,{self._first_bare}".encode()

    def final(self, server_first: bytes) -> bytes:
        """The proof, in answer to the server's first message. Raises ScramError."""
        fields = _fields(server_first)
        nonce, salt = fields.get("r", ""), _decoded(fields.get("s", ""))
        count = fields.get("i", "")
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise ScramError("the server did not take up our nonce")
        if not count.isascii() or not count.isdecimal() or not _ITERATIONS_MIN <= int(count) <= _ITERATIONS_MAX:
            raise ScramError(f"the server asks for {count or 'no number of'} iterations")
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, salt, int(count))
        client_key = self._hmac(salted, b"Client Key")
        final = f"c=biws,r={nonce}"
        signed = b",".join((self._first_bare.encode(), server_first, final.encode()))
        mask = self._hmac(hashlib.new(self._hash, client_key).digest(), signed)
        proof = bytes(one ^ other for one, other in zip(client_key, mask, strict=True))
        self._signature = self._hmac(self._hmac(salted, b"Server Key"), signed)
        return f"{final},p={base64.b64encode(proof).decode()}".encode()

    def verify(self, server_final: bytes) -> None:
        """See that the server knows the password, too. Raises ScramError."""
        fields = _fields(server_final)
        if "e" in fields:
            raise ScramError(f"the server says {fields['e']}")
        if not hmac.compare_digest(_decoded(fields.get("v", "")), self._signature):
            raise ScramError("the server does not know the password: it may be somebody else's")

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.new(key, message, self._hash).digest()


def _fields(message: bytes) -> dict[str, str]:
    try:
        parts = message.decode().split(",")
    except UnicodeDecodeError:
        raise ScramError("the server's message is no text") from None
    return {part[0]: part[2:] for part in parts if part[1:2] == "="}


def _decoded(text: str) -> bytes:
    try:
        found = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        found = b""
    if not found:
        raise ScramError("the server's message lacks a value, or it is not base64")
    return found
