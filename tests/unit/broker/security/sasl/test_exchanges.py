"""The broker's side of PLAIN and SCRAM, against the client's side of ours, which real brokers have judged."""

from __future__ import annotations

import base64
import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.broker.security.sasl.exchanges import ExchangeStep, LoginRefused, PlainExchange, ScramExchange
from sordini.broker.security.sasl.scram_credential import (
    HASHES,
    ScramCredential,
    credential_of,
    read_credential,
    salted,
)
from sordini.client.scram import Scram, ScramError

MECHANISM = "SCRAM-SHA-256"
SALT = b"pepper-and-salt"
ITERATIONS = 4_096


def stored(mechanism: str, password: str) -> ScramCredential:
    return credential_of(mechanism, salted(mechanism, password, SALT, ITERATIONS), SALT, ITERATIONS)


def an_exchange(user: str = "alice", password: str = "secret", mechanism: str = MECHANISM) -> ScramExchange:
    known = stored(mechanism, password)

    def credential(*key: str) -> tuple[ScramCredential, bool]:
        return known, key == (mechanism, user)

    return ScramExchange(mechanism, credential, "ours")


@pytest.mark.parametrize("mechanism", HASHES)
@pytest.mark.parametrize("user", ["alice", "a,b=c", "élise", "=2C"])
def test_a_client_with_the_password_is_known_and_knows_the_broker(mechanism: str, user: str) -> None:
    client = Scram(mechanism, user, "secret", "theirs")
    exchange = an_exchange(user, "secret", mechanism)
    challenge = exchange.step(client.first()).challenge
    assert challenge.startswith(b"r=theirsours,s=")
    last = exchange.step(client.final(challenge))
    assert last.user == user
    client.verify(last.challenge)


@pytest.mark.parametrize(("user", "password"), [("alice", "wrong"), ("nobody", "secret"), ("nobody", "wrong")])
def test_a_wrong_password_and_an_unknown_user_are_refused_at_the_same_step_in_the_same_words(
    user: str, password: str
) -> None:
    client = Scram(MECHANISM, user, password, "theirs")
    exchange = an_exchange()
    challenge = exchange.step(client.first()).challenge
    assert b"i=4096" in challenge
    with pytest.raises(LoginRefused, match="invalid credentials with SASL mechanism SCRAM-SHA-256"):
        exchange.step(client.final(challenge))


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"n,,",
        b"p=tls-unique,,n=alice,r=x",
        b"n,,r=x,n=alice",
        b"n,,n=alice",
        b"n,,n=alice,r=",
        b"n,,n=,r=x",
        b"n,,n=al=ice,r=x",
        b"n,,m=ext,n=alice,r=x",
        b"n,,n=alice,r=x,m=ext",
        b"n,b=alice,n=alice,r=x",
        b"n,,n=alice,r=\xff",
        b"n,,n=alice,r=" + b"x" * 2_000,
    ],
)
def test_a_malformed_first_message_is_refused(first: bytes) -> None:
    with pytest.raises(LoginRefused, match="malformed"):
        an_exchange().step(first)


def test_an_authorization_id_is_the_user_itself_or_empty() -> None:
    assert an_exchange().step(b"n,a=alice,n=alice,r=x").challenge
    with pytest.raises(LoginRefused, match="different from username"):
        an_exchange().step(b"n,a=admin,n=alice,r=x")


def test_a_delegation_token_is_refused_by_name() -> None:
    with pytest.raises(LoginRefused, match="delegation tokens are not served"):
        an_exchange().step(b"n,,n=alice,r=x,tokenauth=true")


@pytest.mark.parametrize(
    "change",
    [
        lambda final: final.replace(b"r=theirsours", b"r=xtheirsours"),
        lambda final: final.replace(b"r=theirsours", b"r=theirsoursx"),
        lambda final: final.replace(b"r=theirsours", b"r=ours"),
        lambda final: final.replace(b"c=biws", b"c=eSws"),
        lambda final: final.replace(b",p=", b",q="),
        lambda final: final[:-4],
        lambda final: final + b"AAAA",
        lambda final: final.rpartition(b",p=")[0] + b",p=***",
    ],
)
def test_a_final_message_with_another_nonce_header_or_proof_is_refused(change) -> None:  # type: ignore[no-untyped-def]
    """CVE-2024-56128: the nonce is compared as a whole."""
    client, exchange = Scram(MECHANISM, "alice", "secret", "theirs"), an_exchange()
    final = client.final(exchange.step(client.first()).challenge)
    with pytest.raises(LoginRefused):
        exchange.step(change(final))


def test_a_message_of_another_login_proves_nothing() -> None:
    client = Scram(MECHANISM, "alice", "secret", "theirs")
    known = stored(MECHANISM, "secret")
    first = ScramExchange(MECHANISM, lambda *_: (known, True), "one")
    second = ScramExchange(MECHANISM, lambda *_: (known, True), "two")
    final = client.final(first.step(client.first()).challenge)
    second.step(client.first())
    with pytest.raises(LoginRefused):
        second.step(final)


@given(st.lists(st.binary(max_size=60), min_size=1, max_size=3))
def test_tokens_of_any_kind_never_log_in_and_raise_nothing_else(tokens: list[bytes]) -> None:
    for exchange in (an_exchange(), PlainExchange({"alice": "secret"}.get)):
        try:
            progress = [exchange.step(token) for token in tokens]
        except LoginRefused:
            continue
        assert all(one.user is None for one in progress)


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        (b"\0alice\0wrong", "Invalid username or password"),
        (b"\0nobody\0secret", "Invalid username or password"),
        (b"\0alice\0", "not specified"),
        (b"\0\0secret", "not specified"),
        (b"alice\0secret", "three parts"),
        (b"\0alice\0secret\0", "three parts"),
        (b"admin\0alice\0secret", "different from username"),
        (b"\0alice\0\xff", "not UTF-8"),
    ],
)
def test_a_plain_token_that_is_wrong_is_refused(token: bytes, reason: str) -> None:
    with pytest.raises(LoginRefused, match=reason):
        PlainExchange({"alice": "secret"}.get).step(token)


@pytest.mark.parametrize("authorization_id", ["", "alice"])
def test_a_plain_token_with_the_password_logs_its_user_in(authorization_id: str) -> None:
    token = f"{authorization_id}\0alice\0secret".encode()
    assert PlainExchange({"alice": "secret"}.get).step(token) == ExchangeStep(b"", "alice")


@pytest.mark.parametrize("mechanism", HASHES)
def test_a_credential_is_read_back_from_its_text(mechanism: str) -> None:
    credential = stored(mechanism, "secret")
    assert read_credential(mechanism, credential.text) == credential
    assert base64.b64encode(credential.stored_key).decode() in credential.text
    assert "secret" not in repr(credential)
    assert base64.b64encode(credential.server_key).decode() not in repr(credential)


@pytest.mark.parametrize(
    "text",
    ["", "salt=", "salt=x,stored_key=x,server_key=x,iterations=4096", "salt=AAAA,stored_key=AAAA,server_key=AAAA"],
)
def test_text_that_is_no_credential_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(ValueError, match=r"^this is not a credential of SCRAM-SHA-512$"):
        read_credential("SCRAM-SHA-512", text)


def test_what_apache_kafka_stored_is_read() -> None:
    """As its tool writes it for the password `secret`, salt `pepper-and-salt`."""
    password = hashlib.pbkdf2_hmac("sha256", b"secret", SALT, ITERATIONS)
    assert credential_of(MECHANISM, password, SALT, ITERATIONS) == stored(MECHANISM, "secret")


def test_our_client_refuses_a_broker_that_does_not_know_the_password() -> None:
    client, exchange = Scram(MECHANISM, "alice", "secret", "theirs"), an_exchange()
    client.final(exchange.step(client.first()).challenge)
    with pytest.raises(ScramError):
        client.verify(b"v=" + base64.b64encode(b"x" * 32))
