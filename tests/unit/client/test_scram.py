"""SCRAM against the examples of its RFCs, and against servers that cheat."""

from __future__ import annotations

import pytest

from sordini.client.scram import Scram, ScramError

# RFC 7677, section 3.
NONCE = "rOprNGfwEbeRWgbNEkqO"
FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
FINAL = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
VERIFIED = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def a_login() -> Scram:
    return Scram("SCRAM-SHA-256", "user", "pencil", NONCE)


def test_the_example_of_the_rfc_comes_out() -> None:
    login = a_login()
    assert login.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert login.final(FIRST) == FINAL
    login.verify(VERIFIED)


def test_names_keep_their_commas_and_equals_signs() -> None:
    assert Scram("SCRAM-SHA-512", "a,=b", "x", "N").first() == b"n,,n=a=2C=3Db,r=N"


@pytest.mark.parametrize(
    "first",
    [
        FIRST.replace(b"rOpr", b"xOpr"),
        b"r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        FIRST.replace(b"4096", b"4095"),
        FIRST.replace(b"4096", b"1000001"),
        FIRST.replace(b"4096", b"many"),
        FIRST.replace(b",i=4096", b""),
        FIRST.replace(b"W22Z", b"!!!!"),
        FIRST.replace(b"s=W22ZaJ0SNY7soEsUEjb6gQ==", b"s="),
        b"",
        b"\xff\xff",
    ],
)
def test_a_server_that_breaks_the_rules_gets_no_proof(first: bytes) -> None:
    with pytest.raises(ScramError):
        a_login().final(first)


@pytest.mark.parametrize("last", [VERIFIED.replace(b"6rri", b"7rri"), b"v=", b"", b"e=other-error"])
def test_a_server_that_does_not_know_the_password_is_not_believed(last: bytes) -> None:
    login = a_login()
    login.final(FIRST)
    with pytest.raises(ScramError):
        login.verify(last)
