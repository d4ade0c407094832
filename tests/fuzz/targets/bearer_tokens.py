"""OAUTHBEARER: whatever a client sends as its token, only one signed by a key of the issuer logs in, as who it names.

The input is a recipe (`tests/fuzz/bearer_recipe.py`): what is signed, by which key, what is changed then, and the key
set. What logs in is compared with a second reading of the recipe.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import random
import string
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import get_default_algorithms

from sordini.broker.security.sasl.exchanges import LoginRefused
from sordini.broker.security.sasl.oauthbearer.claims import AcceptedToken, TokenRules
from sordini.broker.security.sasl.oauthbearer.exchange import BearerExchange
from sordini.broker.security.sasl.oauthbearer.key_set import KeySet, KeySetError, read_key_set
from sordini.broker.security.sasl.oauthbearer.tokens import TOKEN_BYTES_MAX, TokenVerifier
from tests.fuzz.bearer_recipe import NOW_S, OF_ISSUER, PADDING, PLAIN, Change, Recipe, drawn, recipe_of
from tests.fuzz.target import Broken
from tests.support.token_issuer import AUDIENCE, ISSUER, KEY_IDS, Key, claims, encoded, jwk, private_keys, token

RULES: Final = TokenRules(ISSUER, frozenset({AUDIENCE}))
CPU_S_MAX: Final = 1.0
"""CPU time of one step, which takes a millisecond: no input may cost a thousand times as much."""
LETTERS: Final = string.ascii_uppercase + string.ascii_lowercase + string.digits + "-_"
"""Of base64url, by value."""
SECRET_LETTERS_MIN: Final = 16
"""Of a part of a token that would be recognised in a log line."""

ALGORITHM: Final = {key: algorithm for algorithm, key in reversed(KEY_IDS.items())}
"""The first algorithm of each key."""


class Member(NamedTuple):
    """A key of the issuer in the key set that was asked for, and what is said of it."""

    name: str
    others: dict[str, Any]


class Issued(NamedTuple):
    """What a recipe makes."""

    token: str
    """As it was signed."""
    sent: str
    document: bytes
    members: list[Member]
    message: bytes


class Verified:
    """Keys as a listener has them, and the tokens that it was given."""

    def __init__(self, current: KeySet) -> None:
        self.current = current
        self.missed_count = 0
        self.accepted: list[str] = []
        self._verifier = TokenVerifier(self, RULES, lambda: NOW_S * 1000)

    def missed(self) -> None:
        self.missed_count += 1

    def accept(self, token: str) -> AcceptedToken:
        found = self._verifier.accept(token)
        self.accepted.append(token)
        return found


class BearerTokens:
    name = "bearer_tokens"
    share = 0.02
    instrumented = ("sordini.broker.security.sasl.oauthbearer",)

    def __init__(self) -> None:
        self._keys: dict[str, Key] = {
            **private_keys(),
            "stranger p256": ec.generate_private_key(ec.SECP256R1()),
            "stranger ed25519": ed25519.Ed25519PrivateKey.generate(),
        }
        self._right = PLAIN.replace(b"@", token(claims(NOW_S), "ES256").encode())

    def draw(self, chance: random.Random) -> bytes:
        return drawn(chance).packed()

    def run(self, data: bytes) -> int:
        recipe = recipe_of(data)
        if recipe is None:
            return 1
        issued = self._issued(recipe)
        current = _timed("reading a key set", lambda: _read(issued.document))
        keys = Verified(current)
        exchange = BearerExchange(keys.accept)
        try:
            progress = _timed("a token", lambda: exchange.step(issued.message))
        except LoginRefused as refused:
            _check_reason(str(refused), issued)
            user = ""
        else:
            user = progress.user or ""
            if progress.failure is not None:
                _check_reason(progress.failure, issued)
            if not user:
                self._check_refused(exchange)
        if keys.missed_count > 1:
            raise Broken("one token asks for newer keys more than once")
        if user:
            _check_login(user, keys.accepted, recipe, issued)
        elif _must_log_in(recipe):
            raise Broken("a right token is refused")
        return 1

    def close(self) -> None:
        """Nothing is kept but keys."""

    def _check_refused(self, exchange: BearerExchange) -> None:
        """After a refused token not even a right one is accepted."""
        try:
            exchange.step(self._right)
        except LoginRefused:
            return
        raise Broken("an exchange goes on after a refused token")

    def _issued(self, recipe: Recipe) -> Issued:
        members, document = _document(recipe.key_set)
        body = recipe.claims + b" " * (recipe.padding * PADDING)
        signed = f"{encoded(recipe.header)}.{encoded(body)}"
        text = f"{signed}.{encoded(self._signature(recipe, signed.encode(), document))}"
        sent = _changed(text, recipe)
        return Issued(text, sent, document, members, recipe.message.replace(b"@", sent.encode(), 1))

    def _signature(self, recipe: Recipe, signed: bytes, document: bytes) -> bytes:
        match recipe.signer:
            case "hmac key":  # Which everybody knows.
                known = self._keys["rsa"].public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
                return hmac.new(known, signed, hashlib.sha256).digest()
            case "hmac set":
                return hmac.new(document, signed, hashlib.sha256).digest()
            case "hmac empty":
                return hmac.new(b"", signed, hashlib.sha256).digest()
            case "none":
                return b""
            case "zeros":
                return bytes(64)
        algorithm = _algorithm(recipe)
        return bytes(get_default_algorithms()[algorithm].sign(signed, self._keys[recipe.signer]))


def _algorithm(recipe: Recipe) -> str:
    """With which algorithm a key signs: of those of the RSA key, the one that the header names."""
    key = recipe.signer.removeprefix("stranger ")
    named = _header_of(recipe.header).get("alg")
    return named if isinstance(named, str) and KEY_IDS.get(named) == key else ALGORITHM[key]


def _document(text: bytes) -> tuple[list[Member], bytes]:
    """The issuer's keys that a set has, and the set."""
    asked = _loaded(text) if text else [{"is": name} for name in OF_ISSUER]
    if not isinstance(asked, list):
        return [], text
    members, made = [], []
    for one in asked:
        name = one.get("is") if isinstance(one, dict) else None
        if isinstance(name, str) and name in OF_ISSUER:
            others = {key: value for key, value in one.items() if key != "is"}
            members.append(Member(name, others))
            made.append(jwk(name) | others)
        else:
            made.append(one)
    return members, json.dumps({"keys": made}).encode()


def _changed(text: str, recipe: Recipe) -> str:
    """Letters only, so that the message stays what it is otherwise."""
    place, letter = recipe.place % len(text), encoded(bytes([recipe.value]))[0]
    head, claims_text, signature = text.split(".")
    match recipe.change:
        case Change.TURNED:
            return text[:place] + letter + text[place + 1 :]
        case Change.CUT:
            return text[:place]
        case Change.PUT_IN:
            return text[:place] + letter * (1 + recipe.value % 7) + text[place:]
        case Change.LAST_LETTER:
            return text[:-1] + LETTERS[LETTERS.find(text[-1]) ^ (1 + recipe.value % 15)]
        case Change.PADDED:
            return text + "=" * (1 + recipe.value % 3)
        case Change.TWO_PARTS:
            return f"{head}.{claims_text}" + "." * (recipe.value % 2)
        case Change.FOUR_PARTS:
            return f"{head}.{claims_text}.{signature}.{signature}"
        case Change.NOTHING:
            return text


def _read(document: bytes) -> KeySet:
    try:
        return read_key_set(document)
    except KeySetError:
        return KeySet()


def _timed(what: str, step: Callable[[], Any]) -> Any:
    begin = time.thread_time()
    try:
        return step()
    finally:
        if time.thread_time() - begin > CPU_S_MAX:
            raise Broken(f"{what} takes more than {CPU_S_MAX} s")


def _check_reason(reason: str, issued: Issued) -> None:
    for part in issued.sent.split("."):
        if len(part) >= SECRET_LETTERS_MIN and part in reason:
            raise Broken("a part of the token is in the reason of its refusal")


def _check_login(user: str, accepted: list[str], recipe: Recipe, issued: Issued) -> None:
    """Who has logged in could: by what the recipe has signed, and by a second reading of it."""
    if accepted != [issued.token]:
        raise Broken("another token is accepted than was signed")
    if len(issued.token) > TOKEN_BYTES_MAX:
        raise Broken("a token beyond the bound of its size is accepted")
    header = _header_of(recipe.header)
    if recipe.signer not in OF_ISSUER or header.get("alg") != _algorithm(recipe):
        raise Broken(f"accepted is a token of {recipe.signer} that names {header.get('alg')}")
    if not any(_may_verify(member, recipe.signer, header) for member in issued.members):
        raise Broken("a key verifies that is not in the key set, or is there for something else")
    if header.keys() & {"crit", "b64"}:
        raise Broken("a critical extension is accepted")
    found = _loaded(recipe.claims)
    if not isinstance(found, dict) or found.get("sub") != user or not user.strip():
        raise Broken(f"logged in as {user!r}, which is not the subject")
    skew_s, audience = RULES.clock_skew_s, found.get("aud")
    times = [found.get("iat"), found.get("nbf", found.get("iat"))]
    if not found["exp"] > NOW_S - skew_s or not all(one <= NOW_S + skew_s for one in times):
        raise Broken("a token is accepted out of its time")
    if found.get("iss") != ISSUER or AUDIENCE not in ([audience] if isinstance(audience, str) else audience):
        raise Broken("a token of another issuer, or for another audience, is accepted")
    name = issued.message.split(b",")[1].removeprefix(b"a=")
    if name and name.replace(b"=2C", b",").replace(b"=3D", b"=").decode() != user:
        raise Broken("logged in with the authorization id of another user")


def _may_verify(member: Member, signer: str, header: dict[str, Any]) -> bool:
    """Whether a key of the set is the signer's, and is there for this algorithm and key id."""
    says = member.others
    is_for_it = says.get("alg", header["alg"]) == header["alg"] and says.get("use", "sig") == "sig"
    is_named = header.get("kid") in (None, says.get("kid", member.name))
    return member.name == signer and is_for_it and "verify" in says.get("key_ops", ["verify"]) and is_named


def _must_log_in(recipe: Recipe) -> bool:
    """Whether an input is right in every respect."""
    if recipe.signer not in OF_ISSUER or recipe.change is not Change.NOTHING or recipe.padding or recipe.key_set:
        return False
    if recipe.message != PLAIN or _loaded(recipe.claims) != claims(NOW_S):
        return False
    return _header_of(recipe.header) == {"alg": _algorithm(recipe), "kid": recipe.signer}


def _header_of(data: bytes) -> dict[str, Any]:
    found = _loaded(data)
    return found if isinstance(found, dict) else {}


def _loaded(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None
