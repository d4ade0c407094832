"""Inputs of the target of bearer tokens: their form, and how they are drawn.

    input = uint8 signer | uint8 change | uint16 place | uint8 value | uint8 padding
            | header, claims, key set, message: each uint16 size | bytes

Header and claims are any bytes, mostly JSON; they are signed as they are, so that changed ones get as far as right
ones. Then the text of the token is changed, or not. The key set is a list of members, each a key of the issuer by its
name ("is") with other members, or any bytes; empty, it has all keys. The token stands in the message for "@".

Keys are made anew in each process, so no input has a signature in it, and a kept one stays what it was.
"""

from __future__ import annotations

import json
import random
import struct
from enum import IntEnum
from typing import Any, Final, NamedTuple

from tests.support.token_issuer import AUDIENCE, ISSUER, KEY_IDS, claims

HEAD: Final = struct.Struct(">BBHBB")
SIZE: Final = struct.Struct(">H")
NOW_S: Final = 1_800_000_000
OF_ISSUER: Final = ("rsa", "p256", "p384", "p521", "ed25519")
OF_STRANGER: Final = ("stranger p256", "stranger ed25519")
FORGERIES: Final = ("hmac key", "hmac set", "hmac empty", "none", "zeros")
"""Of no key: HMAC by what everybody knows, no signature, and zeros (CVE-2022-21449)."""
SIGNERS: Final = (*OF_ISSUER, *OF_STRANGER, *FORGERIES)
PADDING: Final = 256
"""Spaces behind the claims for each unit of padding: tokens around the bound of their size."""
PLAIN: Final = b"n,,\x01auth=Bearer @\x01\x01"


class Change(IntEnum):
    """What is changed in the text of a token after it was signed."""

    NOTHING = 0
    TURNED = 1
    CUT = 2
    PUT_IN = 3
    LAST_LETTER = 4
    """Another one with the same high bits: the low ones mean nothing in most signatures."""
    PADDED = 5
    TWO_PARTS = 6
    FOUR_PARTS = 7


class Recipe(NamedTuple):
    """An input."""

    signer: str = "p256"
    change: Change = Change.NOTHING
    place: int = 0
    value: int = 1
    padding: int = 0
    header: bytes = b""
    claims: bytes = b""
    key_set: bytes = b""
    message: bytes = PLAIN

    def packed(self) -> bytes:
        head = HEAD.pack(SIGNERS.index(self.signer), self.change, self.place, self.value, self.padding)
        return head + b"".join(SIZE.pack(len(part)) + part for part in self[5:])


def recipe_of(data: bytes) -> Recipe | None:
    if len(data) < HEAD.size:
        return None
    signer, change, place, value, padding = HEAD.unpack_from(data)
    position, parts = HEAD.size, []
    for _ in range(4):
        size = SIZE.unpack_from(data, position)[0] if len(data) >= position + SIZE.size else 0
        parts.append(data[position + SIZE.size :][:size])
        position += SIZE.size + size
    return Recipe(SIGNERS[signer % len(SIGNERS)], Change(change % len(Change)), place, value, padding, *parts)


def drawn(chance: random.Random) -> Recipe:
    """A recipe that is right, or nearly so."""
    signer = chance.choice(SIGNERS if chance.random() < 0.4 else OF_ISSUER)
    return Recipe(
        signer,
        Change.NOTHING if chance.random() < 0.7 else chance.choice(list(Change)),
        chance.getrandbits(16),
        chance.randrange(256),
        0 if chance.random() < 0.9 else chance.choice((40, 45, 46, 47, 48, 90)),
        _drawn_header(chance, signer),
        _drawn_claims(chance),
        _drawn_key_set(chance),
        chance.choice(MESSAGES) if chance.random() < 0.4 else PLAIN,
    )


def _drawn_header(chance: random.Random, signer: str) -> bytes:
    key = signer.removeprefix("stranger ")
    fitting = [name for name, of in KEY_IDS.items() if of == key] or ["HS256", "none", "RS256", "ES256"]
    header: dict[str, Any] = {"alg": chance.choice(fitting)}
    if chance.random() < 0.9:
        header["kid"] = key if key in OF_ISSUER else chance.choice(OF_ISSUER)
    if chance.random() < 0.3:
        header |= chance.choice(HEADERS)
    text = json.dumps(header).encode()
    return text.replace(b"{", chance.choice(REPEATED), 1) if chance.random() < 0.1 else text


def _drawn_claims(chance: random.Random) -> bytes:
    found = claims(NOW_S)
    if chance.random() < 0.5:
        found |= chance.choice(CLAIMS)
    text = json.dumps(found).encode()
    return chance.choice(BODIES) if chance.random() < 0.05 else text


def _drawn_key_set(chance: random.Random) -> bytes:
    if chance.random() < 0.6:
        return b""
    if chance.random() < 0.1:
        return chance.choice(DOCUMENTS)
    names = [name for name in OF_ISSUER if chance.random() < 0.7]
    members = [{"is": name} | (chance.choice(MEMBERS) if chance.random() < 0.3 else {}) for name in names]
    return json.dumps(members).encode()


HEADERS: Final[tuple[dict[str, Any], ...]] = (
    {"typ": "JWT"},
    {"alg": "none"},
    {"alg": "None"},
    {"alg": "HS256"},
    {"alg": "RS256"},
    {"alg": "ES256K"},
    {"alg": ["RS256"]},
    {"alg": None},
    {"crit": ["b64"], "b64": False},
    {"crit": []},
    {"b64": True},
    {"kid": None},
    {"kid": 7},
    {"kid": "k" * 1_025},
    {"kid": "\ud800"},
    {"kid": "../../etc/passwd"},
    {"jku": "https://mallory.example/keys"},
    {"jwk": {"kty": "oct", "k": "AA"}},
    {"enc": "A128GCM"},
    {"zip": "DEF"},
)
REPEATED: Final = (b'{"alg": "none", ', b'{"kid": "other", ', b"[{", b'{"": ')
CLAIMS: Final[tuple[dict[str, Any], ...]] = (
    {"exp": NOW_S},
    {"exp": NOW_S - 30},
    {"exp": NOW_S - 29},
    {"exp": NOW_S + 0.5},
    {"exp": float("inf")},
    {"exp": float("nan")},
    {"exp": True},
    {"exp": str(NOW_S + 600)},
    {"exp": None},
    {"iat": NOW_S + 31},
    {"iat": NOW_S + 30},
    {"iat": -1},
    {"iat": None},
    {"nbf": NOW_S + 31},
    {"nbf": None},
    {"iss": "https://issuer.example/"},
    {"iss": [ISSUER]},
    {"aud": [AUDIENCE, "other"]},
    {"aud": ["other"]},
    {"aud": []},
    {"aud": {AUDIENCE: 1}},
    {"aud": None},
    {"sub": ""},
    {"sub": " alice"},
    {"sub": "bob"},
    {"sub": "\ud800"},
    {"sub": "é" * 512},
    {"sub": "é" * 513},
    {"sub": ["alice"]},
    {"sub": None},
    {"scope": ["read", "read "]},
    {"scope": ["read", "write"]},
    {"scope": 7},
)
BODIES: Final = (
    b"",
    b"[]",
    b"null",
    b"{",
    b"\xff\xfe",
    b"[" * 3_000,
    b'{"exp": ' + b"9" * 4_400 + b"}",
    b'{"exp": 1e999}',
)
MEMBERS: Final[tuple[dict[str, Any], ...]] = (
    {"kid": "p256"},
    {"kid": "rsa"},
    {"kid": None},
    {"kid": 7},
    {"use": "enc"},
    {"use": "sig"},
    {"alg": "RS256"},
    {"alg": "ES512"},
    {"alg": "HS256"},
    {"key_ops": ["verify"]},
    {"key_ops": ["sign"]},
    {"key_ops": "verify"},
    {"kty": "oct", "k": "AA"},
    {"kty": "RSA", "n": "AQAB", "e": "AQAB"},
    {"crv": "P-384"},
    {"crv": "secp256k1"},
    {"x": "AA"},
    {"y": 7},
    {"n": ""},
    {"e": "AA"},
    {"e": "Aw"},
    {"n": "_" * 1_000, "e": "_" * 900},
    {"n": "_" * 600, "e": "_" * 500},
    {"n": "_" * 1_500},
    {"d": "AQ"},
    {"oth": []},
)
DOCUMENTS: Final = (b"{", b'{"keys": {}}', b'{"keys": [7, null, []]}', b"[[[[", b'[{"is": 7}, {"kty": "EC"}]')
MESSAGES: Final = (
    b"n,a=alice,\x01auth=Bearer @\x01\x01",
    b"n,a=root,\x01auth=Bearer @\x01\x01",
    b"n,a=al=2Cice,\x01auth=Bearer @\x01\x01",
    b"y,,\x01auth=bEARER   @\x01\x01",
    b"n,,\x01a=1\x01auth=Bearer @\x01b=x=y\x01\x01",
    b"n,,\x01auth=Bearer @\x01auth=Bearer @\x01\x01",
    b"n,,\x01auth=Bearer @\x01",
    b"n,,\x01auth=Basic @\x01\x01",
    b"p=tls-unique,,\x01auth=Bearer @\x01\x01",
    b"@",
    b"",
)
