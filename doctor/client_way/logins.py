"""Whether a listener has logins, which mechanisms it offers, and why it refuses one."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from typing import Any

from sordini.client.addresses import Address
from sordini.client.authentication import OAUTHBEARER, SaslCredentials
from sordini.client.cluster import open_link
from sordini.client.errors import ClientError
from sordini.doctor.client_way.means import Means, sasl_protocol
from sordini.doctor.faults import Fault
from sordini.doctor.findings import Finding
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.sasl import SaslHandshakeRequest, SaslHandshakeResponse
from sordini.system.named_tuple import NamedTuple

MECHANISMS_MAX = 8
"""Shown of those that a broker offers."""
ANY = "NONE"
"""A mechanism that no broker has: the refusal lists what it has."""


class Offer(NamedTuple):
    """What a listener answers to the handshake of a login."""

    has_logins: bool
    mechanisms: tuple[str, ...] = ()


async def offered_at(ip: str, address: Address, means: Means) -> Offer | None:
    """What a listener offers; None where it does not say."""
    try:
        link = await open_link(address, means.access(address, logs_in=False), means.connect_at(ip))
        try:
            response: SaslHandshakeResponse = await link.ask(SaslHandshakeRequest(mechanism=ANY), at_least=1)
        finally:
            link.close()
    except ClientError:
        return None
    if response.error_code == ErrorCode.ILLEGAL_SASL_STATE:
        return Offer(has_logins=False)
    return Offer(has_logins=True, mechanisms=tuple(response.mechanisms[:MECHANISMS_MAX]))


def login_required(at: str, offer: Offer, means: Means) -> Finding:
    """The client does not log in, and has to."""
    facts = {"protocol": means.protocol, "sasl_protocol": sasl_protocol(means.protocol, logs_in=True)}
    return Finding(Fault.SASL_REQUIRED, at, facts | _offered(offer))


def refused_login(at: str, offer: Offer | None, means: Means, reason: str, now_s: float) -> Finding:
    """Why the listener refuses the client's login, from what it offers and what it said."""
    assert means.security.sasl is not None
    credentials = means.security.sasl()
    protocol, mechanism = means.protocol, credentials.mechanism
    if offer is not None and not offer.has_logins:
        bare = sasl_protocol(protocol, logs_in=False)
        return Finding(Fault.SASL_NOT_ENABLED, at, {"protocol": protocol, "bare_protocol": bare})
    if offer is not None and mechanism not in offer.mechanisms:
        return Finding(Fault.SASL_MECHANISM, at, {"mechanism": mechanism} | _offered(offer))
    said = reason.partition("): ")[2] or reason
    if mechanism == OAUTHBEARER:
        return Finding(Fault.SASL_TOKEN, at, {"reason": said, "token": token_text(credentials.password, now_s)})
    return Finding(Fault.SASL_PASSWORD, at, _password_facts(credentials, said))


def _password_facts(credentials: SaslCredentials, said: str) -> dict[str, str]:
    mechanism = credentials.mechanism
    return {
        "user": f"'{credentials.username}'",
        "user_name": credentials.username,
        "mechanism": mechanism,
        "scram_mechanism": mechanism if mechanism.startswith("SCRAM") else "SCRAM-SHA-512",
        "reason": said,
    }


def _offered(offer: Offer) -> dict[str, str]:
    return {
        "offered": ", ".join(offer.mechanisms) or "no mechanism at all",
        "first_offered": offer.mechanisms[0] if offer.mechanisms else "...",
    }


def token_text(token: str, now_s: float) -> str:
    """What a token says of itself, its signature unread: a sentence about its end, its issuer and its audience."""
    claims = _claims(token)
    if claims is None:
        return "The token is no JWT: its content cannot be read here."
    end = claims.get("exp")
    parts = [f"The token names {name} {shown}" for name, shown in _named(claims)]
    if isinstance(end, int | float):
        away_s = round(abs(end - now_s))
        parts.insert(0, f"The token expired {away_s} s ago" if end <= now_s else f"The token is valid for {away_s} s")
    return "; ".join([parts[0], *(part[:1].lower() + part[1:] for part in parts[1:])]) + "." if parts else ""


def _named(claims: dict[str, Any]) -> Sequence[tuple[str, str]]:
    words = {"iss": "the issuer", "aud": "the audience", "sub": "the subject"}
    return [(word, repr(str(claims[key]))) for key, word in words.items() if key in claims]


def _claims(token: str) -> dict[str, Any] | None:
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        found = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, binascii.Error):
        return None
    return found if isinstance(found, dict) else None
