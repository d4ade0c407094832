"""An issuer of bearer tokens: its keys, its key set, and what it signs, rightly or as an attacker would."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from functools import cache
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt import PyJWS
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

Key = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey
ISSUER = "https://issuer.example"
AUDIENCE = "kafka"
KEY_IDS = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), "rsa"),
    "ES256": "p256",
    "ES384": "p384",
    "ES512": "p521",
    "EdDSA": "ed25519",
}
"""The key of each algorithm."""


@cache
def private_keys() -> dict[str, Key]:
    """By id; made once for all tests."""
    return {
        "rsa": rsa.generate_private_key(65537, 2048),
        "p256": ec.generate_private_key(ec.SECP256R1()),
        "p384": ec.generate_private_key(ec.SECP384R1()),
        "p521": ec.generate_private_key(ec.SECP521R1()),
        "ed25519": ed25519.Ed25519PrivateKey.generate(),
    }


def jwk(key_id: str, key: Key | None = None, *, is_private: bool = False, **members: Any) -> dict[str, Any]:
    """A key as a member of a key set."""
    key = key or private_keys()[key_id]
    shown: Any = key if is_private else key.public_key()
    if isinstance(key, rsa.RSAPrivateKey):
        made: Any = RSAAlgorithm.to_jwk(shown, as_dict=True)
    elif isinstance(key, ec.EllipticCurvePrivateKey):
        made = ECAlgorithm.to_jwk(shown, as_dict=True)
    else:
        made = OKPAlgorithm.to_jwk(shown, as_dict=True)
    made.pop("key_ops", None)
    return {**made, "kid": key_id, **members}


def key_set(*keys: dict[str, Any]) -> bytes:
    """A document; of all keys, without any given."""
    return json.dumps({"keys": list(keys) or [jwk(name) for name in private_keys()]}).encode()


def claims(now_s: float, **changes: Any) -> dict[str, Any]:
    """Those of a token of alice for ten minutes; a change to None takes a claim out."""
    plain = {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "iat": int(now_s), "exp": int(now_s) + 600}
    return {name: value for name, value in (plain | changes).items() if value is not None}


def token(body: dict[str, Any] | bytes, algorithm: str = "RS256", key: Key | None = None, **header: Any) -> str:
    """A signed token; `kid=None` leaves the key id out."""
    key_id = header.pop("kid", KEY_IDS[algorithm])
    headers = header if key_id is None else {"kid": key_id, **header}
    payload = body if isinstance(body, bytes) else json.dumps(body).encode()
    private: Any = key or private_keys()[KEY_IDS[algorithm]]
    return PyJWS().encode(payload, private, algorithm, headers)


def forged(body: dict[str, Any], header: dict[str, Any], secret: bytes | None = None) -> str:
    """A token with any header: without a signature, or with one of HMAC-SHA-256 by a secret."""
    signed = f"{encoded(json.dumps(header).encode())}.{encoded(json.dumps(body).encode())}"
    mac = b"" if secret is None else hmac.new(secret, signed.encode(), hashlib.sha256).digest()
    return f"{signed}.{encoded(mac)}"


def encoded(data: bytes) -> str:
    """base64url without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
