"""OAUTHBEARER (KIP-255, RFC 7628): the client's first message in, a user at the end. Pure.

    C: n,[a=AUTHZID],^A auth=Bearer TOKEN ^A [KEY=VALUE ^A ...] ^A        ^A is the byte 0x01
    S: (empty)                                                            the token is accepted
    S: {"status":"invalid_token"}    C: ^A    S: SASL_AUTHENTICATION_FAILED

Extensions (KIP-342) must have the form that Apache Kafka requires, and mean nothing here. An authorization id must be
empty or the token's principal. The reason of a refusal is for the log; the client is sent the status alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from sordini.broker.security.sasl.exchanges import ExchangeStep, LoginRefused
from sordini.broker.security.sasl.oauthbearer.claims import AcceptedToken, TokenRefused
from sordini.system.named_tuple import NamedTuple

REFUSAL: Final = '{"status":"invalid_token"}'
_SEPARATOR: Final = "\x01"
_HEADER: Final = re.compile(r"[ny],(?:a=((?:[\x02-+\x2d-<>-\x7f]|=2C|=3D)+))?,")
"""Of GSS-API (RFC 5801): no channel binding; in the name a comma is `=2C` and an equals sign `=3D`."""
_PAIR: Final = re.compile(r"([A-Za-z]+)=([\x21-\x7e \t\r\n]+)")
_BEARER: Final = re.compile(r"bearer +([-_.~+/A-Za-z0-9]+=*)", re.IGNORECASE)
_AUTH: Final = "auth"


class ClientMessage(NamedTuple):
    """What a client's first message says."""

    token: str
    authorization_id: str
    """Empty for none."""
    extensions: dict[str, str]

    def __repr__(self) -> str:
        return f"ClientMessage(authorization_id={self.authorization_id!r})"


def read_message(data: bytes) -> ClientMessage:
    """Read a client's first message. Raises LoginRefused, which shows no part of it."""
    if not data.isascii():
        raise _malformed("it is not ASCII")
    header_text, *pairs = data.decode("ascii").split(_SEPARATOR)
    header = _HEADER.fullmatch(header_text)
    if header is None:
        raise _malformed("its header is none of GS2")
    # Each pair has a separator behind it, and so has all of them.
    if pairs[-2:] != ["", ""]:
        raise _malformed("it does not end with two separators")
    values: dict[str, str] = {}
    for text in pairs[:-2]:
        pair = _PAIR.fullmatch(text)
        if pair is None or pair[1] in values:
            raise _malformed("a key or a value is not allowed, or a key is repeated")
        values[pair[1]] = pair[2]
    bearer = _BEARER.fullmatch(values.pop(_AUTH, ""))
    if bearer is None:
        raise _malformed("it has no bearer token")
    name = (header[1] or "").replace("=2C", ",").replace("=3D", "=")
    return ClientMessage(bearer[1], name, values)


class BearerExchange:
    """A token, and where it is refused the client's answer to that."""

    def __init__(self, accept: Callable[[str], AcceptedToken]) -> None:
        """`accept` verifies a token; it raises TokenRefused."""
        self._accept = accept
        self._is_refused = False
        self.user = ""  # A token that is not verified proves no name.

    def step(self, token: bytes) -> ExchangeStep:
        if self._is_refused:
            raise LoginRefused(REFUSAL)
        message = read_message(token)
        try:
            accepted = self._accept(message.token)
        except TokenRefused as refused:
            self._is_refused = True
            return ExchangeStep(REFUSAL.encode(), failure=str(refused))
        self.user = accepted.principal
        if message.authorization_id not in ("", accepted.principal):
            raise LoginRefused(
                "Authentication failed: Client requested an authorization id different from the token's principal name"
            )
        return ExchangeStep(b"", accepted.principal, accepted.expires_ms)


def _malformed(why: str) -> LoginRefused:
    return LoginRefused(f"Authentication failed: the first message of OAUTHBEARER is malformed: {why}")
