"""The public keys of an issuer, read from a JSON Web Key Set (RFC 7517), each with the algorithms it may verify.

Keys that are for something else, of a kind that is not served, or too weak are skipped, as the RFC has it. A set with a
private key is refused as a whole: its readers could sign. PyJWT makes the keys; it is imported here and in `tokens`,
late, so that brokers without OAUTHBEARER do not load it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from sordini.system.named_tuple import NamedTuple

DOCUMENT_BYTES_MAX: Final = 1_048_576
"""Of a JWKS: a megabyte is some thousand keys."""
KEYS_MAX: Final = 1_000
RSA_BITS_MIN: Final = 2_048
"""RFC 7518, 3.3."""
RSA_BITS_MAX: Final = 8_192
"""Verifying takes 0.4 ms there, and grows with the square."""
_RSA: Final = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"})
_CURVES: Final = {
    ("EC", "P-256"): frozenset({"ES256"}),
    ("EC", "P-384"): frozenset({"ES384"}),
    ("EC", "P-521"): frozenset({"ES512"}),
    ("OKP", "Ed25519"): frozenset({"EdDSA"}),
}
ALGORITHMS: Final = _RSA.union(*_CURVES.values())
"""All that are served: signatures with a public key. Neither `none` nor HMAC is ever one of them."""


class KeySetError(ValueError):
    """A document is no key set that can be used; the text gives the reason."""


class VerificationKey(NamedTuple):
    """A public key of `cryptography`."""

    key_id: str | None
    algorithms: frozenset[str]
    key: Any


class KeySet(NamedTuple):
    """The keys of one document."""

    keys: tuple[VerificationKey, ...] = ()
    skipped: tuple[str, ...] = ()
    """Keys that are not used, with the reason."""

    def find(self, key_id: str | None, algorithm: str) -> VerificationKey | None:
        """The key of a token: by its id, or without an id the only one for the algorithm."""
        fitting = [key for key in self.keys if algorithm in key.algorithms]
        if key_id is None:
            return fitting[0] if len(fitting) == 1 else None
        return next((key for key in fitting if key.key_id == key_id), None)

    def knows(self, key_id: str) -> bool:
        """Whether there is a key with this id, for whatever algorithm."""
        return any(key.key_id == key_id for key in self.keys)


def read_key_set(document: bytes) -> KeySet:
    """Read a JWKS. Raises KeySetError."""
    if len(document) > DOCUMENT_BYTES_MAX:
        raise KeySetError(f"it has more than {DOCUMENT_BYTES_MAX} bytes")
    try:
        found = json.loads(document)
    except (ValueError, RecursionError):
        raise KeySetError("it is not JSON") from None
    entries = found.get("keys") if isinstance(found, dict) else None
    if not isinstance(entries, list) or len(entries) > KEYS_MAX:
        raise KeySetError(f'it is no JSON Web Key Set: {{"keys": [...]}} with at most {KEYS_MAX} keys')
    keys: list[VerificationKey] = []
    skipped: list[str] = []
    for number, entry in enumerate(entries):
        try:
            keys.append(_read_key(entry))
        except _Skipped as reason:
            skipped.append(f"key {number}: {reason}")
    if not keys:
        raise KeySetError("no key of it can verify tokens" + "".join(f"; {one}" for one in skipped[:3]))
    return KeySet(tuple(keys), tuple(skipped))


class _Skipped(Exception):
    """A key is not used; the text gives the reason."""


def _read_key(entry: object) -> VerificationKey:
    if not isinstance(entry, dict):
        raise _Skipped("it is no object")
    if "d" in entry:
        raise KeySetError("it has a private key, with which others can sign: publish public keys only")
    kind, curve, key_id = entry.get("kty"), entry.get("crv"), entry.get("kid")
    algorithms = _RSA if kind == "RSA" else _CURVES.get((str(kind), str(curve)), frozenset[str]())
    if "alg" in entry:
        algorithms &= {str(entry["alg"])}
    operations = entry.get("key_ops", ["verify"])
    if entry.get("use", "sig") != "sig" or not isinstance(operations, list) or "verify" not in operations:
        raise _Skipped("it is not for signatures")
    if not algorithms:
        raise _Skipped("its kind, curve or algorithm is not served")
    if key_id is not None and not isinstance(key_id, str):
        raise _Skipped("its id is not text")
    return VerificationKey(key_id, algorithms, _public_key(str(kind), entry))


def _public_key(kind: str, entry: Mapping[str, Any]) -> Any:
    from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm
    from jwt.exceptions import InvalidKeyError

    makers = {"RSA": RSAAlgorithm.from_jwk, "EC": ECAlgorithm.from_jwk, "OKP": OKPAlgorithm.from_jwk}
    try:
        key: Any = makers[kind](dict(entry))
    except (InvalidKeyError, ValueError, TypeError, KeyError, AttributeError):
        raise _Skipped("its numbers are missing or wrong") from None
    if kind == "RSA" and not RSA_BITS_MIN <= key.key_size <= RSA_BITS_MAX:
        raise _Skipped(f"RSA of {key.key_size} bits; used are {RSA_BITS_MIN} to {RSA_BITS_MAX}")
    return key
