"""The messages of OAUTHBEARER: their form, the authorization id, and the refusal in two steps."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.broker.security.sasl.exchanges import ExchangeStep, LoginRefused
from sordini.broker.security.sasl.oauthbearer.claims import AcceptedToken, TokenRefused
from sordini.broker.security.sasl.oauthbearer.exchange import BearerExchange, ClientMessage, read_message

GOOD = b"n,,\x01auth=Bearer a.b.c\x01\x01"


def accept(token: str) -> AcceptedToken:
    if token != "a.b.c":
        raise TokenRefused("its signature is wrong")
    return AcceptedToken("al,i=ce", 5_000)


def refused(data: bytes) -> str:
    with pytest.raises(LoginRefused) as error:
        BearerExchange(accept).step(data)
    return str(error.value)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (GOOD, ClientMessage("a.b.c", "", {})),
        (b"n,,\x01auth=bEARER   a.b.c==\x01\x01", ClientMessage("a.b.c==", "", {})),
        (b"n,a=al=2Ci=3Dce,\x01auth=Bearer t\x01\x01", ClientMessage("t", "al,i=ce", {})),
        (b"y,,\x01auth=Bearer t\x01\x01", ClientMessage("t", "", {})),
        (b"n,,\x01a=1\x01auth=Bearer t\x01B=x=y \t\x01\x01", ClientMessage("t", "", {"a": "1", "B": "x=y \t"})),
    ],
)
def test_a_first_message_is_read(data: bytes, message: ClientMessage) -> None:
    assert read_message(data) == message
    assert "token" not in repr(message)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x01",
        b"n,,\x01\x01",
        b"n,,auth=Bearer t\x01\x01",
        b"n,,\x01auth=Bearer t\x01",
        b"n,,\x01auth=Bearer t",
        b"n,,\x01auth=Bearer t\x01\x01\x01",
        b"n,,\x01auth=Bearer t\x01\x01x",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Bearer\x01\x01",
        b"n,,\x01auth=Basic t\x01\x01",
        b"n,,\x01auth=Bearer a b\x01\x01",
        b"n,,\x01auth=Bearer t,u\x01\x01",
        b"n,,\x01AUTH=Bearer t\x01\x01",
        b"n,,\x01auth=Bearer t\x01auth=Bearer t\x01\x01",
        b"n,,\x01auth=Bearer t\x01a=1\x01a=2\x01\x01",
        b"n,,\x01auth=Bearer t\x01a=\x01\x01",
        b"n,,\x01auth=Bearer t\x01a1=b\x01\x01",
        b"n,,\x01auth=Bearer t\x01=b\x01\x01",
        b"n,,\x01auth=Bearer t\x01a\x01\x01",
        b"n,,\x01auth=Bearer t\x01a=\x7f\x01\x01",
        b"n,,\x01auth=Bearer t\x01a=\xc3\xa9\x01\x01",
        b"p=tls-unique,,\x01auth=Bearer t\x01\x01",
        b"n,a=,\x01auth=Bearer t\x01\x01",
        b"n,a=x=,\x01auth=Bearer t\x01\x01",
        b"n,a=x,y,\x01auth=Bearer t\x01\x01",
        b"n,b=x,\x01auth=Bearer t\x01\x01",
        b"n,\x01auth=Bearer t\x01\x01",
        b"F,n,,\x01auth=Bearer t\x01\x01",
        b"\0alice\0secret",
    ],
)
def test_a_first_message_of_another_form_is_refused(data: bytes) -> None:
    assert refused(data).startswith("Authentication failed: the first message of OAUTHBEARER is malformed")


@given(st.binary(max_size=100) | st.binary(max_size=40).map(lambda data: GOOD[:4] + data + b"\x01\x01"))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with suppress(LoginRefused):
        assert read_message(data).token


KEYS = st.text("abcXYZ", min_size=1, max_size=5).filter(lambda key: key != "auth")
VALUES = st.text([chr(code) for code in (*range(0x20, 0x7F), 9, 10, 13)], min_size=1, max_size=20)


@given(st.dictionaries(KEYS, VALUES, max_size=5), st.integers(0, 5))
def test_extensions_are_what_was_sent_wherever_the_token_stands(extensions: dict[str, str], position: int) -> None:
    pairs = [f"{key}={value}\x01" for key, value in extensions.items()]
    pairs.insert(position, "auth=Bearer t\x01")
    assert read_message(f"n,,\x01{''.join(pairs)}\x01".encode()) == ClientMessage("t", "", extensions)


def test_an_accepted_token_completes_the_exchange_for_its_principal_and_until_its_end() -> None:
    assert BearerExchange(accept).step(GOOD) == ExchangeStep(b"", "al,i=ce", 5_000)


def test_an_authorization_id_is_the_principal_or_empty() -> None:
    """CVE-2017-12610."""
    own = GOOD.replace(b"n,,", b"n,a=al=2Ci=3Dce,")
    assert BearerExchange(accept).step(own).user == "al,i=ce"
    for other in (b"root", b"al", b"al=2Ci=3Dce2"):
        assert "authorization id different" in refused(GOOD.replace(b"n,,", b"n,a=" + other + b","))


@pytest.mark.parametrize("answer", [b"\x01", b"", b"x", GOOD])
def test_a_refused_token_is_answered_with_its_status_and_fails_whatever_the_client_sends_then(answer: bytes) -> None:
    exchange = BearerExchange(accept)
    progress = exchange.step(GOOD.replace(b"a.b.c", b"a.b.d"))
    assert progress == ExchangeStep(b'{"status":"invalid_token"}', failure="its signature is wrong")
    for _ in range(2):
        with pytest.raises(LoginRefused, match=r'^{"status":"invalid_token"}$'):
            exchange.step(answer)
