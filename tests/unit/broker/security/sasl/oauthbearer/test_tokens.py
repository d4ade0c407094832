"""Bearer tokens: what is accepted of an issuer, and nothing else."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given, settings
from hypothesis import strategies as st

from sordini.broker.security.sasl.oauthbearer.claims import AcceptedToken, TokenRefused, TokenRules
from sordini.broker.security.sasl.oauthbearer.key_set import ALGORITHMS, KeySet, read_key_set
from sordini.broker.security.sasl.oauthbearer.tokens import TOKEN_BYTES_MAX, TokenVerifier
from tests.support.parts import examples
from tests.support.token_issuer import (
    AUDIENCE,
    ISSUER,
    KEY_IDS,
    claims,
    encoded,
    forged,
    jwk,
    key_set,
    private_keys,
    token,
)

NOW_S = 1_700_000_000
RULES = TokenRules(ISSUER, frozenset({AUDIENCE}))
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


class Keys:
    """The keys of an issuer, and how often one was missed."""

    def __init__(self, document: bytes | None = None) -> None:
        self.current = KeySet() if document == b"" else read_key_set(document or key_set())
        self.misses = 0

    def missed(self) -> None:
        self.misses += 1


def verifier(keys: Keys | None = None, rules: TokenRules = RULES) -> TokenVerifier:
    return TokenVerifier(keys or Keys(), rules, lambda: NOW_S * 1000)


def reason(text: str, keys: Keys | None = None) -> str:
    """Why a token is refused."""
    with pytest.raises(TokenRefused) as refused:
        verifier(keys).accept(text)
    return str(refused.value)


@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
def test_a_token_with_the_signature_of_a_key_is_accepted_by_every_algorithm_of_the_list(algorithm: str) -> None:
    text = token(claims(NOW_S), algorithm)
    assert verifier().accept(text) == AcceptedToken("alice", (NOW_S + 600) * 1000)


def test_the_list_has_neither_none_nor_hmac() -> None:
    assert {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"} == ALGORITHMS
    assert KEY_IDS.keys() == ALGORITHMS


@cache
def one_token(algorithm: str) -> str:
    """The same for all examples: a signature by an elliptic curve has other bytes each time."""
    return token(claims(NOW_S), algorithm)


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
@settings(max_examples=examples(300), deadline=None)
@given(st.data())
def test_no_token_that_is_altered_in_a_byte_is_accepted(algorithm: str, data: st.DataObject) -> None:
    text = one_token(algorithm)
    position = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.sampled_from(ALPHABET + ".=+/ \n\0é").filter(lambda one: one != text[position]))
    with pytest.raises(TokenRefused):
        verifier().accept(text[:position] + other + text[position + 1 :])


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
def test_the_last_character_of_the_signature_has_one_form_only(algorithm: str) -> None:
    """Its lowest bits stand for nothing: base64 readers accept 4 or 16 texts for the same bytes."""
    text = token(claims(NOW_S), algorithm)
    reasons = [reason(text[:-1] + last) for last in ALPHABET if last != text[-1]]
    assert set(reasons) == {"a part of it is not in the only form of base64url", "its signature is wrong"}


@settings(max_examples=examples(200), deadline=None)
@given(st.text(max_size=300) | st.text(ALPHABET + ".", max_size=300))
def test_any_text_is_refused_and_nothing_else_is_raised(text: str) -> None:
    with pytest.raises(TokenRefused):
        verifier().accept(text)


@settings(max_examples=examples(100), deadline=None)
@given(st.text(max_size=12).filter(lambda name: name not in ALGORITHMS))
def test_every_algorithm_outside_the_list_is_refused(name: str) -> None:
    assert reason(forged(claims(NOW_S), {"alg": name, "kid": "rsa"}, b"secret")) == "its algorithm (alg) is not allowed"


@pytest.mark.parametrize(
    "algorithm", ["none", "None", "NONE", "nOnE", "", "HS256", "HS384", "HS512", "ES256K", "rs256", None, 1, ["RS256"]]
)
def test_unsigned_tokens_and_those_of_a_shared_secret_are_refused(algorithm: Any) -> None:
    """CVE-2015-9235 and its like: the token does not choose how it is verified."""
    public = private_keys()["rsa"].public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    for secret in (b"", public, json.dumps(jwk("rsa")).encode()):
        text = forged(claims(NOW_S), {"alg": algorithm, "kid": "rsa"}, secret)
        assert reason(text) == "its algorithm (alg) is not allowed"
    for signature in ("", "AA"):
        unsigned = forged(claims(NOW_S), {"alg": algorithm, "kid": "rsa"}).rpartition(".")[0]
        assert reason(f"{unsigned}.{signature}")


def test_a_key_in_the_token_itself_or_at_an_address_that_it_names_is_not_used() -> None:
    mine = rsa.generate_private_key(65537, 2048)
    header = {"jwk": jwk("rsa", mine), "jku": "https://evil.example/keys", "x5u": "https://evil.example/x"}
    assert reason(token(claims(NOW_S), "RS256", mine, **header)) == "its signature is wrong"


def test_a_key_is_used_for_its_own_algorithms_only() -> None:
    assert reason(token(claims(NOW_S), "RS256", kid="p256")) == "its key (kid) is not for RS256"
    keys = Keys(key_set(jwk("rsa", alg="PS256")))
    assert reason(token(claims(NOW_S), "RS256"), keys) == "its key (kid) is not for RS256"
    assert verifier(keys).accept(token(claims(NOW_S), "PS256")).principal == "alice"
    assert keys.misses == 0


def test_a_key_that_is_not_there_is_refused_and_reported_once_for_each_token() -> None:
    keys = Keys()
    assert reason(token(claims(NOW_S), kid="new"), keys) == "its key (kid) 'new' is not in the key set"
    assert keys.misses == 1
    assert reason(token(claims(NOW_S)), nothing := Keys(b"")) == "its key (kid) 'rsa' is not in the key set"
    assert nothing.misses == 1


def test_a_token_without_a_key_id_is_verified_by_the_only_key_for_its_algorithm() -> None:
    text = token(claims(NOW_S), kid=None)
    assert verifier().accept(text).principal == "alice"
    two = Keys(key_set(jwk("rsa"), jwk("second", rsa.generate_private_key(65537, 2048))))
    assert reason(text, two) == "it names no key (kid), and there is not exactly one for RS256"
    assert two.misses == 0


@pytest.mark.parametrize("header", [{"crit": ["exp"]}, {"b64": True}, {"crit": None}])
def test_critical_headers_are_refused(header: dict[str, Any]) -> None:
    text = forged(claims(NOW_S), {"alg": "RS256", "kid": "rsa", **header}, b"x")
    assert reason(text) == "its header has critical extensions (crit, b64)"


@pytest.mark.parametrize("kid", [1, True, [], {}, "x" * 1_025])
def test_a_key_id_is_text_of_a_bounded_size(kid: Any) -> None:
    assert reason(forged(claims(NOW_S), {"alg": "RS256", "kid": kid}, b"x")).startswith("its key id (kid) is not text")


def test_a_token_is_bounded_before_anything_of_it_is_read() -> None:
    longest = token({**claims(NOW_S), "groups": "x" * 11_000})
    assert TOKEN_BYTES_MAX * 0.9 < len(longest) < TOKEN_BYTES_MAX
    assert verifier().accept(longest).principal == "alice"
    assert reason("x" * (TOKEN_BYTES_MAX + 1)) == f"it has more than {TOKEN_BYTES_MAX} bytes"


@pytest.mark.parametrize("parts", [1, 2, 4, 5])
def test_a_token_has_three_parts_and_is_not_encrypted(parts: int) -> None:
    assert reason(".".join(["eyJhIjoxfQ"] * parts)) == "it is not a signed JSON Web Token of three parts"


def test_deep_and_odd_json_is_refused_like_any_other() -> None:
    for data in (b"[" * 10_000, b"1" * 5_000, b'"text"', b"null", b"\xff", b""):
        assert reason(f"{encoded(data) or 'A'}.e30.AA")
    for data in (b"[" * 10_000, b'"text"', b"[]", b"\xff"):
        assert reason(token(data)).startswith("its claims ")


def test_claims_are_checked_only_behind_a_right_signature_and_always_behind_it() -> None:
    expired = claims(NOW_S, exp=NOW_S - 60)
    assert reason(token(expired)) == "it expired 60 s ago"
    other = token(expired).rpartition(".")[0]
    assert reason(f"{other}.{token(claims(NOW_S)).rpartition('.')[2]}") == "its signature is wrong"
