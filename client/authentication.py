"""SASL authentication of a connection, as steps (see `versions`): PLAIN, SCRAM and OAUTHBEARER. Pure.

    C: SaslHandshake(mechanism)          S: ok, or the mechanisms that are offered
    C: SaslAuthenticate(token) ...       S: SaslAuthenticate(token) ...

The mechanism's bytes travel inside SaslAuthenticate (SaslHandshake version 1, KIP-152). A broker may bound the
session's lifetime (KIP-368); the caller connects again before it ends.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from sordini.client.errors import Unauthorized
from sordini.client.scram import Scram, ScramError
from sordini.client.versions import ServedVersions, Steps
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from sordini.protocol.served_apis import APIS

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
"""Those with a name and a password."""
OAUTHBEARER: Final = "OAUTHBEARER"
"""A token that an issuer has signed (KIP-255, RFC 7628)."""

_WITH_SASL_AUTHENTICATE: Final = 1
"""The first SaslHandshake after which tokens travel in SaslAuthenticate (Apache Kafka 1.0)."""


@dataclass(frozen=True)
class SaslCredentials:
    """The name and password that the broker requires, and the mechanism that presents them."""

    mechanism: str
    """One of MECHANISMS, or OAUTHBEARER."""
    username: str
    """Empty with OAUTHBEARER: the token names the client."""
    password: str = field(repr=False)
    """With OAUTHBEARER the token."""
    extensions: tuple[tuple[str, str], ...] = ()
    """Of OAUTHBEARER: pairs beside the token (KIP-342)."""

    @property
    def subject(self) -> str:
        """What the broker accepts or refuses, for error texts."""
        return "the token" if self.mechanism == OAUTHBEARER else f"'{self.username}'"


def authenticate(credentials: SaslCredentials, versions: ServedVersions, broker: str, nonce: str) -> Steps[int]:
    """Authenticate; returns the session's lifetime in ms, 0 for one without an end.

    `broker` is the broker's name in error texts; `nonce` is fresh random text without commas (SCRAM). Raises
    Unauthorized with the broker's own words, and NotServed.
    """
    version = versions.highest(APIS[ApiKey.SASL_HANDSHAKE], at_least=_WITH_SASL_AUTHENTICATE)
    response: SaslHandshakeResponse = yield SaslHandshakeRequest(mechanism=credentials.mechanism), version
    _check_handshake(response, credentials.mechanism, broker)
    version = versions.highest(APIS[ApiKey.SASL_AUTHENTICATE])
    if credentials.mechanism == "PLAIN":
        token = f"\0{credentials.username}\0{credentials.password}".encode()
        last = yield from _exchange(token, version, credentials, broker)
    elif credentials.mechanism == OAUTHBEARER:
        last = yield from _bearer(version, credentials, broker)
    else:
        scram = Scram(credentials.mechanism, credentials.username, credentials.password, nonce)
        try:
            challenge = yield from _exchange(scram.first(), version, credentials, broker)
            last = yield from _exchange(scram.final(challenge.auth_bytes), version, credentials, broker)
            scram.verify(last.auth_bytes)
        except ScramError as error:
            raise Unauthorized(f"authenticating at {broker} as '{credentials.username}': {error}") from None
    return last.session_lifetime_ms


def _check_handshake(response: SaslHandshakeResponse, mechanism: str, broker: str) -> None:
    if response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        offered = ", ".join(response.mechanisms) or "none"
        raise Unauthorized(f"{broker} does not accept {mechanism}; its SASL mechanisms: {offered}")
    if response.error_code == ErrorCode.ILLEGAL_SASL_STATE:
        raise Unauthorized(f"{broker} requires no authentication: is the security protocol right?")
    if response.error_code:
        raise Unauthorized(f"{broker} refuses the SASL handshake (error {response.error_code})")


def _bearer(version: int, credentials: SaslCredentials, broker: str) -> Steps[SaslAuthenticateResponse]:
    pairs = "".join(f"{name}={value}\x01" for name, value in credentials.extensions)
    token = f"n,,\x01auth=Bearer {credentials.password}\x01{pairs}\x01".encode()
    last = yield from _exchange(token, version, credentials, broker)
    if last.auth_bytes:
        # A refusal, which the client has to answer before the exchange fails (RFC 7628, 3.2.3).
        yield from _exchange(b"\x01", version, credentials, broker)
        raise Unauthorized(f"{broker} refuses {credentials.subject} ({OAUTHBEARER})")
    return last


def _exchange(token: bytes, version: int, credentials: SaslCredentials, broker: str) -> Steps[SaslAuthenticateResponse]:
    response: SaslAuthenticateResponse = yield SaslAuthenticateRequest(auth_bytes=token), version
    if response.error_code:
        reason = response.error_message or f"error {response.error_code}"
        raise Unauthorized(f"{broker} refuses {credentials.subject} ({credentials.mechanism}): {reason}")
    return response
