"""Verifies bearer tokens: JSON Web Tokens (RFC 7519) with the signature of a key of the issuer (RFC 7515).

    base64url(HEADER) "." base64url(CLAIMS) "." base64url(SIGNATURE)        HEADER: {"alg":"RS256","kid":"..."}

The algorithm is one that the key is for, out of a fixed list: a token does not choose how it is verified. Each part is
in its only base64url form, so that no two texts are the same token. Encrypted tokens and `crit` headers are refused.

It is done on the loop: it takes 0.1 ms (RSA of 2048 bits) to 0.6 ms (ES384, ES512), and 0.7 ms for the largest token,
once for each login, and a connection has one attempt. TLS handshakes, which take longer, are computed beside the loop.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from typing import Any, Final, Protocol

from sordini.broker.security.sasl.oauthbearer.claims import AcceptedToken, TokenRefused, TokenRules, check_claims
from sordini.broker.security.sasl.oauthbearer.key_set import ALGORITHMS, KeySet, VerificationKey

TOKEN_BYTES_MAX: Final = 16_384
"""Tokens have one to eight KiB; HTTP servers take headers of eight to 16. PyJWT's time grows with the size."""
KEY_ID_BYTES_MAX: Final = 1_024
_PARTS: Final = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")


class IssuerKeys(Protocol):
    """Where the keys of an issuer are."""

    @property
    def current(self) -> KeySet:
        """The keys in force."""

    def missed(self) -> None:
        """A token names a key that is not there: perhaps there is a newer set."""


class TokenVerifier:
    """Accepts the tokens of one issuer for one listener."""

    def __init__(self, keys: IssuerKeys, rules: TokenRules, now_ms: Callable[[], int]) -> None:
        """`now_ms` reads the wall clock."""
        from jwt import PyJWS  # Late: brokers without OAUTHBEARER do not load it.

        self._keys = keys
        self._rules = rules
        self._now_ms = now_ms
        self._signatures = PyJWS(algorithms=sorted(ALGORITHMS))

    def accept(self, token: str) -> AcceptedToken:
        """Verify a token. Raises TokenRefused."""
        if len(token) > TOKEN_BYTES_MAX:
            raise TokenRefused(f"it has more than {TOKEN_BYTES_MAX} bytes")
        if _PARTS.fullmatch(token) is None:
            raise TokenRefused("it is not a signed JSON Web Token of three parts")
        parts = [_decoded(part) for part in token.split(".")]
        header = _json_object(parts[0], "header")
        algorithm = header.get("alg")
        if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
            raise TokenRefused("its algorithm (alg) is not allowed")
        if "crit" in header or "b64" in header:
            raise TokenRefused("its header has critical extensions (crit, b64)")
        key = self._key_of(header, algorithm)
        self._check_signature(token, algorithm, key)
        return check_claims(_json_object(parts[1], "claims"), self._rules, self._now_ms())

    def _key_of(self, header: dict[str, Any], algorithm: str) -> VerificationKey:
        key_id = header.get("kid")
        if key_id is not None and (not isinstance(key_id, str) or len(key_id) > KEY_ID_BYTES_MAX):
            raise TokenRefused("its key id (kid) is not text, or too long")
        key = self._keys.current.find(key_id, algorithm)
        if key is not None:
            return key
        if key_id is None:
            raise TokenRefused(f"it names no key (kid), and there is not exactly one for {algorithm}")
        if self._keys.current.knows(key_id):
            raise TokenRefused(f"its key (kid) is not for {algorithm}")
        self._keys.missed()
        raise TokenRefused(f"its key (kid) {key_id!r} is not in the key set")

    def _check_signature(self, token: str, algorithm: str, key: VerificationKey) -> None:
        from jwt.exceptions import PyJWTError

        try:
            self._signatures.decode_complete(token, key.key, algorithms=[algorithm])
        except (PyJWTError, ValueError):
            raise TokenRefused("its signature is wrong") from None


def _decoded(part: str) -> bytes:
    """The bytes of a part in base64url without padding, which has one form for each text of bytes."""
    try:
        data = base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
    except ValueError:
        raise TokenRefused("a part of it is not base64url") from None
    if base64.urlsafe_b64encode(data).rstrip(b"=") != part.encode():
        raise TokenRefused("a part of it is not in the only form of base64url")
    return data


def _json_object(data: bytes, part: str) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise TokenRefused(f"its {part} is not JSON") from None
    if not isinstance(found, dict):
        raise TokenRefused(f"its {part} is no JSON object")
    return found
