"""Key sets: which keys are used, for what, and which documents are refused."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed448, rsa
from hypothesis import given
from hypothesis import strategies as st
from jwt.algorithms import OKPAlgorithm

from sordini.broker.security.sasl.oauthbearer.key_set import (
    DOCUMENT_BYTES_MAX,
    KEYS_MAX,
    KeySet,
    KeySetError,
    read_key_set,
)
from tests.support.token_issuer import jwk, key_set, private_keys

GOOD = jwk("p256")
SECRET: dict[str, Any] = {
    "kty": "oct",
    "kid": "secret",
    "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3JldA",
    "alg": "HS256",
}


def skipped(key: Any) -> str:
    """Why a key is not used, beside one that is."""
    found = read_key_set(key_set(GOOD, key))
    assert [one.key_id for one in found.keys] == ["p256"]
    (reason,) = found.skipped
    return reason.removeprefix("key 1: ")


def refused(document: bytes) -> str:
    with pytest.raises(KeySetError) as error:
        read_key_set(document)
    return str(error.value)


def test_each_kind_of_key_is_for_its_algorithms() -> None:
    found = read_key_set(key_set())
    assert {key.key_id: sorted(key.algorithms) for key in found.keys} == {
        "rsa": ["PS256", "PS384", "PS512", "RS256", "RS384", "RS512"],
        "p256": ["ES256"],
        "p384": ["ES384"],
        "p521": ["ES512"],
        "ed25519": ["EdDSA"],
    }
    assert found.skipped == ()


def test_a_key_is_found_by_its_id_and_its_algorithm() -> None:
    found = read_key_set(key_set(jwk("rsa"), jwk("rsa", private_keys()["p256"]), jwk("p384")))
    assert found.find("rsa", "ES256") == found.keys[1], "keys of different kinds may share an id (RFC 7517, 4.5)"
    assert found.find("rsa", "PS512") == found.keys[0]
    assert found.find("rsa", "ES384") is None
    assert found.find("none", "RS256") is None
    assert found.find(None, "ES384") == found.keys[2]
    assert (found.knows("p384"), found.knows("p521")) == (True, False)


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        (SECRET, "its kind, curve or algorithm is not served"),
        (jwk("rsa", alg="RSA-OAEP"), "its kind, curve or algorithm is not served"),
        (jwk("rsa", alg="HS256"), "its kind, curve or algorithm is not served"),
        (jwk("rsa", alg="ES256"), "its kind, curve or algorithm is not served"),
        (jwk("rsa", alg=None), "its kind, curve or algorithm is not served"),
        (jwk("rsa", kty="rsa"), "its kind, curve or algorithm is not served"),
        (jwk("p256", kty=["EC"]), "its kind, curve or algorithm is not served"),
        (jwk("k", ec.generate_private_key(ec.SECP256K1())), "its kind, curve or algorithm is not served"),
        (jwk("rsa", use="enc"), "it is not for signatures"),
        (jwk("rsa", use=None), "it is not for signatures"),
        (jwk("rsa", key_ops=["encrypt"]), "it is not for signatures"),
        (jwk("rsa", key_ops="verify"), "it is not for signatures"),
        (jwk("rsa", kid=7), "its id is not text"),
        (jwk("weak", rsa.generate_private_key(65537, 1024)), "RSA of 1024 bits; used are 2048 to 8192"),
        ({"kty": "RSA", "kid": "x"}, "its numbers are missing or wrong"),
        (jwk("rsa", n="AQ"), "its numbers are missing or wrong"),
        (jwk("rsa", n=1), "its numbers are missing or wrong"),
        (jwk("p256", x=GOOD["y"]), "its numbers are missing or wrong"),
        (jwk("p256", crv="P-384"), "its numbers are missing or wrong"),
        (jwk("ed25519", x="AA"), "its numbers are missing or wrong"),
        ("text", "it is no object"),
        (None, "it is no object"),
    ],
)
def test_a_key_that_cannot_be_used_is_skipped_with_the_reason(key: Any, reason: str) -> None:
    assert skipped(key) == reason


def test_other_curves_are_not_served() -> None:
    key = OKPAlgorithm.to_jwk(ed448.Ed448PrivateKey.generate().public_key(), as_dict=True)
    assert skipped({**key, "kid": "x"}) == "its kind, curve or algorithm is not served"


@pytest.mark.parametrize("key_id", ["rsa", "p256", "ed25519"])
def test_a_set_with_a_private_key_is_refused_as_a_whole(key_id: str) -> None:
    document = key_set(GOOD, jwk(key_id, is_private=True))
    assert refused(document).startswith("it has a private key, with which others can sign")


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"\xff",
        b"[]",
        b"{}",
        b'{"keys": {}}',
        b'{"keys": "x"}',
        b"[" * 100_000,
        b"1" * 5000,
        b'{"keys":[' + b"{}," * 9,
    ],
)
def test_a_document_that_is_no_key_set_is_refused(document: bytes) -> None:
    assert refused(document).startswith(("it is not JSON", "it is no JSON Web Key Set"))


def test_a_set_without_a_key_that_can_be_used_is_refused_with_reasons() -> None:
    assert refused(b'{"keys": []}') == "no key of it can verify tokens"
    assert refused(key_set(SECRET)) == (
        "no key of it can verify tokens; key 0: its kind, curve or algorithm is not served"
    )


def test_documents_are_bounded_in_bytes_and_in_keys() -> None:
    whole = key_set(GOOD)
    assert read_key_set(whole.ljust(DOCUMENT_BYTES_MAX)).keys
    assert "more than" in refused(whole.ljust(DOCUMENT_BYTES_MAX + 1))
    assert len(read_key_set(json.dumps({"keys": [GOOD] + [{}] * (KEYS_MAX - 1)}).encode()).keys) == 1
    assert f"at most {KEYS_MAX} keys" in refused(json.dumps({"keys": [GOOD] + [{}] * KEYS_MAX}).encode())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=5,
)
MEMBERS = ["kty", "crv", "kid", "alg", "use", "key_ops", "n", "e", "x", "y"]


@given(st.sampled_from(["rsa", "p256", "ed25519"]), st.dictionaries(st.sampled_from(MEMBERS), JSON, max_size=4))
def test_a_key_with_any_members_is_used_or_skipped(key_id: str, members: dict[str, Any]) -> None:
    found = read_key_set(key_set(GOOD, jwk(key_id, **members)))
    assert len(found.keys) + len(found.skipped) == 2


@given(st.binary(max_size=200))
def test_any_bytes_are_a_key_set_or_refused(data: bytes) -> None:
    with suppress(KeySetError):
        assert isinstance(read_key_set(data), KeySet)
