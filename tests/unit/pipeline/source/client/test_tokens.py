"""Where tokens come from: what the options say, and what a callback may return."""

from __future__ import annotations

import pickle
import time

import pytest

from sordini.pipeline.errors import BadSetting
from sordini.pipeline.source.client import ClientSettings
from sordini.pipeline.source.client.tokens import KeptTokens, NoToken, TokenEndpoint, TokenSource
from tests.support import token_callbacks

HERE = token_callbacks.__name__
BEARER = {
    "kafka.bootstrap.servers": "one:9092",
    "kafka.security.protocol": "SASL_PLAINTEXT",
    "kafka.sasl.mechanism": "OAUTHBEARER",
}
URL = "kafka.sasl.oauthbearer.token.endpoint.url"
CALLBACK = "kafka.sasl.oauthbearer.token.callback"
JAAS = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"


def source(**options: str) -> TokenSource:
    found = ClientSettings.from_options({**BEARER, **options}).sasl
    assert isinstance(found, TokenSource)
    return found


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({CALLBACK: "my.tokens:make"}, TokenSource("my.tokens:make")),
        ({CALLBACK: "m:f", "kafka.sasl.oauthbearer.config": "eu-west-1"}, TokenSource("m:f", "eu-west-1")),
        ({URL: "file:///run/token"}, TokenSource(path="/run/token")),
        (
            {
                URL: "https://i/token",
                "kafka.sasl.oauthbearer.client.id": "me",
                "kafka.sasl.oauthbearer.client.secret": "s",
            },
            TokenSource(endpoint=TokenEndpoint("https://i/token", "me", "s")),
        ),
        (
            {
                URL: "https://i/token",
                "kafka.sasl.oauthbearer.client.credentials.client.id": "me",
                "kafka.sasl.oauthbearer.client.credentials.client.secret": "s",
                "kafka.sasl.oauthbearer.scope": "kafka",
                "kafka.sasl.oauthbearer.extensions": "logicalCluster=lkc-1, identityPoolId=pool-2",
            },
            TokenSource(
                endpoint=TokenEndpoint("https://i/token", "me", "s", "kafka"),
                extensions=(("logicalCluster", "lkc-1"), ("identityPoolId", "pool-2")),
            ),
        ),
        (
            {
                URL: "https://i/token",
                "kafka.sasl.jaas.config": f'{JAAS} clientId="me" clientSecret="s" scope="a b" extension_tenant="t";',
            },
            TokenSource(endpoint=TokenEndpoint("https://i/token", "me", "s", "a b"), extensions=(("tenant", "t"),)),
        ),
    ],
)
def test_a_source_of_tokens_is_named_as_in_other_clients(given: dict[str, str], expected: TokenSource) -> None:
    found = source(**given)
    assert found == expected
    assert pickle.loads(pickle.dumps(found)) == expected
    assert "'s'" not in repr(found)


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({}, "needs either kafka.sasl.oauthbearer.token.callback or"),
        ({CALLBACK: "m:f", URL: "file:///x"}, "needs either"),
        ({CALLBACK: "m.f"}, "is 'm.f', which is not `module:function`"),
        ({CALLBACK: "m:f", "kafka.sasl.username": "ann"}, "a token names the user"),
        ({URL: "file:token"}, "allowed is file:///path"),
        ({URL: "ftp://i"}, "has to begin with https://, http:// or file:"),
        ({URL: "https://i"}, "needs kafka.sasl.oauthbearer.client.credentials.client.id"),
        ({URL: "file:///x", "kafka.sasl.oauthbearer.config": "x"}, "is the argument of"),
        ({CALLBACK: "m:f", "kafka.sasl.oauthbearer.extensions": "auth=x"}, "has 'auth=x', which is no NAME=VALUE"),
        ({CALLBACK: "m:f", "kafka.sasl.jaas.config": 'a.PlainLoginModule required username="x";'}, "is needed"),
        ({"kafka.sasl.mechanism": "PLAIN", CALLBACK: "m:f"}, "is an option of kafka.sasl.mechanism=OAUTHBEARER"),
        ({CALLBACK: "m:f", "kafka.sasl.login.callback.handler.class": "a.B"}, "names a function in Python"),
    ],
)
def test_a_source_of_tokens_that_is_none_is_refused(given: dict[str, str], complaint: str) -> None:
    with pytest.raises(BadSetting) as caught:
        source(**given)
    assert complaint in str(caught.value)


def called() -> int:
    """How many calls there were until now; the asking is one itself."""
    return next(token_callbacks.CALLS)


def test_a_token_is_kept_while_it_is_known_to_be_valid_and_until_a_broker_refuses_it() -> None:
    amazons = TokenSource(f"{HERE}:in_milliseconds", "x.y.z")
    before = called()
    assert [amazons.credentials().password for _ in range(3)] == ["x.y.z"] * 3
    assert called() == before + 2
    amazons.forget()
    amazons.credentials()
    assert called() == before + 4


def test_a_token_is_replaced_when_a_fifth_of_its_time_is_left() -> None:
    source, kept, now_s = TokenSource(f"{HERE}:in_milliseconds", "of.ten.minutes"), KeptTokens(), time.time()
    before = called()
    kept.token(source, now_s)
    kept.token(source, now_s + 470)
    assert called() == before + 2
    kept.token(source, now_s + 490)
    assert called() == before + 4


def test_a_token_without_an_end_is_made_for_each_login() -> None:
    plain = TokenSource(f"{HERE}:text_alone")
    before = called()
    assert [plain.credentials().password for _ in range(3)] == ["a.b.c"] * 3
    assert called() == before + 4


@pytest.mark.parametrize(
    ("function", "complaint"),
    [
        ("raises", f"the callback {HERE}:raises failed: RuntimeError: the vault is sealed"),
        ("no_text", "returned dict, and has to return a token as text"),
        ("no_time", "returned str as the token's end"),
        ("no_token", "gave no bearer token"),
        ("ended", "gave a token that has ended 60 s ago"),
    ],
)
def test_what_a_callback_does_wrong_is_the_reason_of_the_refused_login(function: str, complaint: str) -> None:
    failing = TokenSource(f"{HERE}:{function}")
    with pytest.raises(NoToken) as caught:
        failing.credentials()
    assert complaint in str(caught.value)
    assert "two words" not in str(caught.value)


@pytest.mark.parametrize(
    ("callback", "complaint"),
    [
        ("nowhere_at_all:make", "cannot be imported: No module named 'nowhere_at_all'"),
        (f"{HERE}:nothing", "cannot be imported: module"),
        (f"{HERE}:NO_FUNCTION", "is no function, but int"),
    ],
)
def test_a_callback_that_is_not_there_is_named(callback: str, complaint: str) -> None:
    with pytest.raises(BadSetting) as caught:
        TokenSource(callback).credentials()
    assert complaint in str(caught.value)
