"""The broker's side of SASL mechanisms: tokens of a client in, challenges out, a user at the end. Pure.

    PLAIN    C: authzid NUL user NUL password                    (RFC 4616)
    SCRAM    C: n,,n=USER,r=NONCE          S: r=NONCE+OURS,s=SALT,i=ITERATIONS      (RFC 5802, 7677)
             C: c=biws,r=NONCE+OURS,p=PROOF    S: v=SIGNATURE

An exchange takes one token after the other. An authorization id must be empty or the user itself (CVE-2017-12610), a
nonce must be exactly the one that was sent (CVE-2024-56128), secrets are compared in constant time (CVE-2021-38153),
and an unknown user is refused at the same step as a wrong password.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable
from typing import Final, Protocol

from sordini.broker.security.sasl.scram_credential import HASHES, ScramCredential
from sordini.system.named_tuple import NamedTuple

NAME_BYTES_MAX: Final = 1_024
"""Of a user name, and of a nonce."""


class LoginRefused(Exception):
    """The login has failed; the text is what the client gets, and says no more than it may know."""


class ExchangeStep(NamedTuple):
    """What follows a token."""

    challenge: bytes
    user: str | None = None
    """Who it is, once the exchange is complete."""
    expires_ms: int | None = None
    """Until when the proof is valid, on the wall clock; None: without an end."""
    failure: str | None = None
    """Why the login fails at the client's next token, for the log; None while it may succeed."""


class Exchange(Protocol):
    """One login by one mechanism."""

    user: str
    """Who the client says it is; empty until it has said so."""

    def step(self, token: bytes) -> ExchangeStep:
        """Take the client's next token. Raises LoginRefused."""


class PlainExchange:
    """The user name and the password in one token."""

    def __init__(self, password_of: Callable[[str], str | None]) -> None:
        """`password_of` gives a user's password; None for an unknown user."""
        self._password_of = password_of
        self.user = ""

    def step(self, token: bytes) -> ExchangeStep:
        try:
            parts = token.decode().split("\0")
        except UnicodeDecodeError:
            raise LoginRefused("Authentication failed: the PLAIN token is not UTF-8") from None
        if len(parts) != 3:
            raise LoginRefused("Authentication failed: a PLAIN token has three parts")
        authorization_id, user, password = parts
        self.user = user
        if not user or not password:
            raise LoginRefused("Authentication failed: user name or password not specified")
        known = self._password_of(user)
        # Compared with something in any case, so that an unknown user takes as long.
        is_right = hmac.compare_digest(password.encode(), (known or "\0").encode())
        if known is None or not is_right:
            raise LoginRefused("Authentication failed: Invalid username or password")
        if authorization_id not in ("", user):
            raise LoginRefused("Authentication failed: Client requested an authorization id different from username")
        return ExchangeStep(b"", user)


class ScramExchange:
    """A proof of the password, and ours that we know it."""

    def __init__(
        self,
        mechanism: str,
        credential_of: Callable[[str, str], tuple[ScramCredential, bool]],
        nonce: str,
    ) -> None:
        """`credential_of` takes the mechanism and the user; False with the credential of a user that does not exist.

        `nonce` is fresh text.
        """
        self._mechanism = mechanism
        self._digest = HASHES[mechanism]
        self._credential_of = credential_of
        self._nonce = nonce
        self.user = ""
        self._is_known = False
        self._credential: ScramCredential | None = None
        self._nonce_of_old_librdkafka = ""
        self._signed = b""
        self._header = b""

    def step(self, token: bytes) -> ExchangeStep:
        return self._first(token) if self._credential is None else self._final(token, self._credential)

    def _first(self, token: bytes) -> ExchangeStep:
        header, bare = self._split_first(token)
        fields = dict(part.partition("=")[::2] for part in bare.split(","))
        if list(fields)[:2] != ["n", "r"] or "m" in fields:
            raise self._malformed("the first message")
        if fields.get("tokenauth") == "true":
            raise LoginRefused("Authentication failed: delegation tokens are not served")
        self.user = self._name(fields["n"])
        nonce = fields["r"]
        if not nonce or len(nonce) > NAME_BYTES_MAX or not nonce.isascii() or not nonce.isprintable():
            raise self._malformed("the nonce")
        _, _, authorization = header.partition(",")
        if authorization and self._name(authorization.removeprefix("a=")) != self.user:
            raise LoginRefused("Authentication failed: Client requested an authorization id different from username")
        self._credential, self._is_known = self._credential_of(self._mechanism, self.user)
        self._nonce = nonce + self._nonce
        self._nonce_of_old_librdkafka = nonce + self._nonce
        salt = base64.b64encode(self._credential.salt).decode()
        challenge = f"r={self._nonce},s={salt},i={self._credential.iterations}".encode()
        self._header = base64.b64encode(f"{header},".encode())
        self._signed = bare.encode() + b"," + challenge
        return ExchangeStep(challenge)

    def _split_first(self, token: bytes) -> tuple[str, str]:
        """The header (`n,` with an authorization id, if any) and the rest of the first message."""
        try:
            text = token.decode()
        except UnicodeDecodeError:
            raise self._malformed("the first message") from None
        parts = text.split(",", 2)
        # `p=` would require channel binding; `y` says that the client could bind.
        if len(parts) != 3 or parts[0] not in ("n", "y") or (parts[1] and not parts[1].startswith("a=")):
            raise self._malformed("the first message")
        return f"{parts[0]},{parts[1]}", parts[2]

    def _final(self, token: bytes, credential: ScramCredential) -> ExchangeStep:
        without_proof, separator, proof_text = token.rpartition(b",p=")
        fields = dict(part.partition(b"=")[::2] for part in without_proof.split(b","))
        if not separator or fields.get(b"c") != self._header:
            raise self._malformed("the final message")
        # librdkafka before 2.6.1 puts its own nonce in front once more. Apache Kafka 3.9 allows it, 4.0 does not. Our
        # part of the nonce, against replayed messages, is there in whole, and the proof covers what was sent.
        if fields.get(b"r", b"") not in (self._nonce.encode(), self._nonce_of_old_librdkafka.encode()):
            raise self._malformed("the nonce of the final message")
        try:
            proof = base64.b64decode(proof_text, validate=True)
        except binascii.Error:
            raise self._malformed("the proof") from None
        signed = self._signed + b"," + without_proof
        mask = hmac.new(credential.stored_key, signed, self._digest).digest()
        if len(proof) != len(mask):
            raise self._malformed("the proof")
        client_key = bytes(one ^ other for one, other in zip(proof, mask, strict=True))
        is_right = hmac.compare_digest(hashlib.new(self._digest, client_key).digest(), credential.stored_key)
        # Only here, and with the same text: a name without a credential must not be told from a wrong password.
        if not is_right or not self._is_known:
            raise LoginRefused(
                "Authentication failed during authentication due to invalid credentials with SASL mechanism "
                f"{self._mechanism}"
            )
        signature = hmac.new(credential.server_key, signed, self._digest).digest()
        return ExchangeStep(b"v=" + base64.b64encode(signature), self.user)

    def _name(self, text: str) -> str:
        """A name as it is sent: `=2C` is a comma, `=3D` an equals sign."""
        if len(text.encode()) > NAME_BYTES_MAX or not text:
            raise self._malformed("the user name")
        if "=" in text.replace("=2C", "").replace("=3D", ""):
            raise self._malformed("the user name")
        return text.replace("=2C", ",").replace("=3D", "=")

    def _malformed(self, part: str) -> LoginRefused:
        return LoginRefused(f"Authentication failed: {part} of {self._mechanism} is malformed")
